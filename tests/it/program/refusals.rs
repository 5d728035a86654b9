//! Commands that must fail, and what they say then.

use std::fs;

use super::Home;
use crate::support::TestDb;
use crate::support::program::{doorbell, output};

const SOME_ID: &str = "01a22e0e-a40c-72d6-8570-34e8df947908";

/// It fails with this code, prints nothing, and its complaint, which it gives back, contains this.
async fn refuses(args: &[&str], code: i32, expected: &str) -> String {
    let output = output(&mut doorbell(args)).await;
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {complaint}");
    assert!(complaint.contains(expected), "{args:?}: {complaint}");
    assert_eq!(output.stdout, b"", "{args:?}");
    complaint
}

#[tokio::test]
async fn wrong_usage_is_told_from_failure() {
    for (args, expected) in [
        (&[][..], "Usage: doorbell"),
        (&["rnu"], "unrecognized subcommand 'rnu'"),
        (&["run"], "--config FILE"),
        (&["enqueue", "ops"], "<RECIPIENT>"),
        (&["enqueue", "", "me"], "<CHANNEL>"),
        (&["enqueue", "ops", "me", "hello"], "not JSON"),
        (&["enqueue", "ops", "me", "--delay", "5"], "--delay"),
        (&["enqueue", "ops", "me", "--delay", "-5s"], "--delay"),
        (&["enqueue", "ops", "me", "--max-attempts", "0"], "--max-attempts"),
        (&["enqueue", "ops", "me", "--id", "7"], "--id"),
        (&["list", "--status", "lost"], "pending, sent, failed"),
        (&["show", "not-an-id"], "not-an-id"),
        (&["retry"], "--all-failed"),
        (&["retry", SOME_ID, "--all-failed"], "cannot be used with"),
        (&["retry", SOME_ID, "--channel", "ops"], "cannot be used with"),
        (&["cancel"], "<ID>"),
        (&["purge"], "--older-than"),
        (&["migrate", "down"], "--all"),
        (&["demo", "--count", "0"], "--count"),
        (
            &["run", "--config", "f", "--embedded", "d", "--database-url", "u"],
            "cannot be used with",
        ),
    ] {
        refuses(args, 2, expected).await;
    }
}

#[tokio::test]
async fn a_wrong_configuration_is_named_with_its_line_and_key() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("f.toml");
    let path = file.to_str().unwrap();
    let complaint = refuses(&["run", "--config", path], 1, "No such file").await;
    assert!(complaint.contains(path), "{complaint}");
    for (text, expected) in [
        (
            "[channels.ops]\nsender = 'log'\nmax_inflight = 1",
            "f.toml:3: unknown key `max_inflight`",
        ),
        ("[channels.ops]\nsender = 'mail'", "`log`, `webhook`, `command`"),
        (
            "[database]\nurl = 'user=u'\n[channels.ops]\nsender = 'log'\nmax_in_flight = 0",
            "channels.ops: max_in_flight is 0",
        ),
        (
            "[database]\nurl = 'user=u'\n[reactor]\nlease = '1ms'\n[channels.ops]\nsender = 'log'",
            "reactor.lease is 1ms",
        ),
        (
            "[database]\nurl = 'prot=1'\n[channels.ops]\nsender = 'log'",
            "unknown parameter prot",
        ),
        ("", "there is no channel"),
    ] {
        fs::write(&file, text).unwrap();
        let complaint = refuses(&["run", "--config", path], 1, expected).await;
        assert!(
            complaint.starts_with("doorbell: ") && complaint.trim_end().lines().count() == 1,
            "{complaint}"
        );
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_and_its_password_is_not() {
    let url = "postgres://app:hunter2@127.0.0.1:1/shop";
    for args in [
        &["status"][..],
        &["enqueue", "ops", "me"],
        &["migrate", "up"],
        &["demo"],
    ] {
        let args = [args, &["--database-url", url]].concat();
        let complaint = refuses(&args, 1, "Connection refused").await;
        let line = complaint.trim_end();
        assert!(
            line.starts_with("doorbell: ") && line.lines().count() == 1,
            "{complaint}"
        );
        assert!(line.contains("127.0.0.1") && !line.contains("hunter2"), "{complaint}");
    }
}

#[tokio::test]
async fn without_tables_every_command_says_what_to_run() {
    let db = TestDb::empty().await;
    let url = db.url();
    for args in [
        &["status"][..],
        &["list"],
        &["show", SOME_ID],
        &["enqueue", "ops", "me"],
        &["retry", SOME_ID],
        &["retry", "--all-failed"],
        &["cancel", SOME_ID],
        &["purge", "--older-than", "1d"],
    ] {
        refuses(&[args, &["--database-url", &url]].concat(), 1, "doorbell migrate up").await;
    }
}

#[tokio::test]
async fn what_cannot_be_stored_is_refused_and_nothing_is() {
    let db = TestDb::new().await;
    let url = db.url();
    let long = "x".repeat(1025);
    for (args, expected) in [
        (&["enqueue", &long, "me"][..], "channel has 1025 bytes"),
        (
            &["enqueue", "ops", "me", r#""\u0000""#],
            "payload is not JSON that PostgreSQL can store",
        ),
        (&["enqueue", "ops", "me", "--delay", "200years"], "delay is longer"),
        (&["show", SOME_ID], SOME_ID),
        (&["status", "--schema", "nowhere"], "doorbell migrate up"),
        (&["status", "--schema", "pg_mine"], "pg_mine"),
    ] {
        refuses(&[args, &["--database-url", &url]].concat(), 1, expected).await;
    }
    assert_eq!(db.statuses().await, "");
}

#[tokio::test]
async fn a_configuration_file_tells_other_commands_the_database() {
    let db = TestDb::new().await;
    let home = Home::new(&db, "[channels.ops]\nsender = 'log'");
    let config = home.config();
    let enqueued = output(doorbell(["enqueue", "ops", "me", "--config"]).arg(&config)).await;
    assert!(enqueued.status.success());
    assert_eq!(db.statuses().await, "pending=1");
}
