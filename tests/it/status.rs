//! What `status` tells of channels, reactors and the bell.

use std::time::Duration;

use doorbell::{NewNotification, Queue};

use crate::support::{Sleeper, TestDb};

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
         (gen_random_uuid(), 1, 'here', '1', '{a,b}', '1 s', now() - interval '20 s', false),
         (gen_random_uuid(), 2, 'gone', '1', '{c}', '10 s', now() - interval '40 s', false),
         (gen_random_uuid(), 3, 'dead', '1', '{c,d}', '1 h', now(), true),
         (gen_random_uuid(), 4, 'slow', '1', '{d}', '1 h', now() - interval '40 min', false)",
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
    let bell = queue.status(&client).await.unwrap().bell;
    assert!(bell.asleep == 0 && bell.in_flight.is_empty() && bell.triggers && bell.queue_usage < 1.0);

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

    for harm in [
        "ALTER TABLE notification_jobs DISABLE TRIGGER doorbell_on_insert",
        "DROP TRIGGER doorbell_on_insert ON notification_jobs",
    ] {
        client.batch_execute(harm).await.unwrap();
        assert!(!queue.status(&client).await.unwrap().bell.triggers, "{harm}");
    }
}
