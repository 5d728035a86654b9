//! The commands of producers and operators.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::support::TestDb;
use crate::support::program::{doorbell, json, output, printed};

/// A command on this database.
fn on<'a>(db: &'a TestDb, args: &[&'a str]) -> Vec<String> {
    let target = ["--database-url", &db.url()].map(str::to_owned);
    args.iter().map(|arg| (*arg).to_owned()).chain(target).collect()
}

fn ids(list: &Value) -> Vec<&str> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|job| job["id"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_recipient_or_a_payload_may_be_a_negative_number() {
    let db = TestDb::new().await;
    let id = printed(on(&db, &["enqueue", "chat", "-1001234", "-1.5"])).await;
    let shown = json(on(&db, &["show", &id, "--json"])).await;
    assert_eq!(
        (&shown["recipient"], &shown["payload"]),
        (&json!("-1001234"), &json!(-1.5))
    );
}

#[tokio::test]
async fn what_is_enqueued_can_be_shown_and_listed() {
    let db = TestDb::new().await;
    let payload = r#"{"text": "disk is full", "n": 9007199254740993}"#;
    let id = printed(on(&db, &["enqueue", "ops", "#alerts", payload])).await;
    let shown = json(on(&db, &["show", &id, "--json"])).await;
    assert_eq!(shown["id"], json!(id));
    assert_eq!(shown["payload"]["n"], json!(9_007_199_254_740_993_u64));
    let columns = ["status", "attempts", "max_attempts", "expires_at"].map(|column| &shown[column]);
    assert_eq!(columns, [&json!("pending"), &json!(0), &json!(5), &Value::Null]);

    let other = printed(on(&db, &["enqueue", "email", "ada"])).await;
    let list = json(on(&db, &["list", "--json"])).await;
    assert_eq!(ids(&list), [&other, &id], "the newest first");
    assert_eq!(
        ids(&json(on(&db, &["list", "--channel", "ops", "--json"])).await),
        [&id]
    );
    assert_eq!(ids(&json(on(&db, &["list", "--limit", "1", "--json"])).await), [&other]);
    assert_eq!(
        ids(&json(on(&db, &["list", "--before", &other, "--json"])).await),
        [&id]
    );
    assert_eq!(
        json(on(&db, &["list", "--status", "failed", "--json"])).await,
        json!([])
    );

    let table = printed(on(&db, &["list"])).await;
    assert!(
        table.starts_with("ID ") && table.contains(&id) && table.contains("#alerts"),
        "{table}"
    );
    let sheet = printed(on(&db, &["show", &id])).await;
    assert!(sheet.contains("payload") && sheet.contains("disk is full"), "{sheet}");
}

#[tokio::test]
async fn every_option_of_enqueue_reaches_the_row() {
    let db = TestDb::new().await;
    let id = "01a22e0e-a40c-72d6-8570-34e8df947908";
    let options = [
        "--delay",
        "1h",
        "--max-attempts",
        "7",
        "--expires-in",
        "2h",
        "--dedupe-key",
        "k",
        "--id",
        id,
    ];
    let args = [&["enqueue", "ops", "me", "--json"], &options[..]].concat();
    assert_eq!(json(on(&db, &args)).await, json!({ "id": id, "added": true }));
    let row = "SELECT concat_ws(' ', payload, max_attempts, dedupe_key,
                                round(extract(epoch FROM next_attempt_at - created_at) / 60),
                                round(extract(epoch FROM expires_at - created_at) / 60)) FROM notification_jobs";
    assert_eq!(db.value(row).await, "{} 7 k 60 120");
    let again = printed(on(&db, &["enqueue", "ops", "me", "--dedupe-key", "k"])).await;
    assert_eq!((again.as_str(), db.statuses().await.as_str()), (id, "pending=1"));
    let again = json(on(&db, &["enqueue", "ops", "me", "--dedupe-key", "k", "--json"])).await;
    assert_eq!(again, json!({ "id": id, "added": false }));
}

#[tokio::test]
async fn a_payload_may_come_through_a_pipe() {
    let db = TestDb::new().await;
    let mut command = doorbell(on(&db, &["enqueue", "ops", "me", "-"]));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"[1,\n 2]\n").await.unwrap();
    drop(stdin);
    assert!(child.wait_with_output().await.unwrap().status.success());
    assert_eq!(db.value("SELECT payload FROM notification_jobs").await, "[1, 2]");
}

#[tokio::test]
async fn cancel_and_retry_say_of_each_id_what_became_of_it() {
    let db = TestDb::new().await;
    let id = printed(on(&db, &["enqueue", "ops", "me", "--delay", "1h"])).await;
    let nobody = "01a22e0e-a40c-72d6-8570-34e8df947908";
    assert_eq!(printed(on(&db, &["cancel", &id])).await, format!("{id}  cancelled"));
    let refused = output(&mut doorbell(on(&db, &["cancel", &id, nobody, "--json"]))).await;
    assert_eq!(refused.status.code(), Some(1));
    let answers: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(
        answers,
        json!([
            { "id": id, "changed": false, "outcome": "refused: it is cancelled already" },
            { "id": nobody, "changed": false, "outcome": "not found" },
        ])
    );
    let complaint = String::from_utf8(refused.stderr).unwrap();
    assert!(
        complaint.contains(&format!("doorbell: {nobody}: not found")),
        "{complaint}"
    );

    assert_eq!(printed(on(&db, &["retry", &id])).await, format!("{id}  due now"));
    assert_eq!(db.statuses().await, "pending=1");
}

#[tokio::test]
async fn all_that_failed_can_be_retried_and_what_is_over_purged() {
    let db = TestDb::new().await;
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, status)
         SELECT channel, 'me', 'failed' FROM (VALUES ('ops'), ('ops'), ('email')) AS rows (channel)",
    )
    .await;
    let retried = json(on(&db, &["retry", "--all-failed", "--channel", "ops", "--json"])).await;
    assert_eq!(retried, json!({ "due": 2, "key_taken": 0 }));
    assert_eq!(db.statuses().await, "failed=1 pending=2");

    assert_eq!(
        json(on(&db, &["purge", "--older-than", "1h", "--json"])).await,
        json!({ "deleted": 0 })
    );
    let purged = printed(on(&db, &["purge", "--older-than", "0s", "--batch", "1"])).await;
    assert_eq!(purged, "1 notification deleted");
    assert_eq!(db.statuses().await, "pending=2");
}

#[tokio::test]
async fn status_counts_and_warns_of_what_nobody_serves() {
    let db = TestDb::new().await;
    db.insert("me").await;
    let status = json(on(&db, &["status", "--json"])).await;
    let channel = &status["channels"][0];
    assert_eq!((&channel["channel"], &channel["due"]), (&json!("ops"), &json!(1)));
    assert_eq!(
        (&status["unserved_due"], &status["bell"]["triggers"]),
        (&json!(1), &json!(true))
    );
    assert!(channel["oldest_due_seconds"].is_number() && status["reactors"] == json!([]));

    db.psql("ALTER TABLE notification_jobs DISABLE TRIGGER USER").await;
    let report = printed(on(&db, &["status"])).await;
    for part in [
        "CHANNEL",
        "no reactors",
        "warning: no reactor serves channel \"ops\"",
        "warning: a trigger",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
}

#[tokio::test]
async fn a_reader_that_has_enough_is_no_error() {
    let db = TestDb::new().await;
    // More than a pipe holds.
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, payload)
         SELECT 'ops', 'me', to_jsonb(repeat('x', 10000)) FROM generate_series(1, 100)",
    )
    .await;
    let mut command = doorbell(on(&db, &["list", "--json"]));
    let (stdout, stderr) = (command.stdout(Stdio::piped()), Stdio::piped());
    let mut child = stdout.stderr(stderr).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().await.unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && complaint.is_empty(),
        "{}: {complaint}",
        output.status
    );
}
