//! Rows that a look which begins where the one before ended would never see.

use std::time::{Duration, Instant};

use doorbell::ChannelConfig;
use doorbell::senders::Recording;
use tokio_postgres::Client;

use crate::support::{Gate, Running, TestDb};

/// The safety scan is much further away.
const PROMPTLY: Duration = Duration::from_secs(2);

/// A reactor that has found all that there was, and is asleep.
async fn asleep(db: &TestDb) -> (Running, Recording) {
    let recording = Recording::new();
    let running = Running::start(db.reactor(recording.clone())).await;
    db.armed(1).await;
    db.insert("before").await;
    recording.next().await;
    db.becomes("sent=1").await;
    (running, recording)
}

async fn arrives(recording: &Recording, recipient: &str) {
    let row = tokio::time::timeout(PROMPTLY, recording.next()).await.unwrap();
    assert_eq!(row.recipient(), recipient);
}

#[tokio::test]
async fn a_row_due_in_the_past_is_sent_at_once() {
    let db = TestDb::new().await;
    let (running, recording) = asleep(&db).await;
    for due in ["2001-01-01", "-infinity"] {
        let insert = "INSERT INTO notification_jobs (channel, recipient, next_attempt_at) VALUES ('ops', 'past'";
        db.psql(&format!("{insert}, '{due}')")).await;
        arrives(&recording, "past").await;
    }
    running.stop().await;
}

#[tokio::test]
async fn a_row_whose_transaction_took_long_is_sent_when_it_commits() {
    let db = TestDb::new().await;
    let (running, recording) = asleep(&db).await;
    let slow = db.client().await;
    slow.batch_execute("BEGIN; INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', 'slow')")
        .await
        .unwrap();
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        db.insert("quick").await;
        arrives(&recording, "quick").await;
    }
    slow.batch_execute("COMMIT").await.unwrap();
    arrives(&recording, "slow").await;
    running.stop().await;
}

#[tokio::test]
async fn a_row_that_is_late_is_not_lost_among_others_of_the_same_ring() {
    let db = TestDb::new().await;
    let (running, recording) = asleep(&db).await;
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, next_attempt_at)
         VALUES ('ops', 'now', clock_timestamp()), ('ops', 'past', '2001-01-01')",
    )
    .await;
    arrives(&recording, "now").await;
    arrives(&recording, "past").await;
    running.stop().await;
}

/// So many rows that went through while a snapshot is open, so that their entries stay in the index.
async fn dead_entries(db: &TestDb) -> Client {
    let snapshot = db.client().await;
    let open = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM notification_jobs";
    snapshot.batch_execute(open).await.unwrap();
    db.psql(
        "SET doorbell.notify = off; BEGIN;
         INSERT INTO notification_jobs (channel, recipient) SELECT 'ops', 'dead' FROM generate_series(1, 150000);
         UPDATE notification_jobs SET status = 'cancelled' WHERE recipient = 'dead'; COMMIT",
    )
    .await;
    snapshot
}

/// The median time from INSERT to sender of rows, two at a time, so often.
async fn latency(client: &Client, recording: &Recording, pause: Duration) -> Duration {
    let insert = "INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', 'a'), ('ops', 'b')";
    let mut all = Vec::new();
    for _ in 0..25 {
        let begun = Instant::now();
        client.batch_execute(insert).await.unwrap();
        recording.next().await;
        recording.next().await;
        all.push(begun.elapsed());
        tokio::time::sleep(pause).await;
    }
    all.sort_unstable();
    all[all.len() / 2]
}

/// To walk over all of them takes 40 ms or more; a look that does not takes one, or ten on a busy machine.
fn assert_reach_is_short(before: Duration, beside: Duration) {
    assert!(
        beside < 5 * before + Duration::from_millis(10),
        "{before:?} before, {beside:?} beside"
    );
}

#[tokio::test]
async fn under_steady_load_looks_do_not_walk_over_what_died_long_ago() {
    let db = TestDb::new().await;
    let (running, recording) = asleep(&db).await;
    let client = db.client().await;
    let before = latency(&client, &recording, Duration::from_millis(3)).await;
    // Rows keep coming, so that it stays awake from here on.
    let producing = db.client().await;
    let stay_awake = async {
        loop {
            let insert = "INSERT INTO notification_jobs (channel, recipient) VALUES ('load', 'a'), ('load', 'b')";
            producing.batch_execute(insert).await.unwrap();
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    };
    running.stop().await;
    let reactor = db
        .reactor(recording.clone())
        .channel("load", Recording::new(), ChannelConfig::default());
    let running = Running::start(reactor).await;
    let measured = async {
        let snapshot = dead_entries(&db).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let beside = latency(&client, &recording, Duration::from_millis(3)).await;
        drop(snapshot);
        beside
    };
    let beside = tokio::select! {
        beside = measured => beside,
        () = stay_awake => unreachable!(),
    };
    assert_reach_is_short(before, beside);
    running.stop().await;
}

#[tokio::test]
async fn beside_a_full_channel_looks_do_not_walk_over_what_died_long_ago() {
    let (db, recording, gate) = (TestDb::new().await, Recording::new(), Gate::shut());
    let slow = ChannelConfig::default()
        .max_in_flight(1)
        .timeout(Duration::from_secs(600));
    let reactor = db.reactor(recording.clone()).channel("slow", gate.clone(), slow);
    let running = Running::start(reactor.shutdown_grace(Duration::from_millis(100))).await;
    let client = db.client().await;
    let pause = Duration::from_millis(60);
    let before = latency(&client, &recording, pause).await;
    db.psql("INSERT INTO notification_jobs (channel, recipient) VALUES ('slow', 'a')")
        .await;
    gate.next().await;
    let snapshot = dead_entries(&db).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    latency(&client, &recording, pause).await;
    let beside = latency(&client, &recording, pause).await;
    drop(snapshot);
    assert_reach_is_short(before, beside);
    running.stop().await;
}
