//! The program `doorbell` as a process of its own.

use std::env;
use std::ffi::OsStr;
#[cfg(target_os = "linux")]
use std::fs;
use std::path::Path;
#[cfg(target_os = "linux")]
use std::path::PathBuf;
use std::process::{ExitStatus, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::timeout;

/// Enough for a start on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A call of the program that knows nothing of this process's own database settings.
pub(crate) fn doorbell<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let is_setting = text.starts_with("PG") || text.starts_with("DOORBELL_") && text != "DOORBELL_PG_BIN";
        if is_setting || text == "DATABASE_URL" || text == "RUST_LOG" {
            command.env_remove(name);
        }
    }
    command.args(args).kill_on_drop(true);
    command
}

/// Runs it to its end.
pub(crate) async fn output(command: &mut Command) -> Output {
    timeout(LIMIT, command.stdin(Stdio::null()).output())
        .await
        .unwrap()
        .unwrap()
}

/// What it prints, without the last line's end. Fails if it fails.
pub(crate) async fn printed<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> String {
    let output = output(&mut doorbell(args)).await;
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {complaint}", output.status);
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// The same, as the one JSON value that it is.
pub(crate) async fn json<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Value {
    serde_json::from_str(&printed(args).await).unwrap()
}

/// The program, running. Killed with the value.
pub(crate) struct Process {
    child: Child,
    stdout: Lines,
    stderr: Lines,
}

impl Process {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let piped = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        Process {
            stdout: Lines::of(child.stdout.take().unwrap()),
            stderr: Lines::of(child.stderr.take().unwrap()),
            child,
        }
    }

    /// `doorbell run` with this file, as soon as it is ready.
    pub(crate) async fn run(config: &Path, args: &[&str]) -> Self {
        let process = Process::spawn(doorbell(["run", "--config"]).arg(config).args(args));
        process.says("ready").await;
        process
    }

    /// The first line on standard error that contains this, as soon as there is one.
    pub(crate) async fn says(&self, text: &str) -> String {
        self.stderr.line_with(text).await
    }

    /// The first line on standard output that contains this, as soon as there is one.
    pub(crate) async fn prints(&self, text: &str) -> String {
        self.stdout.line_with(text).await
    }

    /// All that it has printed on standard output.
    pub(crate) fn stdout(&self) -> Vec<String> {
        self.stdout.0.borrow().clone()
    }

    /// All that it has said on standard error.
    pub(crate) fn stderr(&self) -> Vec<String> {
        self.stderr.0.borrow().clone()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self.child.id().unwrap();
        kill(Pid::from_raw(pid.cast_signed()), signal).unwrap();
    }

    /// Waits for its end, however long it runs.
    pub(crate) async fn ended(&mut self) {
        self.child.wait().await.unwrap();
    }

    /// Waits for its end, which is near, and for all that it has said.
    pub(crate) async fn exit(&mut self) -> ExitStatus {
        let status = timeout(LIMIT, self.child.wait()).await;
        let status = status
            .unwrap_or_else(|_| panic!("it does not end; it says {:?}", self.stderr()))
            .unwrap();
        self.stdout.end().await;
        self.stderr.end().await;
        status
    }
}

/// What the kernel says of it.
#[cfg(target_os = "linux")]
impl Process {
    /// The memory that it has, in bytes, as the kernel counts it.
    pub(crate) fn memory(&self) -> usize {
        self.status("VmRSS:")
    }

    /// The most that it has had at once.
    pub(crate) fn peak_memory(&self) -> usize {
        self.status("VmHWM:")
    }

    fn status(&self, field: &str) -> usize {
        let status = fs::read_to_string(self.proc("status")).unwrap();
        let size = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        size.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
    }

    /// How many file descriptors it has open.
    pub(crate) fn open_files(&self) -> usize {
        fs::read_dir(self.proc("fd")).unwrap().count()
    }

    fn proc(&self, name: &str) -> PathBuf {
        format!("/proc/{}/{name}", self.child.id().unwrap()).into()
    }

    /// The processor time that it has taken.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(self.proc("stat")).unwrap();
        // The second field, the name, is in brackets; of those behind it the 12th and 13th are ticks, a hundred a second.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks = |at: usize| fields[at].parse::<u64>().unwrap();
        Duration::from_millis((ticks(11) + ticks(12)) * 10)
    }
}

/// The lines that have come through a pipe.
struct Lines(watch::Receiver<Vec<String>>);

impl Lines {
    fn of(pipe: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let (keep, lines) = watch::channel(Vec::new());
        tokio::spawn(async move {
            let mut pipe = BufReader::new(pipe).lines();
            while let Some(line) = pipe.next_line().await.unwrap() {
                keep.send_modify(|lines: &mut Vec<String>| lines.push(line));
            }
        });
        Lines(lines)
    }

    async fn line_with(&self, text: &str) -> String {
        let mut lines = self.0.clone();
        let find = |lines: &Vec<String>| lines.iter().find(|line| line.contains(text)).cloned();
        let found = timeout(LIMIT, lines.wait_for(|lines| find(lines).is_some())).await;
        match found {
            Ok(Ok(lines)) => find(&lines).unwrap(),
            _ => panic!("{text:?} is not among {:?}", self.0.borrow()),
        }
    }

    async fn end(&self) {
        let mut lines = self.0.clone();
        while lines.changed().await.is_ok() {}
    }
}
