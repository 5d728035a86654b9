//! What the log holds, and what it does not.

use nix::sys::signal::Signal;
use serde_json::Value;

use super::Home;
use crate::support::TestDb;
use crate::support::program::{Process, doorbell};

#[tokio::test]
async fn json_logs_are_json_and_hold_no_payload_recipient_or_password() {
    let db = TestDb::new().await;
    let script = "cat >&2; exit 65";
    let home = Home::with_script(&db, script, "");
    let url = format!("{}&password=hunter2", db.url());
    for level in ["info", "debug", "trace"] {
        let mut command = doorbell(["run", "--log-format", "json", "--database-url", &url, "--config"]);
        let mut process = Process::spawn(command.arg(home.config()).env("DOORBELL_LOG", level));
        process.says("ready").await;
        db.psql("INSERT INTO notification_jobs VALUES (DEFAULT, 'ops', 'ada@example.org', '\"top secret\"')")
            .await;
        process.says("the sender failed").await;
        process.signal(Signal::SIGTERM);
        assert!(process.exit().await.success());
        for line in process.stderr() {
            let event: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            assert!(event["level"].is_string() && event["message"].is_string(), "{line}");
            for secret in ["hunter2", "ada@example.org", "top secret"] {
                assert!(!line.contains(secret), "{line}");
            }
        }
    }
}

#[tokio::test]
async fn a_wrong_filter_is_named() {
    let db = TestDb::new().await;
    let output = doorbell(["status", "--database-url", &db.url()])
        .env("DOORBELL_LOG", "a=b=c")
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("DOORBELL_LOG"));
}
