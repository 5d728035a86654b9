//! The reactors: `doorbell run` with the sender `webhook`, one of them behind a proxy.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::Outcome;
use crate::proxy::Proxy;

pub(crate) const REACTORS: usize = 3;
/// The one that reaches the server through the proxy.
pub(crate) const BEHIND_PROXY: usize = 0;
/// Short, so that a process may be frozen for longer.
pub(crate) const LEASE: Duration = Duration::from_secs(3);
const START_LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Fleet {
    reactors: Vec<Reactor>,
    /// How often one was started again.
    starts: usize,
    pub(crate) proxy: Proxy,
    _directory: TempDir,
}

struct Reactor {
    config: PathBuf,
    log: PathBuf,
    process: Child,
}

impl Fleet {
    /// As soon as all of them are ready. What they say is kept in `logs`, if given.
    pub(crate) async fn start(url: &str, provider: &str, logs: Option<&Path>) -> Outcome<Self> {
        let directory = tempfile::tempdir()?;
        let logs = logs.unwrap_or(directory.path());
        fs::create_dir_all(logs)?;
        let proxy = Proxy::start(url.parse()?).await?;
        let mut reactors = vec![];
        for number in 0..REACTORS {
            let url = if number == BEHIND_PROXY { &proxy.url() } else { url };
            let config = directory.path().join(format!("{number}.toml"));
            fs::write(&config, settings(url, &format!("{provider}/{number}")))?;
            let log = logs.join(format!("reactor-{number}.0.log"));
            let process = spawn(&config, &log)?;
            reactors.push(Reactor { config, log, process });
        }
        let mut fleet = Fleet {
            reactors,
            starts: 0,
            proxy,
            _directory: directory,
        };
        for reactor in &mut fleet.reactors {
            reactor.ready().await?;
        }
        Ok(fleet)
    }

    pub(crate) fn signal(&self, whom: usize, signal: Signal) -> Outcome<()> {
        let pid = self.reactors[whom % REACTORS].process.id();
        Ok(kill(Pid::from_raw(pid.try_into()?), signal)?)
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self, whom: usize) -> Outcome<()> {
        let process = &mut self.reactors[whom % REACTORS].process;
        process.kill()?;
        process.wait()?;
        Ok(())
    }

    pub(crate) async fn start_again(&mut self, whom: usize) -> Outcome<()> {
        let reactor = &mut self.reactors[whom % REACTORS];
        self.starts += 1;
        reactor.log.set_extension("");
        reactor.log.set_extension(format!("{}.log", self.starts));
        reactor.process = spawn(&reactor.config, &reactor.log)?;
        reactor.ready().await
    }
}

impl Reactor {
    /// Waits until it says that it is ready. Each start has a log of its own to say it in.
    async fn ready(&mut self) -> Outcome<()> {
        let begun = Instant::now();
        while !fs::read_to_string(&self.log)?.contains("ready") {
            if begun.elapsed() > START_LIMIT || self.process.try_wait()?.is_some() {
                return Err(format!("a reactor did not start: {}", fs::read_to_string(&self.log)?).into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for reactor in &mut self.reactors {
            // What comes of it cannot matter any more.
            let _ = reactor.process.kill();
            let _ = reactor.process.wait();
        }
    }
}

fn spawn(config: &Path, log: &Path) -> Outcome<Child> {
    let log = File::create(log)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
    command.args(["run", "--config"]).arg(config);
    Ok(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?)
}

fn settings(url: &str, webhook: &str) -> String {
    format!(
        "[database]\nurl = {url:?}\n[reactor]\nlease = '{}s'\n\
         [channels.ops]\nsender = 'webhook'\nurl = '{webhook}'\nmax_in_flight = 32\n",
        LEASE.as_secs()
    )
}
