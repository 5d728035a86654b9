//! Whatever the defaults of the role or the database are, rows go out, and no setting of ours stays behind.

use std::time::Duration;

use doorbell::senders::Recording;
use doorbell::{ChannelConfig, Notification, Receipt, RetryPolicy, SendError};

use crate::support::{Running, SOON, TestDb};

const INSERT: &str = "BEGIN READ WRITE; SET LOCAL statement_timeout = 0;
    INSERT INTO notification_jobs (channel, recipient, max_attempts) VALUES ('ops', 'me', 2), ('ops', 'you', 2); COMMIT";

/// Every default that may be set and could break a statement of ours, on servers of this version or later.
const HOSTILE: [(i32, &str, &str); 18] = [
    (140_000, "default_transaction_read_only", "on"),
    (140_000, "default_transaction_isolation", "serializable"),
    (140_000, "default_transaction_deferrable", "on"),
    (140_000, "statement_timeout", "1ms"),
    (140_000, "lock_timeout", "1ms"),
    (140_000, "search_path", "nowhere"),
    (140_000, "row_security", "off"),
    (140_000, "TimeZone", "Asia/Kathmandu"),
    (140_000, "DateStyle", "SQL, DMY"),
    (140_000, "IntervalStyle", "sql_standard"),
    (140_000, "extra_float_digits", "-15"),
    (140_000, "bytea_output", "escape"),
    (140_000, "standard_conforming_strings", "off"),
    (140_000, "transform_null_equals", "on"),
    (140_000, "array_nulls", "off"),
    (140_000, "idle_session_timeout", "1s"),
    (140_000, "idle_in_transaction_session_timeout", "2s"),
    (170_000, "transaction_timeout", "500ms"),
];

/// One succeeds, the other is tried twice.
fn answer(notification: &Notification) -> Result<Receipt, SendError> {
    match notification.recipient() {
        "me" => Ok(Receipt::none()),
        _ => Err(SendError::transient("not today")),
    }
}

async fn server_version(db: &TestDb) -> i32 {
    let version = db.value("SELECT current_setting('server_version_num')").await;
    version.parse().unwrap()
}

fn retrying() -> ChannelConfig {
    ChannelConfig::default().retry(RetryPolicy::linear(Duration::from_millis(1)))
}

#[tokio::test]
async fn rows_are_claimed_settled_and_tried_again_under_each_hostile_default() {
    for (version, setting, value) in HOSTILE {
        let (db, recording) = (TestDb::new().await, Recording::answering(answer));
        if version > server_version(&db).await {
            continue;
        }
        db.set_default(setting, value).await;
        let running = Running::start(db.reactor_with(recording.clone(), retrying())).await;
        db.client().await.batch_execute(INSERT).await.unwrap();
        let sends = recording.wait_for(3, Duration::from_secs(10)).await;
        assert_eq!(sends.len(), 3, "{setting} = {value}");
        db.becomes("failed=1 sent=1").await;
        running.stop().await;
    }
}

#[tokio::test]
async fn sessions_that_end_because_they_are_idle_cost_no_row_its_ring() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    db.set_default("idle_session_timeout", "50ms").await;
    let running = Running::start(db.reactor(recording.clone())).await;
    let listener = "SELECT pid FROM pg_stat_activity
                    WHERE datname = current_database() AND application_name = 'doorbell listener'";
    let pid = db.value(listener).await;
    for row in 1..=5 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        db.insert("me").await;
        recording.wait_for(row, SOON).await;
    }
    db.becomes("sent=5").await;
    assert_eq!(db.value(listener).await, pid, "the listener was let go");
    assert_eq!(db.value("SELECT max(attempts) FROM notification_jobs").await, "1");
    running.stop().await;
}

#[tokio::test]
async fn defaults_that_change_while_it_runs_do_not_stop_it() {
    let (db, recording) = (TestDb::new().await, Recording::answering(answer));
    let running = Running::start(db.reactor_with(recording, retrying())).await;
    db.set_default("default_transaction_read_only", "on").await;
    // Sessions that began before know nothing of it.
    db.terminate_backends("%").await;
    db.client().await.batch_execute(INSERT).await.unwrap();
    db.becomes("failed=1 sent=1").await;
    running.stop().await;
}

#[tokio::test]
async fn rows_are_drained_once_under_hostile_defaults() {
    let (db, recording) = (TestDb::new().await, Recording::answering(answer));
    db.client().await.batch_execute(INSERT).await.unwrap();
    for (version, setting, value) in HOSTILE {
        if version <= server_version(&db).await {
            db.set_default(setting, value).await;
        }
    }
    let reactor = db.reactor_with(recording, ChannelConfig::default()).build().unwrap();
    let processed = reactor.process_due(10).await.unwrap();
    assert_eq!((processed.sent, processed.retried), (1, 1));
}
