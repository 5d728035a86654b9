//! The sender that runs a program.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures::future::{Either, join3, select};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin};
use tokio::runtime::Handle;
use tokio::time::{timeout, timeout_at};

use super::{excerpt, receipt};
use crate::{Notification, Receipt, SendError, Sender};

/// How much of a program's output is kept, in bytes and in characters; the rest is read and thrown away.
const KEPT: usize = 2048;

/// How long after the program's exit its pipes are still read. What it wrote itself is in them by then; longer than this
/// they are only open because a process that it left behind holds them.
const AFTER_EXIT: Duration = Duration::from_millis(100);

/// Runs a program for each notification: the JSON on its standard input; `DOORBELL_ID`, `DOORBELL_CHANNEL` and
/// `DOORBELL_ATTEMPT` in its environment, which it otherwise inherits.
///
/// | exit | meaning |
/// | --- | --- |
/// | 0 | sent; the first line on standard output is the receipt |
/// | 65 (`EX_DATAERR`) | never to be sent: failed at once |
/// | 75 (`EX_TEMPFAIL`), any other code, a signal, no such program | to be tried again |
///
/// The start of standard error becomes part of the error. A program need not read its input, and may write as much as it
/// likes: 2 kB are kept.
///
/// It runs in a process group of its own. When the send is given up (its deadline passes, the reactor stops) the whole
/// group is killed: the program with its children, unless they moved to another group. When the program has exited, the
/// send is over: children that it left running in the background are left alone, but their output is no longer read.
///
/// ```
/// use doorbell::senders::Command;
/// use doorbell::{Notification, Sender};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let sender = Command::new("sh").args(["-c", r#"echo "got $DOORBELL_CHANNEL""#]);
/// let receipt = sender.send(&Notification::example("ops", "#alerts", "{}")).await.unwrap();
/// assert_eq!(receipt.text(), Some("got ops"));
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct Command {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
}

impl Command {
    /// Runs this program: looked up in `PATH` if it is a bare name, relative to the working directory if it is a
    /// relative path. There is no shell in between.
    pub fn new(program: impl Into<OsString>) -> Self {
        Command {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
        }
    }

    /// Adds arguments. Default: none.
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable. The three of ours cannot be overridden. Default: the environment of this process.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    fn start(&self, notification: &Notification) -> io::Result<Running> {
        let leader = tokio::process::Command::new(&self.program)
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env("DOORBELL_ID", notification.id().to_string())
            .env("DOORBELL_CHANNEL", notification.channel())
            .env("DOORBELL_ATTEMPT", notification.attempt().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        Ok(Running { leader: Some(leader) })
    }
}

/// Names the program only: arguments and environment may hold secrets.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

impl Sender for Command {
    async fn send(&self, notification: &Notification) -> Result<Receipt, SendError> {
        let name = self.program.display();
        let mut running = self
            .start(notification)
            .map_err(|error| SendError::transient(format!("cannot start {name}: {error}")))?;
        match timeout_at(notification.deadline().into(), running.converse(notification.to_json())).await {
            Ok(Ok(ended)) => ended.verdict(&self.program),
            Ok(Err(error)) => Err(SendError::unknown(format!("cannot wait for {name}: {error}"))),
            Err(_) => Err(SendError::unknown(format!(
                "{name} ran past the deadline and was killed"
            ))),
        }
    }
}

/// A program that was started, and that does not outlive this value.
struct Running {
    /// The program: the leader of its process group. Here until dropped.
    leader: Option<Child>,
}

impl Running {
    /// Feeds the program and listens to it until it exits.
    async fn converse(&mut self, input: String) -> io::Result<Ended> {
        let leader = self.leader.as_mut().ok_or(io::ErrorKind::NotFound)?;
        let (stdin, out, err) = (leader.stdin.take(), leader.stdout.take(), leader.stderr.take());
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let status = {
            let traffic = join3(feed(stdin, input), listen(out, &mut stdout), listen(err, &mut stderr));
            match select(pin!(leader.wait()), pin!(traffic)).await {
                Either::Left((status, traffic)) => {
                    let _ = timeout(AFTER_EXIT, traffic).await;
                    status?
                }
                Either::Right((_, exit)) => exit.await?,
            }
        };
        Ok(Ended { status, stdout, stderr })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut leader) = self.leader.take() else { return };
        // No number any more: it was waited for, and the number may be somebody else's by now.
        let Some(group) = leader.id() else { return };
        let _ = killpg(Pid::from_raw(group.cast_signed()), Signal::SIGKILL);
        if let Ok(runtime) = Handle::try_current() {
            // Otherwise it would stay a zombie until the next child of this process exits.
            runtime.spawn(async move { leader.wait().await });
        }
    }
}

/// Writes the input and closes the pipe. A program may stop reading at any time: its exit code says what that means.
async fn feed(pipe: Option<ChildStdin>, input: String) {
    if let Some(mut pipe) = pipe {
        let _ = pipe.write_all(input.as_bytes()).await;
    }
}

/// Reads to the end and keeps the start.
async fn listen(pipe: Option<impl AsyncRead + Unpin>, kept: &mut Vec<u8>) {
    if let Some(mut pipe) = pipe {
        let _ = (&mut pipe).take(KEPT as u64).read_to_end(kept).await;
        let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    }
}

/// How a program ended, with the start of what it wrote.
struct Ended {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Ended {
    fn verdict(&self, program: &OsStr) -> Result<Receipt, SendError> {
        const EX_DATAERR: i32 = 65;

        let complaint = || format!("{}: {} {}", program.display(), self.status, excerpt(&self.stderr, KEPT));
        match self.status.code() {
            Some(0) => {
                let line = self.stdout.split(|&byte| byte == b'\n').next();
                Ok(receipt(line.unwrap_or_default(), KEPT))
            }
            Some(EX_DATAERR) => Err(SendError::permanent(complaint().trim_end())),
            _ => Err(SendError::transient(complaint().trim_end())),
        }
    }
}
