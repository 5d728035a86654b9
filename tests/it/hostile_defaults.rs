//! Whatever the defaults of the role or the database are, rows go out, and no setting of ours stays behind.

use std::time::Duration;

use doorbell::senders::Recording;
use doorbell::{ChannelConfig, Notification, Receipt, RetryPolicy, SendError};

use crate::support::{Running, TestDb};

const INSERT: &str = "BEGIN READ WRITE; SET LOCAL statement_timeout = 0;
    INSERT INTO notification_jobs (channel, recipient, max_attempts) VALUES ('ops', 'me', 2), ('ops', 'you', 2); COMMIT";

/// Every default that may be set and could break a statement of ours.
const HOSTILE: [(&str, &str); 9] = [
    ("default_transaction_read_only", "on"),
    ("default_transaction_isolation", "serializable"),
    ("default_transaction_deferrable", "on"),
    ("statement_timeout", "1ms"),
    ("lock_timeout", "1ms"),
    ("search_path", "nowhere"),
    ("row_security", "off"),
    ("TimeZone", "Asia/Kathmandu"),
    ("DateStyle", "SQL, DMY"),
];

/// One succeeds, the other is tried twice.
fn answer(notification: &Notification) -> Result<Receipt, SendError> {
    match notification.recipient() {
        "me" => Ok(Receipt::none()),
        _ => Err(SendError::transient("not today")),
    }
}

fn retrying() -> ChannelConfig {
    ChannelConfig::default().retry(RetryPolicy::linear(Duration::from_millis(1)))
}

#[tokio::test]
async fn rows_are_claimed_settled_and_tried_again_under_each_hostile_default() {
    for (setting, value) in HOSTILE {
        let (db, recording) = (TestDb::new().await, Recording::answering(answer));
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
    for (setting, value) in HOSTILE {
        db.set_default(setting, value).await;
    }
    let reactor = db.reactor_with(recording, ChannelConfig::default()).build().unwrap();
    let processed = reactor.process_due(10).await.unwrap();
    assert_eq!((processed.sent, processed.retried), (1, 1));
}
