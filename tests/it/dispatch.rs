//! The main road: a row is enqueued, and it is sent.

use std::time::{Duration, Instant};

use doorbell::senders::Recording;
use doorbell::{ChannelConfig, NewNotification, Processed, RetryPolicy, SendError};
use serde_json::json;

use crate::support::{Running, TestDb};

const SOON: Duration = Duration::from_secs(5);

fn processed(sent: u64, retried: u64, failed: u64, expired: u64) -> (u64, u64, u64, u64) {
    (sent, retried, failed, expired)
}

fn counts(processed: Processed) -> (u64, u64, u64, u64) {
    (processed.sent, processed.retried, processed.failed, processed.expired)
}

#[tokio::test]
async fn what_is_enqueued_is_processed() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let reactor = db.reactor(recording.clone()).build().unwrap();
    assert_eq!(counts(reactor.process_due(10).await.unwrap()), processed(0, 0, 0, 0));

    let new = NewNotification::new("ops", "#alerts").payload(json!({ "text": "disk is full" }));
    let id = doorbell::enqueue(&db.client().await, &new).await.unwrap();
    assert_eq!(counts(reactor.process_due(10).await.unwrap()), processed(1, 0, 0, 0));

    let sent = recording.next().await;
    assert_eq!(
        (sent.id(), sent.recipient(), sent.payload()),
        (id, "#alerts", r#"{"text": "disk is full"}"#)
    );
    assert_eq!((sent.attempt(), sent.max_attempts()), (1, 5));
    assert_eq!(db.statuses().await, "sent=1");
    assert_eq!(counts(reactor.process_due(10).await.unwrap()), processed(0, 0, 0, 0));
}

#[tokio::test]
async fn three_failing_tries_of_three_end_in_failed_and_the_row_is_touched_no_more() {
    let db = TestDb::new().await;
    let recording = Recording::answering(|_| Err(SendError::transient("the pager is off")));
    let config = ChannelConfig::default().retry(RetryPolicy::linear(Duration::from_millis(20)));
    let running = Running::start(db.reactor_with(recording.clone(), config)).await;
    db.psql("INSERT INTO notification_jobs (channel, recipient, max_attempts) VALUES ('ops', 'me', 3)")
        .await;
    let tries = recording.wait_for(3, SOON).await;
    assert_eq!(tries.iter().map(|n| n.attempt()).collect::<Vec<_>>(), [1, 2, 3]);
    db.becomes("failed=1").await;
    let row = "SELECT attempts || ' ' || last_error || ' ' || (claimed_by IS NULL) FROM notification_jobs";
    assert_eq!(db.value(row).await, "3 the pager is off true");
    running.stop().await;

    let again = db.reactor(recording.clone()).build().unwrap();
    assert_eq!(counts(again.process_due(10).await.unwrap()), processed(0, 0, 0, 0));
    assert_eq!(recording.recorded().len(), 3);
}

#[tokio::test]
async fn a_row_enqueued_before_a_restart_is_sent_by_the_next_process() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let first = Running::start(db.reactor(recording.clone())).await;
    first.stop().await;
    db.insert("while nobody was there").await;
    let second = Running::start(db.reactor(recording.clone())).await;
    assert_eq!(recording.next().await.recipient(), "while nobody was there");
    db.becomes("sent=1").await;
    second.stop().await;
}

#[tokio::test]
async fn two_processors_at_once_deliver_two_rows_exactly_once_each() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    db.insert("one").await;
    db.insert("two").await;
    let (a, b) = (
        db.reactor(recording.clone()).build().unwrap(),
        db.reactor(recording.clone()).build().unwrap(),
    );
    let (a, b) = tokio::join!(a.process_due(2), b.process_due(2));
    assert_eq!(a.unwrap().sent + b.unwrap().sent, 2);
    let mut recipients: Vec<_> = recording.recorded().iter().map(|n| n.recipient().to_owned()).collect();
    recipients.sort();
    assert_eq!(recipients, ["one", "two"]);
    assert_eq!(db.statuses().await, "sent=2");
}

#[tokio::test]
async fn a_row_that_is_inserted_while_the_reactor_sleeps_is_sent_at_once() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let running = Running::start(db.reactor(recording.clone())).await;
    for round in 0..20 {
        db.insert(&format!("{round}")).await;
        let inserted = Instant::now();
        let sent = tokio::time::timeout(SOON, recording.next()).await.unwrap();
        assert_eq!(sent.recipient(), format!("{round}"));
        eprintln!("{:?}", inserted.elapsed());
    }
    db.becomes("sent=20").await;
    running.stop().await;
}
