//! Rows that the server cannot give to anybody: they fail alone, and all others go out.

use std::time::Duration;

use doorbell::senders::Recording;
use doorbell::{ChannelConfig, Job, JobFilter, Queue, RetryPolicy};

use crate::support::program::printed;
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
async fn they_are_listed_and_counted_all_the_same() {
    let (db, queue) = (TestDb::of_any_bytes().await, Queue::default());
    let client = db.client().await;
    db.psql(NO_UTF8).await;
    db.psql(r"INSERT INTO notification_jobs (channel, recipient) VALUES (E'caf\xe9', 'me')")
        .await;
    let names =
        |jobs: Vec<Job>| -> Vec<String> { jobs.into_iter().map(|job| job.channel + " " + &job.recipient).collect() };
    let listed = queue.list(&client, &JobFilter::default()).await.unwrap();
    assert_eq!(names(listed), ["caf\u{fffd} me", "ops caf\u{fffd}"]);
    let status = queue.status(&client).await.unwrap();
    assert_eq!(status.channels[0].channel, "caf\u{fffd}");

    db.psql(BEYOND_ALL_LIMITS).await;
    let without = JobFilter::default().without_payload();
    let listed = queue.list(&client, &without).await.unwrap();
    assert!(
        listed
            .iter()
            .all(|job| job.payload.is_none() && !job.to_json().contains("payload"))
    );
    assert_eq!(names(listed)[0], "ops beyond");
    let table = printed(["list", "--database-url", &db.url()]).await;
    assert!(table.contains("beyond"), "{table}");
}

#[tokio::test]
async fn without_a_bell_they_fail_alone_too() {
    let db = TestDb::of_any_bytes().await;
    db.psql(NO_UTF8).await;
    db.insert("me").await;
    let recording = Recording::new();
    let at_once = ChannelConfig::default().retry(RetryPolicy::linear(Duration::from_millis(1)));
    let reactor = db.reactor_with(recording.clone(), at_once).build().unwrap();
    let mut sent = 0;
    for _ in 0..2 {
        sent += reactor.process_due(10).await.unwrap().sent;
        db.psql("SELECT pg_sleep(0.1)").await;
    }
    assert_eq!(sent, 1);
    db.becomes("failed=1 sent=1").await;
}
