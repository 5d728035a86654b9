//! What an administrator does to the tables while a reactor works on them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use doorbell::senders::Recording;
use doorbell::{ChannelConfig, Migrator, Queue};

use crate::support::{Gate, Running, SOON, TestDb, eventually, expect};

const PRODUCERS: usize = 3;

/// Each rewrites or locks the whole table.
const MAINTENANCE: [&str; 6] = [
    "VACUUM FULL notification_jobs",
    "REINDEX TABLE notification_jobs",
    "ALTER TABLE notification_jobs ADD COLUMN note text",
    "ALTER TABLE notification_jobs ADD COLUMN stamp timestamptz DEFAULT clock_timestamp()",
    "CLUSTER notification_jobs USING notification_jobs_pkey",
    "REINDEX TABLE CONCURRENTLY notification_jobs",
];

/// Inserts row after row until told to stop; answers how many.
async fn produce(db: &TestDb, stop: &AtomicBool) -> usize {
    let client = db.client().await;
    let mut rows = 0;
    while !stop.load(Ordering::Relaxed) {
        let insert = "INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', 'me')";
        client.batch_execute(insert).await.unwrap();
        rows += 1;
    }
    rows
}

async fn maintain(db: &TestDb, stop: &AtomicBool) {
    let client = db.client().await;
    for statement in MAINTENANCE {
        client.batch_execute(statement).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    stop.store(true, Ordering::Relaxed);
}

#[tokio::test]
async fn rewriting_the_table_under_load_loses_nothing_and_sends_nothing_twice() {
    let (db, recording, stop) = (TestDb::new().await, Recording::new(), AtomicBool::new(false));
    let running = Running::start(db.reactor(recording.clone())).await;
    let producers = futures::future::join_all((0..PRODUCERS).map(|_| produce(&db, &stop)));
    let (rows, ()) = futures::join!(producers, maintain(&db, &stop));
    let rows: usize = rows.iter().sum();
    db.becomes(&format!("sent={rows}")).await;
    assert_eq!(recording.recorded().len(), rows);
    running.stop().await;
}

#[tokio::test]
async fn updates_in_the_opposite_order_end_in_no_deadlock_that_costs_an_outcome() {
    const ROWS: usize = 200;
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let config = ChannelConfig::default().max_in_flight(1000);
    let running = Running::start(db.reactor_with(gate.clone(), config)).await;
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient) SELECT 'ops', n::text FROM generate_series(1, 200) AS n",
    )
    .await;
    gate.wait_for(ROWS, SOON).await;
    // One row after the other, from the last to the first, in one transaction, while the outcomes are written.
    let backwards = "DO $$ DECLARE row record; BEGIN
        FOR row IN SELECT id FROM notification_jobs ORDER BY id DESC LOOP
            UPDATE notification_jobs SET updated_at = clock_timestamp() WHERE id = row.id;
            PERFORM pg_sleep(0.002);
        END LOOP; END $$";
    let client = db.client().await;
    let (updated, ()) = futures::join!(client.batch_execute(backwards), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        gate.open();
    });
    updated.unwrap();
    db.becomes(&format!("sent={ROWS}")).await;
    assert_eq!(gate.begun(), ROWS);
    running.stop().await;
}

#[tokio::test]
async fn without_its_trigger_a_row_waits_for_the_scan_and_with_it_rows_ring_again() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let builder = db.reactor(recording.clone()).scan_interval(Duration::from_secs(1));
    let running = Running::start(builder).await;
    let (client, ears) = (db.client().await, db.ears().await);
    let trigger = "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = 'doorbell_on_insert'";
    let trigger = db.value(trigger).await;
    db.psql("DROP TRIGGER doorbell_on_insert ON notification_jobs").await;
    db.armed(1).await;
    db.insert("by scan").await;
    recording.wait_for(1, SOON).await;
    assert_eq!(ears.heard().await, 0);
    let status = Queue::default().status(&client).await.unwrap();
    assert!(!status.table.triggers_work(), "nothing says that a trigger is missing");

    client.batch_execute(&trigger).await.unwrap();
    db.armed(1).await;
    db.insert("by ring").await;
    assert_eq!(ears.heard().await, 1);
    recording.wait_for(2, SOON).await;
    assert!(Queue::default().status(&client).await.unwrap().table.triggers_work());
    running.stop().await;
}

#[tokio::test]
async fn tables_that_are_dropped_and_made_anew_are_served_again() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let running = Running::start(db.reactor(recording.clone())).await;
    db.insert("before").await;
    recording.wait_for(1, SOON).await;
    let (migrator, mut client) = (Migrator::new("public").unwrap(), db.client().await);
    migrator.down(&mut client, 0).await.unwrap();
    // Long enough for it to meet the want of a table.
    tokio::time::sleep(Duration::from_secs(2)).await;
    migrator.up(&mut client).await.unwrap();
    db.insert("after").await;
    recording.wait_for(2, SOON).await;
    db.becomes("sent=1").await;
    eventually(SOON, || async {
        let reactors = db.value("SELECT count(*) FROM notification_reactors").await;
        expect(reactors == "1", format!("{reactors} reactors are listed"))
    })
    .await;
    running.stop().await;
}
