//! Rows that the server cannot give to anybody: they fail alone, and all others go out.

use std::time::Duration;

use doorbell::senders::Recording;
use doorbell::{ChannelConfig, RetryPolicy};

use crate::support::{Running, TestDb};

/// Little on disk, and as text more than the server can make of one value: numbers of 131,072 digits each.
const BEYOND_ALL_LIMITS: &str = "INSERT INTO notification_jobs (channel, recipient, payload, max_attempts)
    SELECT 'ops', 'beyond', ('[' || string_agg('1e131071', ',') || ']')::jsonb, 1 FROM generate_series(1, 8500)";
/// Bytes that are no text of ours.
const NO_UTF8: &str = "INSERT INTO notification_jobs (channel, recipient, max_attempts) VALUES ('ops', E'caf\\xe9', 2)";

async fn all_others_go_out(db: &TestDb, unreadable: &str) {
    let recording = Recording::new();
    let quick = ChannelConfig::default().retry(RetryPolicy::linear(Duration::from_millis(100)));
    let builder =
        db.reactor_with(recording.clone(), quick)
            .channel("alerts", recording.clone(), ChannelConfig::default());
    let insert = "INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', 'me'), ('alerts', 'me')";
    db.psql(insert).await;
    db.psql(unreadable).await;
    db.psql(insert).await;
    let running = Running::start(builder).await;
    db.becomes("failed=1 sent=4").await;
    db.psql(insert).await;
    db.becomes("failed=1 sent=6").await;
    running.stop().await;
    assert_eq!(recording.recorded().len(), 6);
    let why = "SELECT last_error FROM notification_jobs WHERE status = 'failed'";
    let why = db.value(why).await;
    assert!(why.starts_with("the row could not be read: "), "{why}");
    assert_eq!(
        db.value("SELECT max(attempts) FROM notification_jobs WHERE status = 'sent'")
            .await,
        "1"
    );
}

#[tokio::test]
async fn one_whose_text_is_beyond_what_the_server_can_make_fails_alone() {
    let db = TestDb::new().await;
    all_others_go_out(&db, BEYOND_ALL_LIMITS).await;
}

#[tokio::test]
async fn one_whose_bytes_are_no_text_fails_alone() {
    let db = TestDb::of_any_bytes().await;
    all_others_go_out(&db, NO_UTF8).await;
}

#[tokio::test]
async fn without_a_bell_they_fail_alone_too() {
    let db = TestDb::of_any_bytes().await;
    db.psql(NO_UTF8).await;
    db.insert("me").await;
    let recording = Recording::new();
    let reactor = db.reactor(recording.clone()).build().unwrap();
    let processed = reactor.process_due(10).await.unwrap();
    assert_eq!((processed.sent, processed.retried), (1, 1));
}
