//! A transaction pooler between the reactor and its server: a real PgBouncer, which lends a backend to whoever has a
//! transaction.

use std::time::Duration;

use doorbell::senders::Recording;
use doorbell::{ChannelConfig, Database, Mode, RetryPolicy, SendError};

use crate::support::{
    Gate, PgBouncer, Running, SOON, TWO_LOOKS_AND_MORE, TestDb, Traffic, connect, eventually, expect, on_duty, patient,
    reactor_on,
};

const INSERT: &str = "INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', 'me')";
/// The time between two looks of a reactor that cannot listen.
const SCAN: Duration = Duration::from_millis(200);
/// All that a session can keep. The pooler itself sets some settings, for each client what that client has.
const LEFT_BEHIND: &str = "
    SELECT concat_ws(', ',
        (SELECT string_agg(name || '=' || setting, ', ') FROM pg_settings WHERE source = 'session'
             AND name NOT IN ('application_name', 'client_encoding', 'DateStyle', 'TimeZone', 'standard_conforming_strings')),
        (SELECT count(*) || ' locks' FROM pg_locks
             WHERE pid = pg_backend_pid() AND locktype = 'advisory' HAVING count(*) > 0),
        (SELECT string_agg('LISTEN ' || topic, ', ') FROM pg_listening_channels() AS topic),
        (SELECT string_agg(statement, ', ') FROM pg_prepared_statements),
        (SELECT string_agg(relname, ', ') FROM pg_class WHERE relpersistence = 't'))";

/// Every backend of the pooler is as it was when it was new.
async fn nothing_is_left(bouncer: &PgBouncer, backends: usize) {
    let mut clients = vec![];
    for _ in 0..backends {
        let client = connect(&bouncer.url()).await;
        client.batch_execute("BEGIN").await.unwrap();
        let left: String = client
            .query_typed_one(LEFT_BEHIND, &[])
            .await
            .unwrap()
            .try_get(0)
            .unwrap();
        assert_eq!(left, "");
        clients.push(client);
    }
}

/// A send that fails once, one that succeeds, and one that outlasts its lease.
async fn work(db: &TestDb, database: Database) {
    let gate = Gate::shut();
    let recording = Recording::answering(|n| match n.attempt() {
        1 => Err(SendError::transient("once")),
        _ => Ok(doorbell::Receipt::none()),
    });
    let quick = ChannelConfig::default().retry(RetryPolicy::linear(Duration::from_millis(100)));
    let builder = reactor_on(database, gate.clone(), patient())
        .channel("twice", recording.clone(), quick)
        .lease(Duration::from_secs(2))
        .scan_interval(SCAN);
    let running = Running::start_without_waiting(builder);
    running.reactor.started().await;
    db.psql(&format!("{INSERT}; {}", INSERT.replace("ops", "twice"))).await;
    recording.wait_for(2, SOON).await;
    gate.wait_for(1, SOON).await;
    db.psql("SELECT pg_sleep(4)").await;
    gate.open();
    db.becomes("sent=2").await;
    assert_eq!((recording.recorded().len(), gate.begun()), (2, 1));
    running.stop().await;
}

#[tokio::test]
async fn everything_works_through_one_and_nothing_is_left_on_the_sessions_of_strangers() {
    for (backends, around) in [(1, true), (1, false), (3, true), (3, false)] {
        let db = TestDb::new().await;
        let Some(bouncer) = PgBouncer::with_backends(&db, backends).await else {
            return;
        };
        let mut database = Database::builder(bouncer.url());
        if around {
            database = database.listen_url(db.url());
        }
        work(&db, database.build().unwrap()).await;
        nothing_is_left(&bouncer, backends).await;
    }
}

#[tokio::test]
async fn with_a_way_around_it_the_bell_is_heard() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let Some(bouncer) = PgBouncer::before(&db).await else {
        return;
    };
    let database = Database::builder(bouncer.url()).listen_url(db.url()).build().unwrap();
    // The safety scan is far away.
    let running = Running::start(reactor_on(database, recording.clone(), ChannelConfig::default())).await;
    let producer = connect(&bouncer.url()).await;
    for row in 1..=20 {
        db.armed(1).await;
        producer.batch_execute(INSERT).await.unwrap();
        assert_eq!(recording.wait_for(row, SOON).await.len(), row);
    }
    running.stop().await;
}

#[tokio::test]
async fn without_one_it_polls_and_says_what_to_set() {
    let db = TestDb::new().await;
    let Some(bouncer) = PgBouncer::before(&db).await else {
        return;
    };
    let url = |listen: Option<String>| {
        let builder = Database::builder(bouncer.url());
        listen
            .map_or(builder.clone(), |listen| builder.listen_url(listen))
            .build()
            .unwrap()
    };
    for (database, which) in [
        (url(None), "the database's URL leads"),
        (url(Some(bouncer.url())), "listen_url leads"),
    ] {
        let recording = Recording::new();
        let builder = reactor_on(database, recording.clone(), ChannelConfig::default()).scan_interval(SCAN);
        let running = Running::start_without_waiting(builder);
        let mode = tokio::time::timeout(SOON, running.reactor.started()).await.unwrap();
        let Mode::Polling { why } = mode else {
            panic!("{mode:?}")
        };
        assert!(why.starts_with(which) && why.contains("as listen_url"), "{why}");
        for row in 1..=3 {
            db.insert("me").await;
            assert_eq!(recording.wait_for(row, SOON).await.len(), row);
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn who_works_through_one_is_left_to_its_leases() {
    let db = TestDb::new().await;
    let Some(bouncer) = PgBouncer::before(&db).await else {
        return;
    };
    let pooled = || Database::builder(bouncer.url()).build().unwrap();
    let (gate, recording) = (Gate::shut(), Recording::new());
    let lease = Duration::from_secs(4);
    let builder = reactor_on(pooled(), gate.clone(), patient())
        .lease(lease)
        .scan_interval(SCAN);
    let first = Running::start_without_waiting(builder);
    db.insert("me").await;
    assert_eq!(gate.wait_for(1, SOON).await.len(), 1);
    // One that could judge it, and sees no lock.
    let second = Running::start(db.reactor_with(recording.clone(), patient())).await;
    let client = db.client().await;
    on_duty(&client, 1).await;
    client.batch_execute(TWO_LOOKS_AND_MORE).await.unwrap();
    assert!(recording.recorded().is_empty() && gate.begun() == 1);
    first.crash().await;
    let sent = recording.wait_for(1, SOON).await;
    assert_eq!(sent.first().map(doorbell::Notification::attempt), Some(2));
    second.stop().await;
}

#[tokio::test]
async fn it_may_be_restarted_under_load() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let Some(mut bouncer) = PgBouncer::before(&db).await else {
        return;
    };
    let database = Database::builder(bouncer.url()).listen_url(db.url()).build().unwrap();
    let running = Running::start(reactor_on(database, recording.clone(), ChannelConfig::default())).await;
    let rows = 600;
    let load = async {
        for _ in 0..rows {
            db.insert("me").await;
        }
    };
    let restarts = async {
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            bouncer.restart().await;
        }
    };
    futures::join!(load, restarts);
    db.becomes(&format!("sent={rows}")).await;
    eventually(SOON, || async {
        let problems = running.reactor.health().problems();
        expect(problems.is_empty(), format!("{problems:?}"))
    })
    .await;
    assert_eq!(recording.recorded().len(), rows);
    running.stop().await;
}

#[tokio::test]
async fn one_that_lends_its_backends_in_turn_is_found_too() {
    let db = TestDb::new().await;
    let Some(bouncer) = PgBouncer::in_turn(&db, 4).await else {
        return;
    };
    // So many backends there are from now on.
    let mut clients = vec![];
    for _ in 0..4 {
        let client = connect(&bouncer.url()).await;
        client.batch_execute("BEGIN").await.unwrap();
        clients.push(client);
    }
    for client in &clients {
        client.batch_execute("COMMIT").await.unwrap();
    }
    let database = Database::builder(bouncer.url()).build().unwrap();
    assert!(database.listens_through_pooler().await.unwrap());
    work(&db, database).await;
    nothing_is_left(&bouncer, 4).await;
}

#[tokio::test]
async fn one_that_is_put_in_between_while_it_runs_is_found() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let Some(bouncer) = PgBouncer::with_backends(&db, 3).await else {
        return;
    };
    let proxy = db.proxy().await;
    let database = db.database_through(&proxy).build().unwrap();
    let builder = reactor_on(database, recording.clone(), ChannelConfig::default()).scan_interval(SCAN);
    let running = Running::start(builder).await;
    let polls = async |why: &str| {
        eventually(SOON, || async {
            let mode = running.reactor.mode();
            let is_so = matches!(&mode, Mode::Polling { why: known } if known.contains(why));
            expect(is_so, format!("{mode:?}"))
        })
        .await;
    };
    proxy.set(Traffic::Cut);
    polls("").await;
    proxy.lead_to(bouncer.url().parse().unwrap());
    proxy.set(Traffic::Pass);
    polls("as listen_url").await;
    for row in 1..=3 {
        db.insert("me").await;
        assert_eq!(recording.wait_for(row, SOON).await.len(), row);
    }
    running.stop().await;
    nothing_is_left(&bouncer, 3).await;
}
