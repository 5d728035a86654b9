//! The list of reactors when others hold its entries, and when it is full of reactors that are gone.

use std::time::Duration;

use doorbell::senders::Recording;

use crate::support::{
    Gate, ON_DUTY, Running, SOON, TWO_LOOKS_AND_MORE, TestDb, becomes, eventually, expect, on_duty, patient, value,
};

#[tokio::test]
async fn a_held_entry_of_one_does_not_hide_that_another_is_dead() {
    let (db, gate, recording) = (TestDb::new().await, Gate::shut(), Recording::new());
    let client = db.client().await;
    list_the_gone(&db, 1, "1 second").await;
    let holder = db.client().await;
    let hold = "BEGIN; SELECT FROM notification_reactors FOR UPDATE";
    holder.batch_execute(hold).await.unwrap();
    let first = db.reactor_with(gate.clone(), patient()).lease(Duration::from_secs(60));
    let first = Running::start(first).await;
    db.insert("me").await;
    gate.next().await;
    let second = Running::start(db.reactor_with(recording.clone(), patient())).await;
    becomes(&client, &format!("{ON_DUTY} AND host <> ''"), "2").await;
    first.crash().await;
    let rescued = tokio::time::timeout(SOON, recording.next()).await.unwrap();
    assert_eq!((rescued.recipient(), rescued.attempt()), ("me", 2));
    holder.batch_execute("COMMIT").await.unwrap();
    second.stop().await;
}

/// Lists so many that are gone, last seen so long ago; the key of each one's lock is its number.
async fn list_the_gone(db: &TestDb, many: u32, silent_for: &str) {
    db.psql(&format!(
        "INSERT INTO notification_reactors (id, lock_key, host, version, channels, lease, seen_at)
         SELECT gen_random_uuid(), n, '', '', '{{ops}}', '30 s', clock_timestamp() - interval '{silent_for}'
         FROM generate_series(1, {many}) AS n"
    ))
    .await;
}

#[tokio::test]
async fn the_entries_that_a_crash_loop_left_go_before_anybody_may_judge() {
    let db = TestDb::new().await;
    let client = db.client().await;
    list_the_gone(&db, 1000, "3 minutes").await;
    client.batch_execute("SELECT pg_advisory_lock_shared(7)").await.unwrap();
    let running = Running::start(db.reactor(Recording::new())).await;
    let others = "SELECT string_agg(lock_key::text, ' ') FROM notification_reactors WHERE host = ''";
    eventually(Duration::from_secs(4), || async {
        let others = value(&client, others).await;
        expect(others == "7", format!("{} bytes of them", others.len()))
    })
    .await;
    running.stop().await;
}

#[tokio::test]
async fn however_many_entries_there_are_a_look_leaves_room_in_the_lock_table() {
    let db = TestDb::new().await;
    let client = db.client().await;
    let many = 40_000;
    list_the_gone(&db, many, "1 second").await;
    let running = Running::start(db.reactor(Recording::new())).await;
    // Without that there would be no room for the tries of one look, and none for anybody else.
    eventually(SOON, || async {
        let left = value(&client, "SELECT count(*) FROM notification_reactors WHERE host = ''").await;
        expect(left.parse::<u32>().unwrap() < many, "none is found dead")
    })
    .await;
    running.stop().await;
}

#[tokio::test]
async fn a_held_entry_does_not_keep_the_survivor_from_rescuing() {
    let (db, gate, recording) = (TestDb::new().await, Gate::shut(), Recording::new());
    let client = db.client().await;
    let first = db.reactor_with(gate.clone(), patient()).lease(Duration::from_secs(60));
    let first = Running::start(first).await;
    db.insert("me").await;
    gate.next().await;
    // It says as often as its lease is long that it lives.
    let second = db
        .reactor_with(recording.clone(), patient())
        .lease(Duration::from_secs(2));
    let second = Running::start(second).await;
    on_duty(&client, 2).await;
    let holder = db.client().await;
    let hold = "BEGIN; SELECT FROM notification_reactors WHERE lease = '2 s' FOR UPDATE";
    holder.batch_execute(hold).await.unwrap();
    client.batch_execute(TWO_LOOKS_AND_MORE).await.unwrap();
    first.crash().await;
    let rescued = tokio::time::timeout(SOON, recording.next()).await.unwrap();
    assert_eq!((rescued.recipient(), rescued.attempt()), ("me", 2));
    holder.batch_execute("COMMIT").await.unwrap();
    second.stop().await;
}
