//! Reactors that die, freeze, or come back too late.

use std::time::Duration;

use doorbell::senders::Recording;
use doorbell::{ChannelConfig, Database, Notification, OnUnknown, Receipt, SendError, Sender};

use crate::support::{Child, Gate, Running, SOON, TestDb, Traffic, eventually, expect, patient, reactor_on};

const LEASE: Duration = Duration::from_secs(1);

/// Takes over what others leave, and writes `second` into the receipt.
async fn second_reactor(db: &TestDb, config: ChannelConfig) -> (Running, Recording) {
    let recording = Recording::answering(|_| Ok(Receipt::new("second")));
    let builder = db.reactor_with(recording.clone(), config).lease(LEASE);
    (Running::start(builder).await, recording)
}

const ROW: &str = "SELECT concat_ws(' ', status, attempts, receipt, claimed_by IS NULL) FROM notification_jobs";

#[tokio::test]
async fn a_send_that_takes_longer_than_the_lease_keeps_its_row() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let first = Running::start(db.reactor_with(gate.clone(), patient()).lease(LEASE)).await;
    db.insert("me").await;
    gate.next().await;
    let (second, recording) = second_reactor(&db, patient()).await;
    let lease_ends = "SELECT next_attempt_at FROM notification_jobs";
    let first_lease = db.value(lease_ends).await;
    db.psql(&format!(
        "SELECT pg_sleep_until('{first_lease}'::timestamptz + interval '1 s')"
    ))
    .await;
    assert_ne!(db.value(lease_ends).await, first_lease);
    gate.open();
    db.becomes("sent=1").await;
    assert_eq!(db.value(ROW).await, "sent 1 t");
    assert!(recording.recorded().is_empty());
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn a_reactor_cut_off_past_its_lease_loses_its_row_and_its_late_outcome_changes_nothing() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let proxy = db.proxy().await;
    let database = db.database_through(&proxy).build().unwrap();
    let first = Running::start(reactor_on(database, gate.clone(), patient()).lease(LEASE)).await;
    db.insert("me").await;
    gate.next().await;
    proxy.set(Traffic::Cut);
    let (second, recording) = second_reactor(&db, patient()).await;
    let taken_over = tokio::time::timeout(SOON, recording.next()).await.unwrap();
    assert_eq!((taken_over.recipient(), taken_over.attempt()), ("me", 2));
    db.becomes("sent=1").await;
    let written = db.value("SELECT updated_at FROM notification_jobs").await;

    gate.open();
    proxy.set(Traffic::Pass);
    second.stop().await;
    // The first is back, and does what comes next.
    db.insert("next").await;
    assert_eq!(
        tokio::time::timeout(SOON, gate.next()).await.unwrap().recipient(),
        "next"
    );
    first.stop().await;
    assert_eq!(
        db.value(&format!("{ROW} WHERE recipient = 'me'")).await,
        "sent 2 second t"
    );
    let unchanged = db
        .value("SELECT updated_at FROM notification_jobs WHERE recipient = 'me'")
        .await;
    assert_eq!(unchanged, written);
}

#[tokio::test]
async fn a_late_outcome_does_not_end_the_send_that_another_has_begun() {
    let (db, gate, others) = (TestDb::new().await, Gate::shut(), Gate::shut());
    let proxy = db.proxy().await;
    let database = db.database_through(&proxy).build().unwrap();
    let first = Running::start(reactor_on(database, gate.clone(), patient()).lease(LEASE)).await;
    db.insert("me").await;
    gate.next().await;
    proxy.set(Traffic::Cut);
    gate.open();
    let full = patient().max_in_flight(1);
    let second = Running::start(db.reactor_with(others.clone(), full).lease(LEASE)).await;
    assert_eq!(tokio::time::timeout(SOON, others.next()).await.unwrap().attempt(), 2);
    proxy.set(Traffic::Pass);
    // An outcome that waits is written before anything is claimed.
    db.insert("next").await;
    assert_eq!(
        tokio::time::timeout(SOON, gate.next()).await.unwrap().recipient(),
        "next"
    );
    assert_eq!(db.value(&format!("{ROW} WHERE recipient = 'me'")).await, "pending 2 f");
    others.open();
    db.becomes("sent=2").await;
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn a_reactor_cut_off_past_its_lease_with_nobody_to_take_over_sends_once() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let proxy = db.proxy().await;
    let database = db.database_through(&proxy).build().unwrap();
    let running = Running::start(reactor_on(database, gate.clone(), patient()).lease(LEASE)).await;
    db.insert("me").await;
    gate.next().await;
    proxy.set(Traffic::Cut);
    db.psql("SELECT pg_sleep_until(next_attempt_at + interval '0.5 s') FROM notification_jobs")
        .await;
    proxy.set(Traffic::Pass);
    db.armed(1).await;
    gate.open();
    db.becomes("sent=1").await;
    assert_eq!(
        gate.begun(),
        1,
        "its own claim, renewed or taken anew, is that of the send that runs"
    );
    running.stop().await;
}

#[tokio::test]
async fn the_row_of_a_killed_process_is_sent_by_another_when_its_lease_ends() {
    let db = TestDb::new().await;
    db.insert("me").await;
    let mut child = Child::run("leases::child_that_never_finishes", &db);
    assert_eq!(child.says("sending ").await, "me");
    let (second, recording) = second_reactor(&db, patient()).await;
    child.signal("KILL").await;
    child.ended().await;
    let sent = tokio::time::timeout(SOON, recording.next()).await.unwrap();
    assert_eq!((sent.recipient(), sent.attempt()), ("me", 2));
    db.becomes("sent=1").await;
    second.stop().await;
}

#[tokio::test]
async fn the_row_of_a_killed_process_is_held_where_nothing_is_sent_twice() {
    let db = TestDb::new().await;
    db.insert("me").await;
    let mut child = Child::run("leases::child_that_never_finishes", &db);
    child.says("sending ").await;
    let (second, recording) = second_reactor(&db, patient().on_unknown(OnUnknown::Hold)).await;
    child.signal("KILL").await;
    db.becomes("failed=1").await;
    let error = db.value("SELECT last_error FROM notification_jobs").await;
    assert!(error.starts_with("held: nobody knows how attempt 1 ended"), "{error}");
    assert!(recording.recorded().is_empty());
    second.stop().await;
}

#[tokio::test]
async fn a_frozen_process_that_thaws_after_its_lease_overwrites_nothing() {
    let db = TestDb::new().await;
    db.insert("me").await;
    let mut child = Child::run("leases::child_that_finishes_when_the_row_is_sent", &db);
    child.says("sending ").await;
    let (second, recording) = second_reactor(&db, patient()).await;
    child.signal("STOP").await;
    tokio::time::timeout(SOON, recording.next()).await.unwrap();
    db.becomes("sent=1").await;
    let before = db.psql("SELECT * FROM notification_jobs").await;
    child.signal("CONT").await;
    assert!(
        child.ended().await.success(),
        "it finished its send, and stopped in order"
    );
    assert_eq!(db.psql("SELECT * FROM notification_jobs").await, before);
    second.stop().await;
}

#[tokio::test]
#[ignore = "a child process of other tests"]
async fn child_that_never_finishes() {
    let reactor = reactor_on(child_database(), Announcing { until_sent: false }, patient()).lease(LEASE);
    let _ = reactor.build().unwrap().run(std::future::pending()).await;
}

#[tokio::test]
#[ignore = "a child process of another test"]
async fn child_that_finishes_when_the_row_is_sent() {
    let reactor = reactor_on(child_database(), Announcing { until_sent: true }, patient()).lease(LEASE);
    // Stops when the row is sent by the other, its own send ended or cut off.
    reactor.build().unwrap().run(row_is_sent()).await.unwrap();
}

fn child_database() -> Database {
    Database::builder(Child::url()).build().unwrap()
}

async fn row_is_sent() {
    let client = crate::support::connect(&Child::url()).await;
    let sent = "SELECT FROM notification_jobs WHERE status = 'sent'";
    while client.query(sent, &[]).await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Says what it sends, and then never ends, or ends when the row is sent by somebody else.
struct Announcing {
    until_sent: bool,
}

impl Sender for Announcing {
    async fn send(&self, notification: &Notification) -> Result<Receipt, SendError> {
        println!("\nsending {}", notification.recipient());
        if !self.until_sent {
            std::future::pending::<()>().await;
        }
        row_is_sent().await;
        Ok(Receipt::new("first"))
    }
}

#[tokio::test]
async fn a_list_of_reactors_that_somebody_keeps_locked_costs_no_send_its_lease() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let running = Running::start(db.reactor_with(gate.clone(), patient()).lease(LEASE)).await;
    db.insert("slow").await;
    gate.next().await;
    let (second, recording) = second_reactor(&db, patient()).await;
    let keeper = db.client().await;
    let lock = "BEGIN; LOCK TABLE notification_reactors IN ACCESS EXCLUSIVE MODE";
    keeper.batch_execute(lock).await.unwrap();
    // For longer than a statement waits for the list.
    let renewed = "SELECT next_attempt_at - created_at > interval '8 s' FROM notification_jobs";
    eventually(SOON, || async {
        expect(db.value(renewed).await == "true", "not renewed")
    })
    .await;
    gate.open();
    db.becomes("sent=1").await;
    assert_eq!(db.value(ROW).await, "sent 1 t");
    assert!(recording.recorded().is_empty());
    keeper.batch_execute("COMMIT").await.unwrap();
    running.stop().await;
    second.stop().await;
}
