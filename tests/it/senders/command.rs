use std::fs;
use std::future::ready;
use std::path::Path;
use std::time::{Duration, Instant};

use doorbell::senders::Command;
use doorbell::{Notification, Receipt, SendError, Sender};
use tempfile::TempDir;
use tokio::time::timeout;

use super::{awkward_payloads, is_transient, is_unknown, notification};
use crate::support::{eventually, expect};

/// How long a process may take to start, write or die.
const PATIENCE: Duration = Duration::from_secs(10);

/// A script in a directory of its own, which it knows as `$DIR`.
struct Script {
    dir: TempDir,
    command: Command,
}

impl Script {
    fn new(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let command = Command::new("sh").args(["-c", text]).env("DIR", dir.path());
        Script { dir, command }
    }

    async fn send(&self, notification: &Notification) -> Result<Receipt, SendError> {
        self.command.send(notification).await
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.dir.path().join(file)).unwrap_or_default()
    }

    /// The process numbers that the script wrote to the file `pids`, once it has written so many.
    async fn pids(&self, count: usize) -> Vec<u32> {
        eventually(PATIENCE, || {
            let pids = self.read("pids");
            let pids: Vec<u32> = pids.lines().map(|line| line.trim().parse().unwrap()).collect();
            ready(if pids.len() == count {
                Ok(pids)
            } else {
                Err(format!("{pids:?}"))
            })
        })
        .await
    }
}

/// The state letter of a process: `Z` is a zombie; none, no such process.
fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.chars().next()
}

fn is_dead(pid: u32) -> bool {
    matches!(state(pid), None | Some('Z'))
}

/// Waits until the process is dead and waited for.
async fn is_reaped(pid: u32) {
    eventually(PATIENCE, || ready(expect(state(pid).is_none(), "it is still there"))).await;
}

#[tokio::test]
async fn the_exit_code_decides() {
    let send = async |text: &str| Script::new(text).send(&notification("{}")).await;
    assert_eq!(send("exit 0").await.unwrap(), Receipt::none());
    let permanent = send("echo no such address >&2; exit 65").await.unwrap_err();
    assert!(permanent.is_permanent());
    assert_eq!(permanent.message(), "sh: exit status: 65 no such address");
    for text in ["exit 1", "exit 75", "exit 255", "kill -9 $$"] {
        let error = send(text).await.unwrap_err();
        assert!(is_transient(&error), "{text}: {error:?}");
    }
    assert_eq!(
        send("kill -9 $$").await.unwrap_err().message(),
        "sh: signal: 9 (SIGKILL)"
    );
}

#[tokio::test]
async fn it_gets_the_json_on_its_input_byte_for_byte() {
    for payload in awkward_payloads() {
        let (script, notification) = (Script::new(r#"cat > "$DIR/input""#), notification(&payload));
        script.send(&notification).await.unwrap();
        assert_eq!(script.read("input"), notification.to_json());
    }
}

#[tokio::test]
async fn arguments_go_through_no_shell_and_ours_win_in_the_environment() {
    let command = Command::new("printf").args(["%s|", "$HOME", "a b", "*;exit"]);
    let receipt = command.send(&notification("{}")).await.unwrap();
    assert_eq!(receipt.text(), Some("$HOME|a b|*;exit|"));

    let text = r#"echo "$DOORBELL_ID $DOORBELL_CHANNEL $DOORBELL_ATTEMPT $MINE""#;
    let command = Command::new("sh")
        .args(["-c", text])
        .env("MINE", "mine")
        .env("DOORBELL_ID", "forged");
    let notification = notification("{}");
    let receipt = command.send(&notification).await.unwrap();
    assert_eq!(receipt.text(), Some(&*format!("{} ops 1 mine", notification.id())));
}

#[tokio::test]
async fn a_program_that_cannot_start_is_named_and_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let not_executable = dir.path().join("notify");
    fs::write(&not_executable, "#!/bin/sh\n").unwrap();
    let send = async |program: &Path| Command::new(program).send(&notification("{}")).await.unwrap_err();
    for (program, cause) in [
        (Path::new("./no-such-program"), "No such file"),
        (&not_executable, "Permission denied"),
    ] {
        let error = send(program).await;
        let expected = format!("cannot start {}: {cause}", program.display());
        assert!(
            is_transient(&error) && error.message().starts_with(&expected),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_send_that_is_given_up_kills_the_children_too_and_leaves_no_zombie() {
    let script = Script::new(r#"sleep 1000 & echo $! >> "$DIR/pids"; echo $$ >> "$DIR/pids"; wait"#);
    let message = notification("{}");
    let (child, leader) = tokio::select! {
        _ = script.send(&message) => panic!("it does not end by itself"),
        pids = script.pids(2) => (pids[0], pids[1]),
    };
    eventually(PATIENCE, || ready(expect(is_dead(child), "the child lives"))).await;
    is_reaped(leader).await;
}

#[tokio::test]
async fn a_program_that_runs_past_the_deadline_is_killed_and_its_outcome_unknown() {
    let start = Instant::now();
    let script = Script::new(r#"echo $$ >> "$DIR/pids"; sleep 1000"#);
    let error = script
        .send(&notification("{}").due_within(Duration::from_millis(500)))
        .await
        .unwrap_err();
    assert!(is_unknown(&error) && error.message().contains("deadline"), "{error:?}");
    assert!(start.elapsed() < Duration::from_secs(10));
    let leader = script.pids(1).await[0];
    is_reaped(leader).await;
}

#[tokio::test]
async fn a_hundred_megabytes_of_output_are_drained_and_only_the_start_is_kept() {
    let script = Script::new(
        "echo first; head -c 100000000 /dev/zero; echo oops >&2; head -c 9000000 /dev/zero >&2; exit $CODE",
    );
    let receipt = script.send(&notification("{}")).await.unwrap();
    assert_eq!(receipt.text(), Some("first"));

    let failing = script.command.clone().env("CODE", "1");
    let error = failing.send(&notification("{}")).await.unwrap_err();
    assert_eq!(error.message(), "sh: exit status: 1 oops");

    let long_line = Script::new("head -c 100000 /dev/zero | tr '\\0' x");
    let receipt = long_line.send(&notification("{}")).await.unwrap();
    assert_eq!(receipt.text().map(str::len), Some(2048));
}

#[tokio::test]
async fn a_program_may_leave_its_input_unread() {
    let payload = format!("{:?}", "x".repeat(10_000_000));
    for text in ["exit 0", "exec 0<&-; sleep 0.1; exit 0", "head -c 5 > /dev/null"] {
        let sent = Script::new(text).send(&notification(&payload)).await;
        assert!(sent.is_ok(), "{text}: {sent:?}");
    }
}

#[tokio::test]
async fn a_background_process_that_holds_the_pipes_does_not_hold_the_send() {
    let script = Script::new(r#"sleep 1000 & echo $! >> "$DIR/pids"; echo done"#);
    let start = Instant::now();
    let receipt = script.send(&notification("{}")).await.unwrap();
    assert_eq!(receipt.text(), Some("done"));
    assert!(start.elapsed() < Duration::from_secs(5));
    // It is left alone: the program meant it to go on.
    let background = script.pids(1).await[0];
    assert!(!is_dead(background));
    let kill = tokio::process::Command::new("kill")
        .arg(background.to_string())
        .status();
    assert!(timeout(Duration::from_secs(10), kill).await.unwrap().unwrap().success());
}
