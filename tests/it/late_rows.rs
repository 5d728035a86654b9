//! Rows that a look which begins where the one before ended would never see.

use std::time::Duration;

use doorbell::senders::Recording;

use crate::support::{Running, TestDb};

/// The safety scan is much further away.
const PROMPTLY: Duration = Duration::from_secs(2);

/// A reactor that has found all that there was, and is asleep.
async fn asleep(db: &TestDb) -> (Running, Recording) {
    let recording = Recording::new();
    let running = Running::start(db.reactor(recording.clone())).await;
    db.armed(1).await;
    db.insert("before").await;
    recording.next().await;
    db.becomes("sent=1").await;
    (running, recording)
}

async fn arrives(recording: &Recording, recipient: &str) {
    let row = tokio::time::timeout(PROMPTLY, recording.next()).await.unwrap();
    assert_eq!(row.recipient(), recipient);
}

#[tokio::test]
async fn a_row_due_in_the_past_is_sent_at_once() {
    let db = TestDb::new().await;
    let (running, recording) = asleep(&db).await;
    for due in ["2001-01-01", "-infinity"] {
        let insert = "INSERT INTO notification_jobs (channel, recipient, next_attempt_at) VALUES ('ops', 'past'";
        db.psql(&format!("{insert}, '{due}')")).await;
        arrives(&recording, "past").await;
    }
    running.stop().await;
}

#[tokio::test]
async fn a_row_whose_transaction_took_long_is_sent_when_it_commits() {
    let db = TestDb::new().await;
    let (running, recording) = asleep(&db).await;
    let slow = db.client().await;
    slow.batch_execute("BEGIN; INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', 'slow')")
        .await
        .unwrap();
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        db.insert("quick").await;
        arrives(&recording, "quick").await;
    }
    slow.batch_execute("COMMIT").await.unwrap();
    arrives(&recording, "slow").await;
    running.stop().await;
}

#[tokio::test]
async fn a_row_that_is_late_is_not_lost_among_others_of_the_same_ring() {
    let db = TestDb::new().await;
    let (running, recording) = asleep(&db).await;
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, next_attempt_at)
         VALUES ('ops', 'now', clock_timestamp()), ('ops', 'past', '2001-01-01')",
    )
    .await;
    arrives(&recording, "now").await;
    arrives(&recording, "past").await;
    running.stop().await;
}
