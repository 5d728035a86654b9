//! The bell is heard when somebody sleeps, and silent otherwise.

use std::time::{Duration, Instant};

use doorbell::ChannelConfig;
use doorbell::senders::Recording;

use crate::support::{Gate, Running, SOON, TestDb, eventually, expect};

fn one_at_a_time() -> ChannelConfig {
    ChannelConfig::default()
        .max_in_flight(1)
        .timeout(Duration::from_secs(600))
}

#[tokio::test]
async fn a_transaction_rings_once_however_much_it_inserts() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let running = Running::start(db.reactor(recording.clone())).await;
    db.armed(1).await;
    let ears = db.ears().await;
    let mut client = db.client().await;
    let transaction = client.transaction().await.unwrap();
    for n in 0..5 {
        let insert = format!("INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', '{n}')");
        transaction.batch_execute(&insert).await.unwrap();
    }
    assert_eq!(ears.heard().await, 0, "nothing rings before the commit");
    transaction.commit().await.unwrap();
    db.becomes("sent=5").await;
    assert_eq!(ears.heard().await, 1);
    running.stop().await;
}

#[tokio::test]
async fn a_transaction_that_rolls_back_does_not_ring() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let running = Running::start(db.reactor(recording.clone())).await;
    db.armed(1).await;
    let ears = db.ears().await;
    let insert = "INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', 'me')";
    let client = db.client().await;
    client
        .batch_execute(&format!("BEGIN; {insert}; ROLLBACK"))
        .await
        .unwrap();
    assert_eq!(ears.heard().await, 0);
    running.stop().await;
}

#[tokio::test]
async fn nobody_rings_when_no_reactor_runs() {
    let db = TestDb::new().await;
    let ears = db.ears().await;
    for _ in 0..20 {
        db.insert("me").await;
    }
    assert_eq!((ears.heard().await, db.holders("in_flight").await), (0, 0));
}

#[tokio::test]
async fn nobody_rings_while_the_reactor_has_no_free_slot_and_the_freed_slot_wakes_it() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let running = Running::start(db.reactor_with(gate.clone(), one_at_a_time())).await;
    db.insert("first").await;
    gate.next().await;
    db.armed(0).await;
    let ears = db.ears().await;
    for _ in 0..20 {
        db.insert("more").await;
    }
    assert_eq!(ears.heard().await, 0);
    gate.open();
    db.becomes("sent=21").await;
    assert_eq!(gate.begun(), 21);
    running.stop().await;
}

/// A thousand transactions of one row each by four producers, each a millisecond after its last; by the server itself, so
/// that their pace does not depend on how busy this machine is. Answers with how many of them rang.
async fn rings_among_a_thousand_inserts(db: &TestDb) -> usize {
    let ears = db.ears().await;
    let producer = "DO $$ BEGIN
                        FOR n IN 1..250 LOOP
                            INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', 'me');
                            COMMIT;
                            PERFORM pg_sleep(0.001);
                        END LOOP;
                    END $$";
    let producers = (0..4).map(async |_| db.client().await.batch_execute(producer).await.unwrap());
    futures::future::join_all(producers).await;
    db.becomes("sent=1000").await;
    ears.heard().await
}

#[tokio::test]
async fn a_busy_reactor_is_hardly_ever_rung() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let running = Running::start(db.reactor(recording.clone())).await;
    let rang = rings_among_a_thousand_inserts(&db).await;
    // Below ten; with each wake taken for a lone alert most of them, where looks are slow.
    assert!(rang <= 500, "{rang} of 1000 inserts rang");
    running.stop().await;
}

#[tokio::test]
async fn neither_a_claim_nor_an_outcome_nor_a_retry_rings() {
    let db = TestDb::new().await;
    let recording = Recording::answering(|n| match n.attempt() {
        1 => Err(doorbell::SendError::retry_after(Duration::from_millis(300), "busy")),
        _ => Ok(doorbell::Receipt::new("ok")),
    });
    let running = Running::start(db.reactor(recording.clone())).await;
    db.armed(1).await;
    let ears = db.ears().await;
    db.insert("me").await;
    db.becomes("sent=1").await;
    assert_eq!(ears.heard().await, 1, "the insert rang, and nothing else");
    running.stop().await;
}

/// So that one row more is not a claim that took all there was room for.
fn two_at_a_time() -> ChannelConfig {
    one_at_a_time().max_in_flight(2)
}

/// A silent producer at work: its transaction, open, with one row in it.
async fn silent_producer(db: &TestDb, gate: &Gate) -> tokio_postgres::Client {
    for _ in 0..2 {
        db.insert("occupies a slot").await;
        gate.next().await;
    }
    db.armed(0).await;
    let producer = db.client().await;
    let insert = "BEGIN; INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', 'silent')";
    producer.batch_execute(insert).await.unwrap();
    assert_eq!(db.holders("in_flight").await, 1);
    producer
}

#[tokio::test]
async fn a_silent_transaction_keeps_the_reactor_drowsy_and_its_row_leaves_right_after_the_commit() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let running = Running::start(db.reactor_with(gate.clone(), two_at_a_time())).await;
    let producer = silent_producer(&db, &gate).await;
    let ears = db.ears().await;
    gate.open();
    db.armed(1).await;
    // Rings in the meantime, which say nothing about the silent one.
    for n in 1..=5 {
        db.insert("loud").await;
        assert_eq!(gate.next().await.recipient(), "loud", "{n}");
        db.armed(1).await;
    }
    let rung = ears.heard().await;
    let committed = Instant::now();
    producer.batch_execute("COMMIT").await.unwrap();
    let sent = tokio::time::timeout(SOON, gate.next()).await.unwrap();
    let after = committed.elapsed();
    assert_eq!(sent.recipient(), "silent");
    assert!(after < Duration::from_secs(1), "after {after:?}");
    assert_eq!(ears.heard().await, rung, "its commit did not ring");
    running.stop().await;
}

#[tokio::test]
async fn a_ring_that_ends_a_nap_does_not_put_the_reactor_to_sleep_over_a_silent_transaction() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let running = Running::start(db.reactor_with(gate.clone(), two_at_a_time())).await;
    let producer = silent_producer(&db, &gate).await;
    gate.open();
    let napping = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                   AND application_name LIKE '%listener%' AND now() - state_change > interval '20 ms'";
    for _ in 0..5 {
        // In the middle of a nap, or else the ring counts as one of many and makes it awake.
        eventually(SOON, || async { expect(db.value(napping).await == "1", "no long nap") }).await;
        db.insert("loud").await;
        assert_eq!(
            tokio::time::timeout(SOON, gate.next()).await.unwrap().recipient(),
            "loud"
        );
        db.armed(1).await;
    }
    producer.batch_execute("COMMIT").await.unwrap();
    let sent = tokio::time::timeout(SOON, gate.next())
        .await
        .expect("a wake-up was lost");
    assert_eq!(sent.recipient(), "silent");
    running.stop().await;
}

#[tokio::test]
async fn a_producer_rings_when_it_cannot_note_that_it_is_at_work() {
    let db = TestDb::new().await;
    let ears = db.ears().await;
    // As a reactor does for the moment of its test.
    let tester = db.client().await;
    let test = "SELECT pg_advisory_lock(in_flight_class, lock_id) FROM doorbell_bell()";
    tester.batch_execute(test).await.unwrap();
    db.insert("me").await;
    assert_eq!(ears.heard().await, 1);
}

#[tokio::test]
async fn a_silent_insert_that_is_undone_lets_the_reactor_sleep() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let running = Running::start(db.reactor_with(gate.clone(), one_at_a_time())).await;
    db.insert("occupies the slot").await;
    gate.next().await;
    db.armed(0).await;
    let mut producer = db.client().await;
    let mut producer = producer.transaction().await.unwrap();
    let undone = producer.savepoint("undone").await.unwrap();
    let insert = "INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', 'silent')";
    undone.batch_execute(insert).await.unwrap();
    assert_eq!(db.holders("in_flight").await, 1);
    undone.rollback().await.unwrap();
    assert_eq!(db.holders("in_flight").await, 0, "the lock goes with the savepoint");
    gate.open();
    db.armed(1).await;
    producer.rollback().await.unwrap();
    db.becomes("sent=1").await;
    running.stop().await;
}

#[tokio::test]
async fn a_reactor_that_lost_its_listener_finds_what_was_inserted_meanwhile_and_hears_again() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let running = Running::start(db.reactor(recording.clone())).await;
    for round in 0..5 {
        db.armed(1).await;
        assert_eq!(db.terminate_backends("%listener%").await, 1, "round {round}");
        db.insert("nobody heard").await;
        let sent = tokio::time::timeout(SOON, recording.next()).await.unwrap();
        assert_eq!(sent.recipient(), "nobody heard", "round {round}");
        db.armed(1).await;
        db.insert("heard").await;
        let sent = tokio::time::timeout(SOON, recording.next()).await.unwrap();
        assert_eq!(sent.recipient(), "heard", "round {round}");
    }
    running.stop().await;
}

#[tokio::test]
async fn a_reactor_that_cannot_arm_looks_at_an_interval() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let jammer = db.client().await;
    let jam = "SELECT pg_advisory_lock(asleep_class, lock_id) FROM doorbell_bell()";
    jammer.batch_execute(jam).await.unwrap();
    let running = Running::start(db.reactor(recording.clone())).await;
    for _ in 0..3 {
        db.insert("me").await;
        tokio::time::timeout(SOON, recording.next()).await.unwrap();
    }
    drop(jammer);
    db.armed(1).await;
    db.insert("me").await;
    db.becomes("sent=4").await;
    running.stop().await;
}

#[tokio::test]
async fn an_idle_reactor_among_busy_ones_does_not_keep_the_bell_loud() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let busy = Running::start(db.reactor(recording.clone())).await;
    let idle = Running::start(db.reactor(recording.clone())).await;
    let rang = rings_among_a_thousand_inserts(&db).await;
    // Some 80 while the idle one learns that there is load, 300 on a machine that is busy with other tests.
    assert!(rang <= 500, "{rang} of 1000 inserts rang");
    assert_eq!(recording.recorded().len(), 1000);
    busy.stop().await;
    idle.stop().await;
}

#[tokio::test]
async fn a_reactor_that_sleeps_asks_the_server_for_nothing() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let running = Running::start(db.reactor(recording.clone())).await;
    db.insert("me").await;
    db.becomes("sent=1").await;
    db.armed(1).await;
    let transactions = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
    let client = db.client().await;
    let count = async || -> i64 {
        client.batch_execute("SELECT pg_stat_clear_snapshot()").await.unwrap();
        client.query_one(transactions, &[]).await.unwrap().try_get(0).unwrap()
    };
    // Backends report what they did with a delay; once two counts a second apart agree, it is the idle pace.
    eventually(SOON, || async {
        let before = count().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let within_a_second = count().await - before;
        expect(
            within_a_second <= 10,
            format!("{within_a_second} transactions within a second of idleness"),
        )
    })
    .await;
    running.stop().await;
}
