//! Row and table locks in the hands of others.

use std::time::Duration;

use doorbell::senders::Recording;
use doorbell::{ChannelConfig, OnUnknown, Receipt, SendError};
use tokio_postgres::Client;

use crate::support::{Gate, Running, SOON, TestDb, eventually, expect, patient};

#[tokio::test]
async fn a_due_row_that_somebody_holds_is_sent_when_it_is_let_go_and_others_flow_meanwhile() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    db.insert("held").await;
    let holder = db.client().await;
    holder
        .batch_execute("BEGIN; SELECT FROM notification_jobs FOR UPDATE")
        .await
        .unwrap();
    let running = Running::start(db.reactor(recording.clone())).await;
    for n in 0..5 {
        db.insert(&format!("free {n}")).await;
        let sent = tokio::time::timeout(SOON, recording.next()).await.unwrap();
        assert_eq!(sent.recipient(), format!("free {n}"));
    }
    // Naps grow: after a while the reactor hardly asks.
    let transactions = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
    let client = db.client().await;
    let count = async || -> i64 { client.query_one(transactions, &[]).await.unwrap().try_get(0).unwrap() };
    eventually(SOON, || async {
        let before = count().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let within_a_second = count().await - before;
        expect(
            within_a_second <= 20,
            format!("{within_a_second} transactions within a second"),
        )
    })
    .await;
    holder.batch_execute("COMMIT").await.unwrap();
    let sent = tokio::time::timeout(Duration::from_secs(3), recording.next())
        .await
        .unwrap();
    assert_eq!(sent.recipient(), "held");
    running.stop().await;
}

#[tokio::test]
async fn a_foreign_key_check_does_not_hold_a_row_up() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    db.insert("referenced").await;
    let holder = db.client().await;
    holder
        .batch_execute("BEGIN; SELECT FROM notification_jobs FOR KEY SHARE")
        .await
        .unwrap();
    let running = Running::start(db.reactor(recording.clone())).await;
    db.becomes("sent=1").await;
    running.stop().await;
}

#[tokio::test]
async fn a_lock_on_one_row_that_is_being_sent_holds_up_neither_the_outcomes_nor_the_leases_of_others() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let reactor = db.reactor_with(gate.clone(), patient()).lease(Duration::from_secs(2));
    let running = Running::start(reactor).await;
    for recipient in ["held", "a", "b"] {
        db.insert(recipient).await;
    }
    gate.wait_for(3, SOON).await;
    let holder = db.client().await;
    holder
        .batch_execute("BEGIN; SELECT FROM notification_jobs WHERE recipient = 'held' FOR UPDATE")
        .await
        .unwrap();
    // Two leases later the other two are still this reactor's, on their first try.
    db.psql("SELECT pg_sleep_until(min(next_attempt_at) + interval '2 s') FROM notification_jobs")
        .await;
    let kept =
        "SELECT count(*) FROM notification_jobs WHERE attempts = 1 AND next_attempt_at > now() AND recipient <> 'held'";
    assert_eq!(db.value(kept).await, "2");
    gate.open();
    db.becomes("pending=1 sent=2").await;
    for n in 0..5 {
        db.insert(&format!("{n}")).await;
        tokio::time::timeout(SOON, gate.next()).await.unwrap();
    }
    db.becomes("pending=1 sent=7").await;
    holder.batch_execute("COMMIT").await.unwrap();
    db.becomes("sent=8").await;
    assert_eq!(gate.begun(), 8, "none was sent twice");
    running.stop().await;
}

#[tokio::test]
async fn no_session_is_left_waiting_for_each_try_at_a_lock() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let running = Running::start(db.reactor_with(gate.clone(), patient()).lease(Duration::from_secs(1))).await;
    db.insert("held").await;
    gate.next().await;
    let holder = db.client().await;
    holder
        .batch_execute("BEGIN; SELECT FROM notification_jobs FOR UPDATE")
        .await
        .unwrap();
    gate.open();
    db.psql("SELECT pg_sleep_until(next_attempt_at + interval '7 s') FROM notification_jobs")
        .await;
    let waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let waiting: i64 = db.value(waiting).await.parse().unwrap();
    assert!(waiting <= 1, "{waiting} sessions wait for the same lock");
    holder.batch_execute("COMMIT").await.unwrap();
    db.becomes("sent=1").await;
    assert_eq!(gate.begun(), 1);
    running.stop().await;
}

#[tokio::test]
async fn updates_in_the_reverse_order_cost_no_row_and_no_second_send() {
    let db = TestDb::new().await;
    let recording = Recording::answering(|n| match n.attempt() {
        1 => Err(SendError::retry_after(Duration::from_millis(50), "once more")),
        _ => Ok(Receipt::none()),
    });
    let running = Running::start(db.reactor(recording.clone())).await;
    let client = db.client().await;
    client
        .batch_execute(
            "INSERT INTO notification_jobs (channel, recipient) SELECT 'ops', n::text FROM generate_series(1, 200) n",
        )
        .await
        .unwrap();
    let reverse = "DO $$ DECLARE job uuid; BEGIN
                       FOR job IN SELECT id FROM notification_jobs ORDER BY id DESC LOOP
                           UPDATE notification_jobs SET recipient = recipient WHERE id = job;
                       END LOOP;
                   END $$";
    for _ in 0..20 {
        // It may be the victim of a deadlock itself.
        let _ = client.batch_execute(reverse).await;
    }
    db.becomes("sent=200").await;
    assert_eq!(recording.recorded().len(), 400);
    running.stop().await;
}

#[tokio::test]
async fn a_lock_on_the_table_delays_and_loses_nothing() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let running = Running::start(db.reactor_with(gate.clone(), patient())).await;
    db.insert("in flight").await;
    gate.next().await;
    let holder = db.client().await;
    holder.batch_execute("BEGIN; LOCK notification_jobs").await.unwrap();
    gate.open();
    let inserted = tokio::spawn({
        let producer = db.client().await;
        async move {
            let insert = "INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', 'behind the lock')";
            producer.batch_execute(insert).await
        }
    });
    // Longer than a statement of the reactor may take.
    holder.batch_execute("SELECT pg_sleep(6.5); COMMIT").await.unwrap();
    inserted.await.unwrap().unwrap();
    db.becomes("sent=2").await;
    assert_eq!(gate.begun(), 2);
    assert_eq!(db.value("SELECT max(attempts) FROM notification_jobs").await, "1");
    running.stop().await;
}

/// A row due in half a second, and the whole table locked by then.
async fn lock_the_table_around_a_due_row(db: &TestDb) -> Client {
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, next_attempt_at)
         VALUES ('ops', 'me', clock_timestamp() + interval '0.5 s')",
    )
    .await;
    let holder = db.client().await;
    let lock = "BEGIN; LOCK TABLE notification_jobs IN ACCESS EXCLUSIVE MODE";
    holder.batch_execute(lock).await.unwrap();
    holder
}

/// The backend of a session of this name that waits for a lock.
async fn waiting_backend(db: &TestDb, application_name: &str) -> String {
    let waiting = format!(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
         AND application_name = '{application_name}' ORDER BY query_start LIMIT 1"
    );
    eventually(SOON, || async {
        let pid = db.value(&waiting).await;
        expect(!pid.is_empty(), format!("no session of {application_name} waits")).map(|()| pid)
    })
    .await
}

#[tokio::test]
async fn a_statement_that_is_given_up_leaves_no_backend_waiting_for_the_lock() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    // Claims of a channel that holds run on the pool.
    let hold = ChannelConfig::default().on_unknown(OnUnknown::Hold);
    let running = Running::start(db.reactor_with(recording.clone(), hold)).await;
    let holder = lock_the_table_around_a_due_row(&db).await;
    let pid = waiting_backend(&db, "doorbell").await;
    let is_there = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}");
    eventually(SOON, || async {
        expect(db.value(&is_there).await == "0", "it waits still")
    })
    .await;
    holder.batch_execute("COMMIT").await.unwrap();
    db.becomes("sent=1").await;
    assert_eq!(recording.recorded().len(), 1);
    running.stop().await;
}

#[tokio::test]
async fn a_claim_that_waits_for_a_locked_table_does_not_cost_the_listening_session() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let running = Running::start(db.reactor(recording.clone())).await;
    let holder = lock_the_table_around_a_due_row(&db).await;
    let pid = waiting_backend(&db, "doorbell listener").await;
    // Longer than the session waits for a lock.
    holder.batch_execute("SELECT pg_sleep(2.5); COMMIT").await.unwrap();
    db.becomes("sent=1").await;
    let listeners = "SELECT string_agg(pid::text, ' ') FROM pg_stat_activity
                     WHERE datname = current_database() AND application_name = 'doorbell listener'";
    assert_eq!(db.value(listeners).await, pid, "another session listens");
    db.insert("another").await;
    db.becomes("sent=2").await;
    assert_eq!(recording.recorded().len(), 2);
    running.stop().await;
}

#[tokio::test]
async fn a_due_row_that_somebody_holds_does_not_delay_what_becomes_due_on_another_channel() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let reactor = db
        .reactor(recording.clone())
        .channel("other", recording.clone(), ChannelConfig::default());
    let running = Running::start(reactor).await;
    let holder = db.client().await;
    let soon = "INSERT INTO notification_jobs (channel, recipient, next_attempt_at)
                VALUES ('ops', 'held', clock_timestamp() + interval '500 ms')";
    holder.batch_execute(soon).await.unwrap();
    let hold = "BEGIN; SELECT FROM notification_jobs FOR UPDATE";
    holder.batch_execute(hold).await.unwrap();
    // Until the naps are as long as they get.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let mut late = Vec::new();
    for n in 0..6 {
        let after = 300 + 77 * n;
        db.psql(&format!(
            "INSERT INTO notification_jobs (channel, recipient, next_attempt_at)
                 VALUES ('other', 'me', clock_timestamp() + interval '{after} ms')"
        ))
        .await;
        let begun = std::time::Instant::now();
        tokio::time::timeout(SOON, recording.next()).await.unwrap();
        late.push(begun.elapsed().saturating_sub(Duration::from_millis(after)));
    }
    late.sort_unstable();
    // With naps of a second each would be late by half of one.
    assert!(late[3] < Duration::from_millis(300), "{late:?}");
    holder.batch_execute("COMMIT").await.unwrap();
    running.stop().await;
}
