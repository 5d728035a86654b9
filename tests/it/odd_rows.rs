//! Rows with odd contents, and rows that cannot be.

use std::time::Duration;

use doorbell::senders::Recording;
use doorbell::{ChannelConfig, Reactor};

use crate::support::{Running, SOON, TestDb};

#[tokio::test]
async fn a_dedupe_key_lets_one_row_pass_until_it_is_sent() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let running = Running::start(db.reactor(recording.clone())).await;
    db.armed(1).await;
    let client = db.client().await;
    let insert = "INSERT INTO notification_jobs (channel, recipient, dedupe_key, next_attempt_at)
                  VALUES ('ops', 'me', 'disk full', now() + interval '0.3 s') ON CONFLICT DO NOTHING";
    assert_eq!(client.execute(insert, &[]).await.unwrap(), 1);
    assert_eq!(client.execute(insert, &[]).await.unwrap(), 0);
    db.becomes("sent=1").await;
    assert_eq!(client.execute(insert, &[]).await.unwrap(), 1);
    db.becomes("sent=2").await;
    assert_eq!(recording.recorded().len(), 2);
    running.stop().await;
}

#[tokio::test]
async fn odd_channel_names_are_data() {
    let db = TestDb::new().await;
    let names = [
        "x".repeat(300),
        r#"it's "quoted", {curly} and \back"#.to_owned(),
        "  ".to_owned(),
        "Ünïcode 📣\n\t$1 --".to_owned(),
        "'; DROP TABLE notification_jobs; --".to_owned(),
    ];
    let recording = Recording::new();
    let mut reactor = Reactor::builder(db.database()).scan_interval(Duration::from_secs(600));
    for name in &names {
        reactor = reactor.channel(name, recording.clone(), ChannelConfig::default());
    }
    let running = Running::start(reactor).await;
    db.armed(1).await;
    let client = db.client().await;
    for name in &names {
        let insert = "INSERT INTO notification_jobs (channel, recipient) VALUES ($1, $1), ('not served', $1)";
        client.execute(insert, &[name]).await.unwrap();
        let sent = tokio::time::timeout(SOON, recording.next()).await.unwrap();
        assert_eq!((sent.channel(), sent.recipient()), (&**name, &**name));
    }
    db.becomes("pending=5 sent=5").await;
    running.stop().await;
}

#[tokio::test]
async fn an_odd_created_at_is_no_obstacle() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let running = Running::start(db.reactor(recording.clone())).await;
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, created_at, updated_at)
         SELECT 'ops', at::text, at, at
         FROM unnest('{infinity, -infinity, 0001-01-01 BC, 4713-01-01 BC, 294276-12-31, now}'::timestamptz[]) at",
    )
    .await;
    db.becomes("sent=6").await;
    let sent = recording.recorded();
    let age = |recipient: &str| {
        sent.iter()
            .find(|n| n.recipient() == recipient)
            .unwrap()
            .enqueued_to_send()
    };
    assert!(age("infinity").max(age("-infinity")) < Duration::from_secs(1));
    assert!(age("0001-01-01 00:00:00+00 BC") > Duration::from_secs(2000 * 365 * 24 * 3600));
    running.stop().await;
}

#[tokio::test]
async fn rows_that_the_schema_forbids_never_reach_the_reactor() {
    let db = TestDb::new().await;
    let client = db.client().await;
    for (columns, values, constraint) in [
        ("channel, recipient", "'', 'me'", "notification_jobs_channel_not_empty"),
        (
            "channel, recipient, max_attempts",
            "'ops', 'me', 0",
            "notification_jobs_max_attempts_at_least_one",
        ),
        (
            "channel, recipient, status",
            "'ops', 'me', 'sending'",
            "notification_jobs_status_known",
        ),
        (
            "channel, recipient, attempts",
            "'ops', 'me', -1",
            "notification_jobs_attempts_not_negative",
        ),
    ] {
        let insert = format!("INSERT INTO notification_jobs ({columns}) VALUES ({values})");
        let error = client.batch_execute(&insert).await.unwrap_err();
        assert_eq!(error.as_db_error().unwrap().constraint(), Some(constraint));
    }
    for column in [
        "channel",
        "recipient",
        "payload",
        "status",
        "attempts",
        "max_attempts",
        "next_attempt_at",
    ] {
        let insert = format!(
            "INSERT INTO notification_jobs SELECT (jsonb_populate_record(null::notification_jobs,
                 jsonb_build_object('id', gen_random_uuid(), 'channel', 'ops', 'recipient', 'me', 'payload', 1,
                     'status', 'pending', 'attempts', 0, 'max_attempts', 1, 'next_attempt_at', now(),
                     'created_at', now(), 'updated_at', now(), 'claim', 0) - '{column}')).*"
        );
        let error = client.batch_execute(&insert).await.unwrap_err();
        assert_eq!(error.as_db_error().unwrap().column(), Some(column));
    }
}

#[tokio::test]
async fn a_fence_that_cannot_grow_fails_alone() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, claim)
         VALUES ('ops', 'at the end', 9223372036854775807), ('ops', 'me', 0)",
    )
    .await;
    let running = Running::start(db.reactor(recording.clone())).await;
    db.becomes("failed=1 sent=1").await;
    assert_eq!(recording.next().await.recipient(), "me");
    running.stop().await;
}
