//! Starting, stopping, starting again.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use doorbell::embedded::Server;
use tokio_postgres::NoTls;

use super::{builder, pid, runs, signal};
use crate::support::{connect, eventually, expect};

async fn ask(server: &Server, question: &str) -> String {
    let answer = connect(&server.url("postgres"))
        .await
        .query_one(question, &[])
        .await
        .unwrap();
    answer.try_get(0).unwrap()
}

#[tokio::test]
async fn a_temporary_server_answers_and_leaves_nothing_behind() {
    let server = builder()
        .setting("work_mem", "5MB")
        .setting("work_mem", "6MB")
        .start()
        .unwrap();
    let (dir, pid) = (server.data_dir().to_owned(), pid(server.data_dir()));
    assert_eq!(
        ask(&server, "SHOW server_version").await.split('.').next().unwrap(),
        server.version().to_string()
    );
    assert_eq!(ask(&server, "SHOW work_mem").await, "6MB");
    assert_eq!(ask(&server, "SHOW fsync").await, "off");
    assert!(server.bin_dir().join("pg_ctl").exists() && runs(&pid));
    server.stop().unwrap();
    assert!(!dir.exists() && !runs(&pid));
}

#[tokio::test]
async fn a_server_waits_for_its_disk_unless_told_otherwise() {
    let server = Server::builder().start().unwrap();
    let settings = ["fsync", "full_page_writes", "synchronous_commit"];
    for setting in settings {
        assert_eq!(ask(&server, &format!("SHOW {setting}")).await, "on", "{setting}");
    }
}

#[tokio::test]
async fn a_kept_directory_keeps_what_was_committed() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("not yet there/data of ours");
    let server = builder().data_dir(&base).start().unwrap();
    let socket_dir = server.socket_dir().to_owned();
    connect(&server.url("postgres"))
        .await
        .batch_execute("CREATE TABLE kept AS SELECT 'as it was' AS text")
        .await
        .unwrap();
    drop(server);
    assert!(!socket_dir.exists());

    let mut server = builder().data_dir(&base).start().unwrap();
    assert_eq!(ask(&server, "SELECT text FROM kept").await, "as it was");
    server.stop_immediate().unwrap();
    assert!(tokio_postgres::connect(&server.url("postgres"), NoTls).await.is_err());
    server.start_again().unwrap();
    assert_eq!(ask(&server, "SELECT text FROM kept").await, "as it was");
}

#[tokio::test]
async fn a_restart_cuts_sessions_off_and_keeps_the_address() {
    let mut server = builder().port(0).start().unwrap();
    let (url, loopback_url) = (server.url("postgres"), server.loopback_url("postgres"));
    let session = connect(&url).await;
    server.restart_fast().unwrap();
    assert!(session.batch_execute("SELECT").await.is_err());
    assert_eq!(
        (url, loopback_url),
        (server.url("postgres"), server.loopback_url("postgres"))
    );
    assert_eq!(ask(&server, "SELECT 'back'").await, "back");
}

/// The server's process is killed outright: its pid file stays, and its children need a moment to notice.
#[tokio::test]
async fn a_stale_pid_file_is_no_hindrance() {
    let mut server = builder().start().unwrap();
    let killed = pid(server.data_dir());
    signal("KILL", &killed);
    assert_eq!(pid(server.data_dir()), killed);
    eventually(Duration::from_secs(60), || {
        let started = expect(!runs(&killed), "it is still there".to_owned())
            .and_then(|()| server.start_again().map_err(|error| error.chain()));
        async { started }
    })
    .await;
    assert_eq!(ask(&server, "SELECT 'back'").await, "back");
    assert_ne!(pid(server.data_dir()), killed);
}

#[test]
fn a_directory_in_use_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = builder().data_dir(dir.path()).start().unwrap();
    let error = builder().data_dir(dir.path()).start().err().unwrap();
    let message = error.to_string();
    assert!(error.is_server() && message.contains("in use") && message.contains(&std::process::id().to_string()));
    drop(first);
    builder().data_dir(dir.path()).start().unwrap();
}

#[test]
fn data_of_another_version_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("data")).unwrap();
    fs::write(dir.path().join("data/PG_VERSION"), "11\n").unwrap();
    let message = builder().data_dir(dir.path()).start().err().unwrap().to_string();
    assert!(
        message.contains("written by PostgreSQL 11") && message.contains("install 11"),
        "{message}"
    );
}

#[test]
fn a_plain_data_directory_or_a_place_without_programs_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let message = builder().bin_dir(dir.path()).start().err().unwrap().to_string();
    assert!(message.contains("no PostgreSQL server"), "{message}");
    fs::write(dir.path().join("PG_VERSION"), "15\n").unwrap();
    let message = builder().data_dir(dir.path()).start().err().unwrap().to_string();
    assert!(message.contains("itself a PostgreSQL data directory"), "{message}");
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let message = builder().setting("work_mem", "much").start().err().unwrap().to_string();
    assert!(message.contains("work_mem") && message.contains("much"), "{message}");
}

#[tokio::test]
async fn the_loopback_port_wants_the_password() {
    let dir = tempfile::tempdir().unwrap();
    let server = builder().data_dir(dir.path()).port(0).start().unwrap();
    let url = server.loopback_url("postgres").unwrap();
    connect(&url).await;
    let password = url.split([':', '@']).nth(2).unwrap();
    assert_eq!(password.len(), 32);
    let wrong = url.replace(password, "guess");
    assert!(tokio_postgres::connect(&wrong, NoTls).await.is_err());
    let mode = fs::metadata(dir.path().join("password")).unwrap().mode();
    assert_eq!(mode & 0o077, 0);

    drop(server);
    let server = builder().data_dir(dir.path()).start().unwrap();
    assert_eq!((server.port(), server.loopback_url("postgres")), (None, None));
    assert_eq!(ask(&server, "SHOW listen_addresses").await, "");
}

/// As root this shows that the rights are gone; as anybody else, that nothing changes hands.
#[test]
fn the_server_is_nobody_more_than_its_owner_and_never_root() {
    let server = builder().start().unwrap();
    let ids = |what: &str| {
        let mut ps = std::process::Command::new("ps");
        let output = ps.args(["-o", what, "-p", &pid(server.data_dir())]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_ne!(ids("uid="), "0");
    assert_ne!(ids("gid="), "0");
    assert_eq!(ids("uid="), fs::metadata(server.data_dir()).unwrap().uid().to_string());
    assert_eq!(fs::metadata(server.socket_dir()).unwrap().mode() & 0o077, 0);
    let status = fs::read_to_string(format!("/proc/{}/status", pid(server.data_dir()))).unwrap_or_default();
    let groups = status
        .lines()
        .find_map(|line| line.strip_prefix("Groups:"))
        .unwrap_or_default();
    assert!(!groups.split_whitespace().any(|group| group == "0"), "{groups}");
}
