//! When a row is due, and when it no longer is.

use std::time::{Duration, Instant};

use doorbell::senders::Recording;
use doorbell::{ChannelConfig, RetryPolicy, SendError};

use crate::support::{Running, SOON, TestDb};

const DELAY: Duration = Duration::from_millis(1500);

/// Waits for the next send, which must come at `DELAY` after `begun`: neither sooner nor at the scan.
async fn comes_after_the_delay(recording: &Recording, begun: Instant) {
    tokio::time::timeout(SOON, recording.next()).await.unwrap();
    let after = begun.elapsed();
    assert!(after >= DELAY, "too soon, after {after:?}");
    assert!(after < DELAY + Duration::from_secs(2), "too late, after {after:?}");
}

#[tokio::test]
async fn a_delayed_row_leaves_when_it_is_due_and_not_at_the_next_scan() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let running = Running::start(db.reactor(recording.clone())).await;
    db.armed(1).await;
    let begun = Instant::now();
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, next_attempt_at)
         VALUES ('ops', 'me', clock_timestamp() + interval '1.5 s'), ('ops', 'later', now() + interval '1 hour')",
    )
    .await;
    comes_after_the_delay(&recording, begun).await;
    running.stop().await;
}

#[tokio::test]
async fn a_delayed_row_from_before_the_start_leaves_when_it_is_due() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let begun = Instant::now();
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, next_attempt_at)
         VALUES ('ops', 'me', clock_timestamp() + interval '1.5 s')",
    )
    .await;
    let running = Running::start(db.reactor(recording.clone())).await;
    comes_after_the_delay(&recording, begun).await;
    running.stop().await;
}

#[tokio::test]
async fn a_retry_leaves_when_it_is_due_and_not_at_the_next_scan() {
    let db = TestDb::new().await;
    let recording = Recording::answering(|_| Err(SendError::transient("busy")));
    let config = ChannelConfig::default().retry(RetryPolicy::linear(DELAY));
    let running = Running::start(db.reactor_with(recording.clone(), config)).await;
    db.insert("me").await;
    recording.next().await;
    let begun = Instant::now();
    comes_after_the_delay(&recording, begun).await;
    running.stop().await;
}

#[tokio::test]
async fn a_retry_is_not_forgotten_among_other_rows() {
    let db = TestDb::new().await;
    let recording = Recording::answering(|n| match (n.recipient(), n.attempt()) {
        ("me", 1) => Err(SendError::transient("busy")),
        _ => Ok(doorbell::Receipt::none()),
    });
    let config = ChannelConfig::default().retry(RetryPolicy::linear(DELAY));
    let running = Running::start(db.reactor_with(recording.clone(), config)).await;
    db.insert("me").await;
    recording.next().await;
    let begun = Instant::now();
    // Each of them makes the reactor look, and ask anew when the next row is due.
    for _ in 0..10 {
        db.insert("other").await;
        assert_eq!(recording.next().await.recipient(), "other");
    }
    comes_after_the_delay(&recording, begun).await;
    db.becomes("sent=11").await;
    running.stop().await;
}

#[tokio::test]
async fn instants_at_the_ends_of_time_hold_nothing_up() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let running = Running::start(db.reactor(recording.clone())).await;
    db.armed(1).await;
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, next_attempt_at)
         SELECT 'ops', at::text, at FROM unnest('{infinity, 294276-12-31 23:59:59, -infinity, 4713-01-01 BC,
             0001-01-01 BC}'::timestamptz[]) at",
    )
    .await;
    db.becomes("pending=2 sent=3").await;
    db.armed(1).await;
    db.insert("an ordinary one").await;
    db.becomes("pending=2 sent=4").await;
    running.stop().await;
}

#[tokio::test]
async fn a_row_is_not_sent_after_it_expired() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, next_attempt_at, expires_at) VALUES
             ('ops', 'before the start', now(), now()),
             ('ops', 'while it waited', clock_timestamp() + interval '0.4 s', clock_timestamp() + interval '0.2 s'),
             ('ops', 'since ever', now(), '-infinity'), ('ops', 'never', now(), 'infinity')",
    )
    .await;
    let running = Running::start(db.reactor(recording.clone())).await;
    db.becomes("expired=3 sent=1").await;
    assert_eq!(recording.recorded().len(), 1);
    assert_eq!(recording.next().await.recipient(), "never");
    assert_eq!(db.value("SELECT sum(attempts) FROM notification_jobs").await, "1");
    running.stop().await;
}

#[tokio::test]
async fn a_row_that_expires_between_two_tries_is_not_tried_again() {
    let db = TestDb::new().await;
    let recording = Recording::answering(|_| Err(SendError::transient("busy")));
    let config = ChannelConfig::default().retry(RetryPolicy::linear(Duration::from_millis(1200)));
    let running = Running::start(db.reactor_with(recording.clone(), config)).await;
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, expires_at)
         VALUES ('ops', 'me', clock_timestamp() + interval '1 s')",
    )
    .await;
    db.becomes("expired=1").await;
    assert_eq!(recording.recorded().len(), 1);
    let row = "SELECT attempts || ' ' || last_error || ' ' || (claimed_by IS NULL) FROM notification_jobs";
    assert_eq!(db.value(row).await, "1 busy true");
    running.stop().await;
}

#[tokio::test]
async fn a_send_is_dropped_when_its_row_expires() {
    let (db, gate) = (TestDb::new().await, crate::support::Gate::shut());
    let running = Running::start(db.reactor(gate.clone())).await;
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, expires_at)
         VALUES ('ops', 'me', clock_timestamp() + interval '0.5 s')",
    )
    .await;
    let sent = gate.next().await;
    assert!(sent.deadline() < Instant::now() + Duration::from_secs(1));
    db.becomes("expired=1").await;
    assert_eq!(gate.begun(), 1);
    running.stop().await;
}
