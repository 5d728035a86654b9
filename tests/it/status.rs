//! What `status` tells of channels, reactors and the bell.

use std::time::Duration;

use doorbell::{NewNotification, Queue, ReactorMode, ReactorStatus, TriggerState};
use tokio_postgres::Client;

use crate::support::{Gate, Running, SOON, Sleeper, TestDb, eventually, expect, patient};

#[tokio::test]
async fn the_status_counts_each_channel_and_finds_the_ones_that_nobody_serves() {
    let db = TestDb::new().await;
    let (client, queue) = (db.client().await, Queue::default());
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, status, next_attempt_at, created_at, claimed_by) VALUES
         ('a', '', 'pending', now() - interval '1 min', now() - interval '1 hour', NULL),
         ('a', '', 'pending', '-infinity', '-infinity', NULL),
         ('a', '', 'pending', now() + interval '1 min', now(), gen_random_uuid()),
         ('a', '', 'sent', now(), now(), NULL), ('a', '', 'sent', now(), now(), NULL),
         ('a', '', 'failed', now(), now(), NULL), ('a', '', 'cancelled', now(), now(), NULL),
         ('b', '', 'expired', now(), now(), NULL), ('b', '', 'pending', 'infinity', now(), NULL),
         ('c', '', 'pending', now() - interval '1 min', now() - interval '1 min', NULL),
         ('d', '', 'pending', now(), 'infinity', NULL);
         INSERT INTO notification_reactors (id, lock_key, host, version, channels, lease, seen_at, dead) VALUES
         (gen_random_uuid(), 0, 'here', '1', '{a,b}', '1 s', now() - interval '20 s', false),
         (gen_random_uuid(), 0, 'gone', '1', '{c}', '10 s', now() - interval '40 s', false),
         (gen_random_uuid(), 0, 'dead', '1', '{c,d}', '1 h', now(), true),
         (gen_random_uuid(), 0, 'slow', '1', '{d}', '1 h', now() - interval '40 min', false)",
    )
    .await;
    let status = queue.status(&client).await.unwrap();
    let a = &status.channels[0];
    assert_eq!((a.pending, a.sent, a.failed, a.expired, a.cancelled), (3, 2, 1, 0, 1));
    assert_eq!((a.claimed, a.due), (1, 2));
    assert!(a.oldest_due.unwrap() > Duration::from_secs(3600));
    let served: Vec<_> = status
        .channels
        .iter()
        .map(|channel| (channel.channel.as_str(), channel.served))
        .collect();
    assert_eq!(served, [("a", true), ("b", true), ("c", false), ("d", true)]);
    assert!(status.channels[1].oldest_due.is_none() && status.unserved_due() == 1);
    let c = status.channels[2].oldest_due.unwrap().as_secs();
    assert!((60..90).contains(&c), "{c}");
    let mut live: Vec<_> = status
        .reactors
        .iter()
        .map(|reactor| (reactor.host.as_str(), reactor.live))
        .collect();
    live.sort_unstable();
    assert_eq!(live, [("dead", false), ("gone", false), ("here", true), ("slow", true)]);

    let json: serde_json::Value = serde_json::from_str(&status.to_json()).unwrap();
    assert_eq!(json["channels"][0]["pending"], 3);
    assert_eq!((&json["unserved_due"], &json["schema_version"]), (&1.into(), &2.into()));
}

#[tokio::test]
async fn the_status_tells_who_sleeps_who_keeps_it_awake_and_whether_the_bell_is_there() {
    let db = TestDb::new().await;
    let (mut producer, client, queue) = (
        db.client_named("the-producer").await,
        db.client().await,
        Queue::default(),
    );
    let status = queue.status(&client).await.unwrap();
    let bell = status.bell;
    assert!(bell.asleep == 0 && bell.in_flight.is_empty() && bell.queue_usage < 1.0);
    assert!(status.table.triggers_work());

    let silent = producer.transaction().await.unwrap();
    queue
        .enqueue(&silent, &NewNotification::new("ops", "ada"))
        .await
        .unwrap();
    let _sleepers = (
        Sleeper::new(&db.url(), "public").await,
        Sleeper::new(&db.url(), "public").await,
    );
    let bell = queue.status(&client).await.unwrap().bell;
    assert_eq!(bell.asleep, 2);
    assert_eq!(bell.in_flight.len(), 1);
    let in_flight = &bell.in_flight[0];
    assert_eq!(in_flight.application, "the-producer");
    assert_eq!(in_flight.state.as_deref(), Some("idle in transaction"));
    assert!(in_flight.open.is_some());
    silent.commit().await.unwrap();

    for (harm, state) in [
        (
            "ALTER TABLE notification_jobs DISABLE TRIGGER doorbell_on_insert",
            TriggerState::Disabled,
        ),
        (
            "ALTER TABLE notification_jobs ENABLE ALWAYS TRIGGER doorbell_on_insert",
            TriggerState::Enabled,
        ),
        (
            "ALTER TABLE notification_jobs ENABLE REPLICA TRIGGER doorbell_on_insert",
            TriggerState::Disabled,
        ),
        (
            "DROP TRIGGER doorbell_on_insert ON notification_jobs",
            TriggerState::Missing,
        ),
    ] {
        client.batch_execute(harm).await.unwrap();
        let table = queue.status(&client).await.unwrap().table;
        assert_eq!(
            (table.on_insert, table.on_update),
            (state, TriggerState::Enabled),
            "{harm}"
        );
        assert_eq!(table.triggers_work(), state == TriggerState::Enabled);
    }
}

/// How the status has the one reactor that is listed.
async fn reactor(client: &Client) -> ReactorStatus {
    Queue::default().status(client).await.unwrap().reactors.remove(0)
}

async fn mode_becomes(client: &Client, mode: ReactorMode) {
    eventually(SOON, || async {
        let now = reactor(client).await.mode;
        expect(now == mode, format!("{now:?} instead of {mode:?}"))
    })
    .await;
}

#[tokio::test]
async fn the_status_tells_whether_a_reactor_listens_from_the_locks_that_it_holds() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let client = db.client().await;
    let running = Running::start(db.reactor_with(gate.clone(), patient())).await;
    mode_becomes(&client, ReactorMode::Listening).await;
    db.insert("me").await;
    gate.wait_for(1, SOON).await;
    let status = Queue::default().status(&client).await.unwrap();
    assert_eq!((status.channels[0].claimed, status.claimed_by_lost()), (1, 0));

    // The lock is still there, the ear is not.
    db.let_in(false).await;
    db.terminate_backends("doorbell listener").await;
    mode_becomes(&client, ReactorMode::Polling).await;

    running.crash().await;
    mode_becomes(&client, ReactorMode::Gone).await;
    let status = Queue::default().status(&client).await.unwrap();
    assert!(status.reactors[0].live && status.reactors[0].is_lost(), "{status:?}");
    assert_eq!((status.claimed_by_lost(), status.channels[0].served), (1, false));
    let json: serde_json::Value = serde_json::from_str(&status.to_json()).unwrap();
    assert_eq!(
        (&json["reactors"][0]["mode"], &json["claimed_by_lost"]),
        (&"gone".into(), &1.into())
    );
}

#[tokio::test]
async fn a_reactor_that_shows_no_lock_is_in_a_mode_that_nobody_knows() {
    let db = TestDb::new().await;
    db.psql(
        "INSERT INTO notification_reactors (id, lock_key, host, version, channels, lease)
         VALUES (gen_random_uuid(), 0, 'here', '1', '{ops}', '1 min')",
    )
    .await;
    let reactor = reactor(&db.client().await).await;
    assert_eq!((reactor.mode, reactor.is_lost()), (ReactorMode::Unknown, false));
}

#[tokio::test]
async fn the_status_tells_of_the_table_and_of_what_keeps_vacuum_from_it() {
    let db = TestDb::new().await;
    let (mut other, client, queue) = (db.client_named("the-reader").await, db.client().await, Queue::default());
    let before = queue.status(&client).await.unwrap();
    assert_eq!(before.table.missing_settings, [""; 0]);
    assert!(before.table.server_vacuums && before.table.table_vacuums && before.server.sees_others);
    // The same machine.
    assert!(before.server.clock_offset_seconds.abs() < 0.5, "{before:?}");
    assert!(before.server.connections >= 2 && before.server.connections <= before.server.max_connections);

    let reading = other.transaction().await.unwrap();
    reading
        .query("SELECT txid_current(), count(*) FROM notification_jobs", &[])
        .await
        .unwrap();
    db.psql("INSERT INTO notification_jobs (channel, recipient) SELECT 'ops', 'me' FROM generate_series(1, 50)")
        .await;
    db.psql("DELETE FROM notification_jobs").await;
    let status = eventually(SOON, || async {
        let status = queue.status(&client).await.unwrap();
        let dead = status.table.dead_rows;
        expect(dead == 50, format!("{dead} dead rows")).map(|()| status)
    })
    .await;
    let longest = status.server.longest_transaction.unwrap();
    assert_eq!(
        (longest.name.as_str(), longest.state.as_str()),
        ("the-reader", "idle in transaction")
    );
    assert!(
        status.server.oldest_xmin_age.unwrap() >= 2,
        "{:?}",
        status.server.oldest_xmin_age
    );
    reading.commit().await.unwrap();

    db.psql(
        "ALTER TABLE notification_jobs RESET (autovacuum_vacuum_threshold), SET (autovacuum_enabled = off,
         autovacuum_vacuum_scale_factor = 0.5)",
    )
    .await;
    let table = queue.status(&client).await.unwrap().table;
    assert_eq!(table.missing_settings, ["autovacuum_vacuum_threshold = 1000"]);
    assert!(table.server_vacuums && !table.table_vacuums);
}
