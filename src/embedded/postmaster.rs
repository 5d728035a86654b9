//! The running server process.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::home::Home;
use crate::Error;

/// How long a start may take. After a crash the server first replays its log.
const START_LIMIT: Duration = Duration::from_secs(300);

/// How long a fast stop may take before it becomes an immediate one. It ends with a checkpoint.
const FAST_LIMIT: Duration = Duration::from_secs(60);

/// How long an immediate stop may take; the server itself kills what is still there after 5 s.
const IMMEDIATE_LIMIT: Duration = Duration::from_secs(15);

/// How often to look.
const PAUSE: Duration = Duration::from_millis(5);

/// How to stop.
#[derive(Clone, Copy)]
pub(super) enum Stop {
    /// Cut the sessions off, write everything down, end.
    Fast,
    /// End at once, as in a crash: the next start recovers.
    Immediate,
}

pub(super) struct Postmaster(Child);

impl Postmaster {
    pub(super) fn spawn(mut command: Command, home: &Home) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::server("cannot run postgres").because(error);
        let log = File::options()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(home.log())
            .map_err(failed)?;
        let errors = log.try_clone().map_err(failed)?;
        command
            .stdout(log)
            .stderr(errors)
            .spawn()
            .map(Postmaster)
            .map_err(failed)
    }

    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits until the server takes connections.
    pub(super) fn wait_until_ready(&mut self, home: &Home) -> Result<(), Error> {
        let deadline = Instant::now() + START_LIMIT;
        while !self.is_ready(home) {
            if let Some(status) = self.exited()? {
                return Err(Error::server(format!(
                    "the server did not start ({status}): {}",
                    last_words(home)
                )));
            }
            if Instant::now() > deadline {
                let seconds = START_LIMIT.as_secs();
                return Err(Error::server(format!(
                    "the server is not ready after {seconds} s: {}",
                    last_words(home)
                )));
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// The server writes its process id on the first line of its pid file, its state on the eighth.
    fn is_ready(&self, home: &Home) -> bool {
        let text = fs::read_to_string(home.data().join("postmaster.pid")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        lines.first() == Some(&self.id().to_string().as_str()) && lines.get(7) == Some(&"ready")
    }

    pub(super) fn is_running(&mut self) -> Result<bool, Error> {
        Ok(self.exited()?.is_none())
    }

    fn exited(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.0
            .try_wait()
            .map_err(|error| Error::server("lost sight of the server").because(error))
    }

    /// Stops the server and waits for its end; less and less gently if it does not come.
    pub(super) fn stop(&mut self, how: Stop) -> Result<(), Error> {
        let steps = [
            (Signal::SIGINT, FAST_LIMIT),
            (Signal::SIGQUIT, IMMEDIATE_LIMIT),
            (Signal::SIGKILL, IMMEDIATE_LIMIT),
        ];
        let first = match how {
            Stop::Fast => 0,
            Stop::Immediate => 1,
        };
        for (signal, limit) in &steps[first..] {
            if self.ends_on(*signal, *limit)? {
                return Ok(());
            }
        }
        Err(Error::server(format!("process {} cannot be stopped", self.id())))
    }

    fn ends_on(&mut self, signal: Signal, limit: Duration) -> Result<bool, Error> {
        let deadline = Instant::now() + limit;
        if self.is_running()? {
            // Ours and not yet waited for, so this number is nobody else's.
            let pid = Pid::from_raw(self.id().cast_signed());
            kill(pid, signal).map_err(|error| Error::server("cannot signal the server").because(error))?;
        }
        while self.is_running()? {
            if Instant::now() > deadline {
                return Ok(false);
            }
            thread::sleep(PAUSE);
        }
        Ok(true)
    }
}

/// The end of the server's log, on one line.
fn last_words(home: &Home) -> String {
    let text = fs::read(home.log()).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("; ")
}
