//! Payloads that are too large to be claimed many at once. That a process stays small is shown in `program/large.rs`.

use std::time::Duration;

use doorbell::senders::Recording;
use doorbell::{ChannelConfig, Database, Mode, Notification, OnUnknown, Reactor, RetryPolicy};

use crate::support::{Gate, Role, Running, SOON, TestDb, eventually, expect, patient, reactor_on};

/// Two are more than a reactor holds of large payloads at once, so each is held alone.
const HUGE: usize = 34_000_000;

/// Inserts rows, numbered from 1 on, whose payloads are strings so long. On disk they are small: one is compressed, and the
/// others are copies.
pub(crate) async fn insert(db: &TestDb, rows: usize, length: usize) {
    let insert = "INSERT INTO notification_jobs (channel, recipient, payload)";
    db.psql(&format!(
        "{insert} VALUES ('ops', '1', to_jsonb(repeat('x', {length})));
         {insert} SELECT 'ops', n::text, payload FROM notification_jobs, generate_series(2, {rows}) AS n
             WHERE recipient = '1'"
    ))
    .await;
}

/// A reactor that has two such rows, and room for one: that one is with its sender, the other waits.
async fn one_that_waits(db: &TestDb, gate: &Gate) -> Running {
    insert(db, 2, HUGE).await;
    let running = Running::start(db.reactor_with(gate.clone(), patient())).await;
    assert_eq!(gate.wait_for(1, SOON).await.len(), 1);
    let claimed = "SELECT count(*) FROM notification_jobs WHERE claimed_by IS NOT NULL";
    assert_eq!(db.value(claimed).await, "2");
    running
}

#[tokio::test]
async fn they_arrive_as_they_are_and_small_ones_do_not_wait_for_them() {
    let (db, gate, recording) = (TestDb::new().await, Gate::shut(), Recording::new());
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, payload)
         SELECT 'ops', 'large', jsonb_agg(md5(n::text)) FROM generate_series(1, 100000) AS n",
    )
    .await;
    insert(&db, 2, HUGE).await;
    let builder = db
        .reactor(gate.clone())
        .channel("alerts", recording.clone(), ChannelConfig::default());
    let running = Running::start(builder).await;
    gate.wait_for(1, SOON).await;
    db.psql("INSERT INTO notification_jobs (channel, recipient) VALUES ('alerts', 'me'), ('ops', 'small')")
        .await;
    tokio::time::timeout(SOON, recording.next()).await.unwrap();
    eventually(SOON, || async {
        let begun = gate.wait_for(0, Duration::ZERO).await;
        let is_small = |n: &Notification| n.recipient() == "small";
        expect(begun.iter().any(is_small), "the small one waits")
    })
    .await;
    gate.open();
    db.becomes("sent=5").await;
    let sent = gate.wait_for(4, SOON).await;
    let large = sent.iter().find(|n| n.recipient() == "large").unwrap();
    let payload = "SELECT payload FROM notification_jobs WHERE recipient = 'large'";
    assert!(large.payload() == db.value(payload).await, "it has changed");
    running.stop().await;
}

#[tokio::test]
async fn one_that_is_no_longer_ours_when_its_turn_comes_is_not_sent() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let running = one_that_waits(&db, &gate).await;
    let first = gate.next().await.id();
    db.psql(&format!(
        "UPDATE notification_jobs SET status = 'cancelled', claimed_by = NULL WHERE id <> '{first}'"
    ))
    .await;
    gate.open();
    db.becomes("cancelled=1 sent=1").await;
    running.stop().await;
    assert_eq!((gate.begun(), db.statuses().await.as_str()), (1, "cancelled=1 sent=1"));
}

#[tokio::test]
async fn one_that_expires_before_its_turn_comes_is_not_sent() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    insert(&db, 2, HUGE).await;
    // As long as it may take until both are claimed and one is read.
    db.psql("UPDATE notification_jobs SET expires_at = clock_timestamp() + interval '10 s'")
        .await;
    let running = Running::start(db.reactor_with(gate.clone(), patient())).await;
    let first = gate.next().await.id();
    assert_eq!(
        db.value("SELECT count(*) FROM notification_jobs WHERE claimed_by IS NOT NULL")
            .await,
        "2"
    );
    // The send that runs has no time either, and ends.
    db.becomes("expired=2").await;
    assert_eq!(gate.begun(), 1, "{first}");
    running.stop().await;
}

async fn one_waits_when_the_reactor_stops(on_unknown: OnUnknown, rows_then: &str) {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    insert(&db, 2, HUGE).await;
    let builder = db
        .reactor_with(gate.clone(), patient().on_unknown(on_unknown))
        .shutdown_grace(Duration::from_millis(100));
    let running = Running::start(builder).await;
    gate.wait_for(1, SOON).await;
    assert!(running.stop().await < Duration::from_secs(3));
    let rows =
        "SELECT string_agg(concat_ws(' ', status, attempts, claimed_by), ', ' ORDER BY status) FROM notification_jobs";
    assert_eq!(db.value(rows).await, rows_then);
    assert_eq!(gate.begun(), 1);
}

#[tokio::test]
async fn one_that_waits_when_the_reactor_stops_is_given_back_at_no_cost() {
    one_waits_when_the_reactor_stops(OnUnknown::Retry, "pending 0, pending 0").await;
}

#[tokio::test]
async fn one_that_waits_when_the_reactor_stops_is_not_held_for_one_that_may_have_arrived() {
    one_waits_when_the_reactor_stops(OnUnknown::Hold, "failed 1, pending 0").await;
}

#[tokio::test]
async fn one_whose_turn_comes_while_the_reactor_stops_is_left_to_others() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let running = one_that_waits(&db, &gate).await;
    let reactor = running.reactor.clone();
    let stopping = tokio::spawn(running.stop());
    // What it no longer does: claim.
    db.psql("SELECT pg_sleep(1)").await;
    gate.open();
    stopping.await.unwrap();
    assert_eq!((reactor.mode(), gate.begun()), (Mode::Starting, 1));
    let rows = "SELECT string_agg(concat_ws(' ', status, attempts), ', ' ORDER BY status) FROM notification_jobs";
    assert_eq!(db.value(rows).await, "pending 0, sent 1");
}

#[tokio::test]
async fn a_pool_that_others_use_up_costs_none_an_attempt() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let database = Database::builder(db.url()).pool_size(2).build().unwrap();
    let running = Running::start(reactor_on(
        database.clone(),
        recording.clone(),
        ChannelConfig::default(),
    ))
    .await;
    let taken = (database.client().await.unwrap(), database.client().await.unwrap());
    insert(&db, 1, 5_000_000).await;
    // Three times as long as a connection of the pool is waited for, and more.
    db.psql("SELECT pg_sleep(17)").await;
    assert!(recording.recorded().is_empty());
    drop(taken);
    let sent = tokio::time::timeout(SOON, recording.next()).await.unwrap();
    assert_eq!(sent.attempt(), 1);
    db.becomes("sent=1").await;
    running.stop().await;
}

#[tokio::test]
async fn one_that_waits_holds_up_no_other_channel() {
    let (db, gate, recording) = (TestDb::new().await, Gate::shut(), Recording::new());
    insert(&db, 2, HUGE).await;
    let builder =
        db.reactor_with(gate.clone(), patient())
            .channel("alerts", recording.clone(), ChannelConfig::default());
    let running = Running::start(builder).await;
    gate.wait_for(1, SOON).await;
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, payload)
         SELECT 'alerts', 'me', jsonb_agg(md5(n::text)) FROM generate_series(1, 1000) AS n",
    )
    .await;
    tokio::time::timeout(SOON, recording.next()).await.unwrap();
    assert_eq!(gate.begun(), 1);
    gate.open();
    db.becomes("sent=3").await;
    running.stop().await;
}

#[tokio::test]
async fn one_that_was_made_due_again_while_it_waits_is_sent_by_the_send_that_waits() {
    for again in [
        "claimed_by = NULL",
        "claimed_by = NULL, next_attempt_at = clock_timestamp()",
    ] {
        let (db, gate) = (TestDb::new().await, Gate::shut());
        let running = one_that_waits(&db, &gate).await;
        let first = gate.next().await.id();
        db.psql(&format!("UPDATE notification_jobs SET {again} WHERE id <> '{first}'"))
            .await;
        db.insert("rings").await;
        assert_eq!(gate.wait_for(2, SOON).await.len(), 2);
        gate.open();
        db.becomes("sent=3").await;
        running.stop().await;
        assert_eq!(gate.begun(), 3, "{again}");
        let errors = "SELECT count(last_error) FROM notification_jobs";
        assert_eq!(db.value(errors).await, "0", "{again}");
    }
}

#[tokio::test]
async fn one_that_cannot_be_read_costs_an_attempt_and_is_tried_again() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let role = Role::new(&db, "reactor").await;
    let name = &role.name;
    let grant = format!("GRANT SELECT, UPDATE ON notification_jobs TO {name}");
    db.psql(&format!("{grant}; GRANT ALL ON notification_reactors TO {name}"))
        .await;
    insert(&db, 2, HUGE).await;
    let quick = ChannelConfig::default().retry(RetryPolicy::linear(Duration::from_millis(50)));
    let database = Database::builder(role.url()).build().unwrap();
    let running = Running::start(reactor_on(database, gate.clone(), quick)).await;
    gate.next().await;
    db.psql(&format!("REVOKE SELECT ON notification_jobs FROM {name}"))
        .await;
    gate.open();
    // As long as it may take to ask how large the second is, and to be refused.
    db.psql("SELECT pg_sleep(3)").await;
    db.psql(&grant).await;
    let second = tokio::time::timeout(SOON, gate.next()).await.unwrap();
    assert_eq!(second.attempt(), 2);
    db.becomes("sent=2").await;
    running.stop().await;
}

#[tokio::test]
async fn without_a_bell_they_go_out_too() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    insert(&db, 3, 5_000_000).await;
    let reactor = Reactor::builder(db.database())
        .channel("ops", recording.clone(), ChannelConfig::default())
        .build()
        .unwrap();
    let processed = reactor.process_due(10).await.unwrap();
    assert_eq!((processed.sent, processed.retried), (3, 0));
    assert!(recording.recorded().iter().all(|n| n.payload().len() == 5_000_002));
}
