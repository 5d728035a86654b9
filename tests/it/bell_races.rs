//! The interleavings in which a bell loses wake-ups, forced one by one. The rules they defend stand at the top of
//! `src/reactor/bell.rs`. The safety scan is far away: a lost wake-up is a row that is never sent.

use std::time::Duration;

use doorbell::ChannelConfig;
use doorbell::senders::Recording;

use crate::support::{Gate, Running, SOON, TestDb};

async fn comes(recording: &Recording, recipient: &str) {
    let Ok(sent) = tokio::time::timeout(SOON, recording.next()).await else {
        panic!("a wake-up was lost");
    };
    assert_eq!(sent.recipient(), recipient);
}

/// Waits until the dispatcher sleeps behind the last thing that it found.
async fn asleep(db: &TestDb) {
    db.armed(1).await;
}

#[tokio::test]
async fn a_ring_that_comes_while_a_claim_runs_leads_to_another_look() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let held_up = db.hold_up_claims().await;
    let running = Running::start(db.reactor(recording.clone())).await;
    asleep(&db).await;
    db.insert("slow").await;
    held_up.has(1).await;
    // The claim has its snapshot: it cannot see this row.
    db.insert("rang meanwhile").await;
    held_up.let_go().await;
    comes(&recording, "slow").await;
    comes(&recording, "rang meanwhile").await;
    running.stop().await;
}

#[tokio::test]
async fn a_silent_row_that_is_committed_while_a_claim_runs_is_seen_by_the_next() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let held_up = db.hold_up_claims().await;
    let config = ChannelConfig::default()
        .max_in_flight(1)
        .timeout(Duration::from_secs(600));
    let running = Running::start(db.reactor_with(gate.clone(), config)).await;
    db.insert("occupies the slot").await;
    gate.next().await;
    db.armed(0).await;
    let producer = db.client().await;
    let silent = "BEGIN; INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', 'silent')";
    producer.batch_execute(silent).await.unwrap();
    assert_eq!(db.holders("in_flight").await, 1);

    gate.open();
    db.armed(1).await;
    // Drowsy now: armed, and the producer is still at work.
    db.insert("slow").await;
    held_up.has(1).await;
    producer.batch_execute("COMMIT").await.unwrap();
    held_up.let_go().await;
    assert_eq!(
        tokio::time::timeout(SOON, gate.next()).await.unwrap().recipient(),
        "slow"
    );
    let sent = tokio::time::timeout(SOON, gate.next()).await;
    assert_eq!(sent.expect("a wake-up was lost").recipient(), "silent");
    running.stop().await;
}

#[tokio::test]
async fn a_producer_that_is_held_up_between_its_two_looks_sees_who_fell_asleep_meanwhile() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let held_up = db.hold_up_inserts().await;
    let producer = db.client().await;
    let insert = "INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', 'between')";
    // Its first look: nobody is asleep, since nobody runs.
    let inserted = tokio::spawn(async move { producer.batch_execute(insert).await });
    held_up.has(1).await;
    let running = Running::start(db.reactor(recording.clone())).await;
    asleep(&db).await;
    // This one rings, is sent, and leaves the reactor asleep.
    db.insert("another").await;
    comes(&recording, "another").await;
    asleep(&db).await;
    held_up.let_go().await;
    inserted.await.unwrap().unwrap();
    comes(&recording, "between").await;
    running.stop().await;
}

#[tokio::test]
async fn a_row_that_becomes_due_while_a_claim_runs_is_seen_by_the_next() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let held_up = db.hold_up_claims().await;
    let running = Running::start(db.reactor(recording.clone())).await;
    asleep(&db).await;
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, next_attempt_at)
         VALUES ('ops', 'slow', now()), ('ops', 'due meanwhile', clock_timestamp() + interval '0.2 s')",
    )
    .await;
    held_up.has(1).await;
    let due = "SELECT pg_sleep_until(next_attempt_at) FROM notification_jobs WHERE recipient = 'due meanwhile'";
    db.psql(due).await;
    held_up.let_go().await;
    comes(&recording, "slow").await;
    comes(&recording, "due meanwhile").await;
    running.stop().await;
}

#[tokio::test]
async fn a_slot_that_is_freed_while_a_claim_runs_is_used() {
    let (db, gate, recording) = (TestDb::new().await, Gate::shut(), Recording::new());
    let held_up = db.hold_up_claims().await;
    let config = ChannelConfig::default()
        .max_in_flight(1)
        .timeout(Duration::from_secs(600));
    let reactor = db
        .reactor_with(gate.clone(), config)
        .channel("other", recording.clone(), ChannelConfig::default());
    let running = Running::start(reactor).await;
    asleep(&db).await;
    db.insert("occupies the slot").await;
    gate.next().await;
    db.insert("waits for the slot").await;
    asleep(&db).await;
    db.psql("INSERT INTO notification_jobs (channel, recipient) VALUES ('other', 'slow')")
        .await;
    held_up.has(1).await;
    gate.open();
    db.becomes("pending=2 sent=1").await;
    held_up.let_go().await;
    comes(&recording, "slow").await;
    assert_eq!(
        tokio::time::timeout(SOON, gate.next()).await.unwrap().recipient(),
        "waits for the slot"
    );
    running.stop().await;
}
