//! The server ends with its owner, which here is a process of its own: this test program once more.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use super::{builder, runs, signal};
use crate::support::{connect, eventually, expect};

/// Ample: a start takes a second on an idle machine, and many on a busy one.
const LIMIT: Duration = Duration::from_secs(120);

/// What an owner does besides owning a server.
const ROLE: &str = "DOORBELL_TEST_OWNER";
/// Where it keeps its data.
const DIR: &str = "DOORBELL_TEST_OWNER_DIR";

/// The other process of the tests below.
#[tokio::test]
#[ignore = "it is started by other tests"]
async fn an_owner() {
    let Ok(role) = env::var(ROLE) else { return };
    let server = env::var_os(DIR)
        .into_iter()
        .fold(builder(), |builder, dir| builder.data_dir(dir));
    let server = server.start().unwrap();
    let interrupted = async {
        match role.as_str() {
            "handles interrupts" => tokio::signal::ctrl_c().await.unwrap(),
            _ => std::future::pending().await,
        }
    };
    let (dir, pid) = (server.socket_dir().display(), super::pid(server.data_dir()));
    tokio::select! {
        biased;
        () = interrupted => {}
        // Only now that the signal is handled.
        () = async { println!("\nowns {pid} {dir}"); std::future::pending().await } => {}
    }
    connect(&server.url("postgres"))
        .await
        .batch_execute("SELECT")
        .await
        .unwrap();
    println!("\nanswers");
}

struct Owner {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Owner {
    fn start(role: &str, data_dir: Option<&Path>) -> Owner {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["embedded::owner::an_owner", "--exact", "--ignored", "--nocapture"])
            .env(ROLE, role);
        command.envs(data_dir.map(|dir| (DIR, dir)));
        // In a process group of its own, as a shell would start it.
        let mut process = command
            .process_group(0)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Owner { process, lines }
    }

    /// The rest of the line that begins with this word.
    async fn says(&mut self, word: &str) -> String {
        let line = async {
            loop {
                let line = self.lines.next_line().await.unwrap();
                let line = line.unwrap_or_else(|| panic!("the owner ended before it said {word}"));
                if let Some(rest) = line.strip_prefix(word) {
                    return rest.trim().to_owned();
                }
            }
        };
        timeout(LIMIT, line).await.unwrap()
    }

    async fn owns(&mut self) -> (String, PathBuf) {
        let line = self.says("owns").await;
        let (pid, dir) = line.split_once(' ').unwrap();
        (pid.to_owned(), PathBuf::from(dir))
    }

    /// Signals its whole process group, as a terminal does.
    fn signal(&self, name: &str) {
        signal(name, &format!("-{}", self.process.id().unwrap()));
    }
}

/// The server first, then its directory: one whose directory vanishes under it does end, but only within a minute.
async fn is_gone(pid: &str, dir: &Path) {
    eventually(LIMIT, || async { expect(!dir.exists(), "its directory is there") }).await;
    assert!(!runs(pid));
}

#[tokio::test]
async fn a_server_ends_with_its_owner_even_when_that_is_killed() {
    for name in ["KILL", "INT", "TERM"] {
        let mut owner = Owner::start("waits", None);
        let (pid, dir) = owner.owns().await;
        assert!(runs(&pid) && dir.exists());
        owner.signal(name);
        is_gone(&pid, &dir).await;
    }
}

#[tokio::test]
async fn a_terminals_interrupt_does_not_reach_the_server() {
    let mut owner = Owner::start("handles interrupts", None);
    let (pid, dir) = owner.owns().await;
    owner.signal("INT");
    owner.says("answers").await;
    assert!(owner.process.wait().await.unwrap().success());
    assert!(!runs(&pid) && !dir.exists());
}

#[tokio::test]
async fn kept_data_is_free_again_as_soon_as_its_killed_owners_server_has_stopped() {
    let data = tempfile::tempdir().unwrap();
    let mut owner = Owner::start("waits", Some(data.path()));
    let (pid, dir) = owner.owns().await;
    // A server that takes its time to stop.
    signal("STOP", &pid);
    owner.signal("KILL");
    owner.process.wait().await.unwrap();
    let next = builder().data_dir(data.path());
    let mut starting = tokio::task::spawn_blocking(|| next.start().unwrap());
    assert!(timeout(Duration::from_millis(500), &mut starting).await.is_err());
    signal("CONT", &pid);
    let server = starting.await.unwrap();
    is_gone(&pid, &dir).await;
    // The stop was a fast one: nothing to recover.
    let log = std::fs::read_to_string(server.data_dir().join("server.log")).unwrap();
    assert!(
        log.contains("was shut down at") && !log.contains("was interrupted"),
        "{log}"
    );
}

#[tokio::test]
async fn an_interrupted_initdb_does_not_wedge_the_directory() {
    let data = tempfile::tempdir().unwrap();
    let mut owner = Owner::start("waits", Some(data.path()));
    let half_made = data.path().join("data.new/PG_VERSION");
    eventually(LIMIT, || async { expect(half_made.exists(), "initdb has not begun") }).await;
    owner.signal("KILL");
    owner.process.wait().await.unwrap();
    assert!(!data.path().join("data").exists());
    builder().data_dir(data.path()).start().unwrap();
}
