//! `doorbell run` with a server of its own.

use std::fs;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Home, read};
use crate::support::program::{Process, printed};
use crate::support::{TestDb, connect, eventually, expect};

const LIMIT: Duration = Duration::from_secs(30);

fn url(line: &str) -> &str {
    line.split_whitespace()
        .find(|word| word.starts_with("postgresql://"))
        .unwrap()
}

#[tokio::test]
async fn its_data_outlives_a_kill_and_a_stop() {
    // The server's user, which is not root, must be able to get there.
    let dir = tempfile::Builder::new().permissions(mode(0o755)).tempdir().unwrap();
    let config = dir.path().join("doorbell.toml");
    let data = dir.path().join("data");
    let embedded = ["--embedded", data.to_str().unwrap()];
    fs::write(&config, "[channels.ops]\nsender = 'log'").unwrap();

    let mut first = Process::run(&config, &embedded).await;
    let line = first.says("postgresql://").await;
    let enqueue = async |channel: &'static str, line: &str| {
        printed(["enqueue", channel, "me", "--database-url", url(line)]).await
    };
    let now = enqueue("ops", &line).await;
    let later = enqueue("later", &line).await;
    first.prints(&now).await;
    first.signal(Signal::SIGKILL);
    first.exit().await;

    fs::write(&config, "[channels.later]\nsender = 'log'").unwrap();
    let mut second = Process::run(&config, &embedded).await;
    second.prints(&later).await;
    assert!(!second.stdout().iter().any(|line| line.contains(&now)), "sent twice");
    second.signal(Signal::SIGTERM);
    assert_eq!(second.exit().await.code(), Some(0));
    assert!(!data.join("data/postmaster.pid").exists(), "the server still runs");
}

#[tokio::test]
async fn its_server_runs_again_after_it_was_killed() {
    let dir = tempfile::Builder::new().permissions(mode(0o755)).tempdir().unwrap();
    let (config, data) = (dir.path().join("doorbell.toml"), dir.path().join("data"));
    fs::write(&config, "[channels.ops]\nsender = 'log'").unwrap();
    let mut process = Process::run(&config, &["--embedded", data.to_str().unwrap()]).await;
    let line = process.says("postgresql://").await;
    let server = read(data.join("data/postmaster.pid"));
    let server: i32 = server.lines().next().unwrap().parse().unwrap();
    kill(Pid::from_raw(server), Signal::SIGKILL).unwrap();
    process.says("it runs again").await;
    let id = printed(["enqueue", "ops", "me", "--database-url", url(&line)]).await;
    process.prints(&id).await;
    process.signal(Signal::SIGTERM);
    assert_eq!(process.exit().await.code(), Some(0));
    assert!(!data.join("data/postmaster.pid").exists(), "the server still runs");
}

#[tokio::test]
async fn a_url_in_the_file_is_left_alone() {
    let db = TestDb::empty().await;
    let home = Home::new(&db, "[channels.ops]\nsender = 'log'");
    let dir = tempfile::Builder::new().permissions(mode(0o755)).tempdir().unwrap();
    let data = dir.path().join("data");
    let mut process = Process::run(&home.config(), &["--embedded", data.to_str().unwrap()]).await;
    process.signal(Signal::SIGINT);
    assert_eq!(process.exit().await.code(), Some(0));
    assert_eq!(db.psql("SELECT to_regclass('notification_jobs') IS NULL").await, "t");
}

#[tokio::test]
async fn a_second_signal_leaves_no_server_behind() {
    let dir = tempfile::Builder::new().permissions(mode(0o755)).tempdir().unwrap();
    let (config, data) = (dir.path().join("doorbell.toml"), dir.path().join("data"));
    fs::write(
        &config,
        "[channels.ops]\nsender = 'command'\ncommand = ['sleep', '600']",
    )
    .unwrap();
    let mut process = Process::run(&config, &["--embedded", data.to_str().unwrap()]).await;
    let line = process.says("postgresql://").await;
    printed(["enqueue", "ops", "me", "--database-url", url(&line)]).await;
    let client = connect(url(&line)).await;
    eventually(LIMIT, || async {
        let claimed = "SELECT FROM notification_jobs WHERE claimed_by IS NOT NULL";
        expect(!client.query(claimed, &[]).await.unwrap().is_empty(), "not claimed")
    })
    .await;
    process.signal(Signal::SIGINT);
    process.says("stopping").await;
    process.signal(Signal::SIGINT);
    assert_eq!(process.exit().await.code(), Some(130));
    let pid_file = data.join("data/postmaster.pid");
    eventually(LIMIT, || async { expect(!pid_file.exists(), "the server still runs") }).await;
}

fn mode(mode: u32) -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(mode)
}
