//! One-shot draining.

use std::time::Duration;

use doorbell::senders::Recording;
use doorbell::{ChannelConfig, OnUnknown, Processed, Reactor, RetryPolicy, SendError};

use crate::support::{Gate, SOON, TestDb, eventually, expect};

fn counts(processed: Processed) -> [u64; 4] {
    [processed.sent, processed.retried, processed.failed, processed.expired]
}

async fn insert(db: &TestDb, channel: &str, count: u32) {
    let rows = format!("SELECT '{channel}', n::text FROM generate_series(1, {count}) n");
    db.psql(&format!("INSERT INTO notification_jobs (channel, recipient) {rows}"))
        .await;
}

#[tokio::test]
async fn it_keeps_to_its_limit_and_comes_to_every_channel() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let mut reactor = Reactor::builder(db.database());
    for channel in ["empty", "a", "b"] {
        reactor = reactor.channel(channel, recording.clone(), ChannelConfig::default().max_in_flight(4));
    }
    let reactor = reactor.build().unwrap();
    insert(&db, "a", 10).await;
    insert(&db, "b", 10).await;
    assert_eq!(counts(reactor.process_due(0).await.unwrap()), [0; 4]);
    assert_eq!(counts(reactor.process_due(1).await.unwrap()), [1, 0, 0, 0]);
    assert_eq!(counts(reactor.process_due(11).await.unwrap()), [11, 0, 0, 0]);
    assert_eq!(db.statuses().await, "pending=8 sent=12");
    assert_eq!(counts(reactor.process_due(u32::MAX).await.unwrap()), [8, 0, 0, 0]);
    assert_eq!(recording.recorded().len(), 20);
}

#[tokio::test]
async fn a_row_on_the_last_channel_is_found_though_the_limit_is_smaller_than_the_slots_of_the_first() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let reactor = db.reactor(recording.clone());
    let reactor = reactor
        .channel("last", recording.clone(), ChannelConfig::default())
        .build()
        .unwrap();
    insert(&db, "last", 2).await;
    assert_eq!(counts(reactor.process_due(1).await.unwrap()), [1, 0, 0, 0]);
    assert_eq!(counts(reactor.process_due(1).await.unwrap()), [1, 0, 0, 0]);
}

#[tokio::test]
async fn it_counts_what_it_retried_gave_up_and_let_expire() {
    let db = TestDb::new().await;
    let recording = Recording::answering(|n| match n.recipient() {
        "transient" => Err(SendError::transient("no")),
        "permanent" => Err(SendError::permanent("no")),
        "unknown" => Err(SendError::unknown("no")),
        _ => Ok(doorbell::Receipt::none()),
    });
    let hour = ChannelConfig::default().retry(RetryPolicy::linear(Duration::from_secs(3600)));
    let hold = hour.clone().on_unknown(OnUnknown::Hold);
    let reactor = db.reactor_with(recording.clone(), hour);
    let reactor = reactor.channel("hold", recording.clone(), hold).build().unwrap();
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, attempts, expires_at, claimed_by)
         SELECT channel, recipient, attempts, expires_at, claimed_by
         FROM unnest('{ops, hold}'::text[]) channel, (VALUES
             ('fine', 0, NULL, NULL), ('transient', 0, NULL, NULL), ('permanent', 0, NULL, NULL),
             ('unknown', 0, NULL, NULL), ('too often', 5, NULL, NULL), ('too late', 0, now(), NULL),
             ('half-sent', 1, NULL, gen_random_uuid())
         ) AS t (recipient, attempts, expires_at, claimed_by)",
    )
    .await;
    // On `ops`, what is unknown is tried again; on `hold` it is given up, as is what another reactor had begun.
    assert_eq!(counts(reactor.process_due(100).await.unwrap()), [3, 3, 6, 2]);
    assert_eq!(db.statuses().await, "expired=2 failed=6 pending=3 sent=3");
    assert_eq!(recording.recorded().len(), 9);
    let half_sent = "SELECT last_error FROM notification_jobs WHERE recipient = 'half-sent' AND channel = 'hold'";
    assert!(
        db.value(half_sent)
            .await
            .starts_with("held: nobody knows how attempt 1 ended")
    );
}

#[tokio::test]
async fn a_full_channel_beside_an_empty_one_is_waited_for_without_asking_the_server() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let config = ChannelConfig::default()
        .max_in_flight(1)
        .timeout(Duration::from_secs(600));
    let reactor = db.reactor_with(gate.clone(), config);
    let reactor = reactor
        .channel("empty", Recording::new(), ChannelConfig::default())
        .build()
        .unwrap();
    insert(&db, "ops", 3).await;
    let draining = tokio::spawn(async move { reactor.process_due(10).await });
    gate.next().await;
    // The session's last statement is the claim, and it does not begin another.
    let last = "SELECT max(query_start) FROM pg_stat_activity
                WHERE datname = current_database() AND query LIKE '%SKIP LOCKED%' AND pid <> pg_backend_pid()";
    eventually(SOON, || async {
        let before = db.psql(last).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        expect(db.psql(last).await == before, "it keeps claiming")
    })
    .await;
    gate.open();
    assert_eq!(counts(draining.await.unwrap().unwrap()), [3, 0, 0, 0]);
}

#[tokio::test]
async fn it_says_when_the_schema_is_missing_or_the_server_away() {
    let empty = TestDb::empty().await;
    let reactor = empty.reactor(Recording::new()).build().unwrap();
    assert!(reactor.process_due(1).await.unwrap_err().is_schema());
    assert!(reactor.run(std::future::pending()).await.unwrap_err().is_schema());

    let nowhere = doorbell::Database::builder("postgres://postgres@127.0.0.1:1/nowhere")
        .build()
        .unwrap();
    let reactor = crate::support::reactor_on(nowhere, Recording::new(), ChannelConfig::default())
        .build()
        .unwrap();
    assert!(reactor.process_due(1).await.unwrap_err().is_connection());
}
