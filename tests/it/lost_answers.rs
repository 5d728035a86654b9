//! Statements that were carried out though their answers never came, and a server that is away.

use std::time::Duration;

use doorbell::senders::Recording;
use doorbell::{ChannelConfig, OnUnknown, Reactor, RetryPolicy, SendError};

use crate::support::{Gate, Proxy, Running, SOON, TestDb, Traffic, eventually, expect, patient, reactor_on};

/// The claimed row, as long as it is held up: not yet committed.
async fn committed(db: &TestDb, row: &str) {
    eventually(SOON, || async {
        let now = db
            .value("SELECT concat_ws(' ', status, attempts, claim) FROM notification_jobs")
            .await;
        expect(now == row, now)
    })
    .await;
}

/// A reactor that is cut off, and whose claim of the row `slow` was committed meanwhile.
async fn one_with_a_lost_claim(db: &TestDb, recording: &Recording) -> (Proxy, Running) {
    let proxy = db.proxy().await;
    let database = db.database_through(&proxy).build().unwrap();
    let held_up = db.hold_up_claims().await;
    let running = Running::start(reactor_on(database, recording.clone(), ChannelConfig::default())).await;
    db.insert("slow").await;
    held_up.has(1).await;
    proxy.set(Traffic::Cut);
    held_up.let_go().await;
    committed(db, "pending 1 1").await;
    (proxy, running)
}

#[tokio::test]
async fn rows_of_a_claim_whose_answer_never_came_are_given_back_and_sent_at_no_cost() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let (proxy, running) = one_with_a_lost_claim(&db, &recording).await;
    assert!(recording.recorded().is_empty());
    proxy.set(Traffic::Pass);
    let sent = tokio::time::timeout(SOON, recording.next()).await.unwrap();
    assert_eq!((sent.recipient(), sent.attempt()), ("slow", 1));
    db.becomes("sent=1").await;
    running.stop().await;
}

#[tokio::test]
async fn those_of_a_claim_that_was_not_waited_for_are_not_held_where_nothing_is_sent_twice() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let proxy = db.proxy().await;
    let database = db.database_through(&proxy).build().unwrap();
    let held_up = db.hold_up_claims().await;
    let hold = ChannelConfig::default().on_unknown(OnUnknown::Hold);
    let running = Running::start(reactor_on(database, recording.clone(), hold)).await;
    db.insert("slow").await;
    held_up.has(1).await;
    proxy.set(Traffic::Freeze);
    held_up.let_go().await;
    committed(&db, "pending 1 1").await;
    // Longer than an answer is waited for; the next claim is answered again.
    db.psql("SELECT pg_sleep(7)").await;
    proxy.set(Traffic::Pass);
    let sent = tokio::time::timeout(SOON, recording.next()).await.unwrap();
    assert_eq!((sent.recipient(), sent.attempt()), ("slow", 1));
    db.becomes("sent=1").await;
    running.stop().await;
}

#[tokio::test]
async fn one_of_them_that_somebody_holds_holds_up_no_other() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let (proxy, running) = one_with_a_lost_claim(&db, &recording).await;
    let holder = db.client().await;
    let hold = "BEGIN; SELECT FROM notification_jobs FOR UPDATE";
    holder.batch_execute(hold).await.unwrap();
    proxy.set(Traffic::Pass);
    db.insert("another").await;
    // Less than a statement may wait for a lock.
    let sent = tokio::time::timeout(Duration::from_secs(4), recording.next())
        .await
        .unwrap();
    assert_eq!(sent.recipient(), "another");
    holder.batch_execute("COMMIT").await.unwrap();
    db.becomes("sent=2").await;
    running.stop().await;
}

#[tokio::test]
async fn so_are_those_of_a_claim_that_is_committed_after_the_reactor_is_back() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let proxy = db.proxy().await;
    // So that claims run on the pool, where they wait longer than on the listening session.
    let database = db.database_through(&proxy).listen_url(proxy.url());
    let database = database.build().unwrap();
    let held_up = db.hold_up_claims().await;
    let running = Running::start(reactor_on(database, recording.clone(), ChannelConfig::default())).await;
    db.insert("slow").await;
    held_up.has(1).await;
    proxy.set(Traffic::Cut);
    db.armed(0).await;
    proxy.set(Traffic::Pass);
    db.armed(1).await;
    held_up.let_go().await;
    let sent = tokio::time::timeout(SOON, recording.next()).await.unwrap();
    assert_eq!((sent.recipient(), sent.attempt()), ("slow", 1));
    db.becomes("sent=1").await;
    running.stop().await;
}

#[tokio::test]
async fn an_outcome_whose_answer_never_came_is_written_once_and_sent_once() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let proxy = db.proxy().await;
    let database = db.database_through(&proxy).build().unwrap();
    let held_up = db
        .hold_up_updates("NEW.status = 'sent' AND OLD.recipient = 'slow'")
        .await;
    let running = Running::start(reactor_on(database, recording.clone(), ChannelConfig::default())).await;
    db.insert("slow").await;
    held_up.has(1).await;
    proxy.set(Traffic::Cut);
    held_up.let_go().await;
    committed(&db, "sent 1 1").await;
    proxy.set(Traffic::Pass);
    db.insert("next").await;
    db.becomes("sent=2").await;
    assert_eq!(recording.recorded().len(), 2);
    running.stop().await;
}

#[tokio::test]
async fn a_retry_whose_answer_never_came_leaves_when_it_is_due() {
    let db = TestDb::new().await;
    let recording = Recording::answering(|n| match n.attempt() {
        1 => Err(SendError::transient("once")),
        _ => Ok(doorbell::Receipt::none()),
    });
    let proxy = db.proxy().await;
    let database = db.database_through(&proxy).build().unwrap();
    let held_up = db.hold_up_updates("NEW.last_error = 'once'").await;
    let config = ChannelConfig::default().retry(RetryPolicy::linear(Duration::from_secs(3)));
    let running = Running::start(reactor_on(database, recording.clone(), config)).await;
    db.insert("me").await;
    held_up.has(1).await;
    proxy.set(Traffic::Cut);
    held_up.let_go().await;
    proxy.set(Traffic::Pass);
    let tries = recording.wait_for(2, SOON).await;
    assert_eq!(tries.len(), 2, "the retry was forgotten");
    db.becomes("sent=1").await;
    running.stop().await;
}

#[tokio::test]
async fn a_release_whose_answer_never_came_gives_one_attempt_back() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let proxy = db.proxy().await;
    let database = db.database_through(&proxy).build().unwrap();
    let held_up = db.hold_up_updates("NEW.attempts < OLD.attempts").await;
    let builder = reactor_on(database, gate.clone(), patient()).shutdown_grace(Duration::from_millis(100));
    let running = Running::start(builder).await;
    db.psql("INSERT INTO notification_jobs (channel, recipient, attempts) VALUES ('ops', 'me', 2)")
        .await;
    gate.next().await;
    let stopping = tokio::spawn(running.stop());
    held_up.has(1).await;
    proxy.set(Traffic::Cut);
    held_up.let_go().await;
    committed(&db, "pending 2 1").await;
    proxy.set(Traffic::Pass);
    stopping.await.unwrap();
    committed(&db, "pending 2 1").await;
}

#[tokio::test]
async fn a_server_that_is_away_for_a_while_is_waited_for() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let proxy = db.proxy().await;
    let database = db.database_through(&proxy).build().unwrap();
    let running = Running::start(reactor_on(database, recording.clone(), ChannelConfig::default())).await;
    for round in 0..3 {
        db.armed(1).await;
        proxy.set(Traffic::Cut);
        db.armed(0).await;
        db.insert("meanwhile").await;
        proxy.set(Traffic::Pass);
        let sent = tokio::time::timeout(SOON, recording.next()).await;
        assert!(sent.is_ok(), "round {round}");
    }
    db.becomes("sent=3").await;
    running.stop().await;
}

#[tokio::test]
async fn a_reactor_that_is_started_before_its_server_works_when_it_comes() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let proxy = db.proxy().await;
    proxy.set(Traffic::Cut);
    let database = db.database_through(&proxy).build().unwrap();
    let builder = reactor_on(database, recording.clone(), ChannelConfig::default());
    let running = Running::start_without_waiting(builder);
    db.insert("early").await;
    proxy.set(Traffic::Pass);
    tokio::time::timeout(SOON, recording.next()).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn a_listener_that_went_deaf_without_a_word_is_replaced() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let proxy = db.proxy().await;
    let listen_url = proxy.url();
    let database = doorbell::Database::builder(db.url())
        .listen_url(listen_url)
        .build()
        .unwrap();
    let running = Running::start(reactor_on(database, recording.clone(), ChannelConfig::default())).await;
    db.armed(1).await;
    proxy.set(Traffic::Freeze);
    db.insert("unheard").await;
    // Up to ten seconds to the next probe, five for its answer.
    let sent = tokio::time::timeout(Duration::from_secs(25), recording.next())
        .await
        .unwrap();
    assert_eq!(sent.recipient(), "unheard");
    proxy.set(Traffic::Pass);
    running.stop().await;
}

#[tokio::test]
async fn without_a_listener_rows_are_found_by_looking() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let nowhere = "postgres://postgres@127.0.0.1:1/nowhere";
    let database = doorbell::Database::builder(db.url())
        .listen_url(nowhere)
        .build()
        .unwrap();
    let reactor = Reactor::builder(database)
        .scan_interval(Duration::from_millis(200))
        .channel("ops", recording.clone(), ChannelConfig::default());
    let running = Running::start_without_waiting(reactor);
    assert!(matches!(
        running.reactor.started().await,
        doorbell::Mode::Polling { .. }
    ));
    for _ in 0..3 {
        db.insert("me").await;
        tokio::time::timeout(SOON, recording.next()).await.unwrap();
    }
    // Due instants count there too.
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, next_attempt_at)
         VALUES ('ops', 'me', clock_timestamp() + interval '0.3 s')",
    )
    .await;
    db.becomes("sent=4").await;
    running.stop().await;
}
