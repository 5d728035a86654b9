//! Reactors that live though much of theirs dies: nobody is to take their rows. What becomes of the dead ones' is shown
//! with real processes, in `program/rescue.rs`.

use std::time::Duration;

use doorbell::senders::Recording;
use doorbell::{Database, Migrator, OnUnknown, Reactor, embedded};
use tokio_postgres::Client;

use crate::support::{
    Gate, Running, SOON, TWO_LOOKS_AND_MORE, TestDb, Traffic, becomes, connect, eventually, expect, on_duty, patient,
    reactor_on, value,
};

/// Rows that are as the first claim left them, and reactors that are dead.
const STATE: &str = "SELECT concat_ws(' ', (SELECT count(*) FROM notification_jobs
                         WHERE status = 'pending' AND attempts = 1 AND claimed_by IS NOT NULL),
                     (SELECT count(*) FROM notification_reactors), (SELECT count(*) FROM notification_reactors WHERE dead))";

/// A reactor with three sends that do not end, and another beside it that may judge it.
struct Pair {
    first: Running,
    gate: Gate,
    /// The sessions of the first, as process ids.
    backends: Vec<String>,
    second: Running,
    recording: Recording,
}

impl Pair {
    async fn new(databases: [Database; 2], client: &Client) -> Self {
        let [firsts, seconds] = databases;
        let (gate, recording) = (Gate::shut(), Recording::new());
        let first = Running::start(reactor_on(firsts, gate.clone(), patient())).await;
        let insert = "INSERT INTO notification_jobs (channel, recipient) SELECT 'ops', 'me' FROM generate_series(1, 3)";
        client.batch_execute(insert).await.unwrap();
        assert_eq!(gate.wait_for(3, SOON).await.len(), 3);
        on_duty(client, 1).await;
        let backends = "SELECT string_agg(pid::text, ' ') FROM pg_stat_activity
                        WHERE datname = current_database() AND backend_type = 'client backend'
                            AND application_name ~ 'doorbell|listener'";
        let backends = value(client, backends).await.split(' ').map(str::to_owned).collect();
        let second = Running::start(reactor_on(seconds, recording.clone(), patient())).await;
        on_duty(client, 2).await;
        Pair {
            first,
            gate,
            backends,
            second,
            recording,
        }
    }

    /// The first ends its sends; each was one of its own.
    async fn end(self, client: &Client) {
        self.gate.open();
        let sent = "SELECT count(*) FROM notification_jobs WHERE status = 'sent' AND attempts = 1";
        eventually(SOON, || async {
            let sent = value(client, sent).await;
            expect(sent == "3", format!("{sent} are sent"))
        })
        .await;
        assert_eq!((self.gate.begun(), self.recording.recorded().len()), (3, 0));
        self.first.stop().await;
        self.second.stop().await;
    }
}

#[tokio::test]
async fn no_backend_of_a_living_reactor_takes_its_rows_along_when_it_is_killed() {
    let db = TestDb::new().await;
    let client = db.client_named("the test").await;
    let pair = Pair::new([db.database(), db.database()], &client).await;
    assert!(pair.backends.len() >= 3, "{:?}", pair.backends);
    for pid in &pair.backends {
        let killed = value(&client, &format!("SELECT pg_terminate_backend({pid})")).await;
        client.batch_execute(TWO_LOOKS_AND_MORE).await.unwrap();
        assert_eq!(
            (killed.as_str(), value(&client, STATE).await.as_str()),
            ("true", "3 2 0")
        );
    }
    // All of them at once, and those of the other.
    db.terminate_backends("doorbell listener").await;
    db.terminate_backends("doorbell%").await;
    client.batch_execute("SELECT pg_sleep(8)").await.unwrap();
    assert_eq!(value(&client, STATE).await, "3 2 0");
    pair.end(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_server_takes_no_row_from_anybody() {
    let mut server = embedded::Server::builder().fast_and_fragile().start().unwrap();
    let url = server.url("postgres");
    Migrator::new("public")
        .unwrap()
        .up(&mut connect(&url).await)
        .await
        .unwrap();
    let database = || Database::builder(&url).build().unwrap();
    let client = connect(&url).await;
    let pair = Pair::new([database(), database()], &client).await;
    for fast in [true, false] {
        tokio::task::block_in_place(|| {
            if fast {
                server.restart_fast().unwrap();
            } else {
                server.stop_immediate().unwrap();
                server.start_again().unwrap();
            }
        });
        // Until they judge again, and then two looks.
        let client = connect(&url).await;
        client.batch_execute("SELECT pg_sleep(9)").await.unwrap();
        assert_eq!(value(&client, STATE).await, "3 2 0");
    }
    pair.end(&connect(&url).await).await;
}

#[tokio::test]
async fn who_has_just_come_back_waits_for_those_that_are_slower() {
    let db = TestDb::new().await;
    let (client, proxy) = (db.client().await, db.proxy().await);
    let slow = db.database_through(&proxy).build().unwrap();
    let pair = Pair::new([slow, db.database()], &client).await;
    // As a restart does it: all sessions of both go at once.
    proxy.set(Traffic::Cut);
    db.terminate_backends("doorbell listener").await;
    db.terminate_backends("doorbell%").await;
    client.batch_execute(TWO_LOOKS_AND_MORE).await.unwrap();
    proxy.set(Traffic::Pass);
    client.batch_execute("SELECT pg_sleep(6)").await.unwrap();
    assert_eq!(value(&client, STATE).await, "3 2 0");
    pair.end(&client).await;
}

#[tokio::test]
async fn a_reactor_whose_lock_cannot_be_seen_takes_nobody_for_dead_and_is_taken_for_dead_by_nobody() {
    // Its locks are in another database than its rows.
    let (db, elsewhere) = (TestDb::new().await, TestDb::new().await);
    let client = db.client().await;
    let astray = Database::builder(db.url()).listen_url(elsewhere.url()).build().unwrap();
    let (gate, recording) = (Gate::shut(), Recording::new());
    // It does not hear the bell there.
    let scan = Duration::from_millis(100);
    let first = Running::start(reactor_on(astray, gate.clone(), patient()).scan_interval(scan)).await;
    db.insert("me").await;
    gate.next().await;
    let second = Running::start(db.reactor_with(recording.clone(), patient())).await;
    on_duty(&client, 1).await;
    client.batch_execute(TWO_LOOKS_AND_MORE).await.unwrap();
    assert_eq!(value(&client, STATE).await, "1 2 0");
    gate.open();
    db.becomes("sent=1").await;
    assert!(recording.recorded().is_empty());
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn a_reactor_that_was_cut_off_for_so_long_that_it_is_taken_for_dead_goes_on_under_a_new_id() {
    let (db, gate, recording) = (TestDb::new().await, Gate::shut(), Recording::new());
    let (client, proxy) = (db.client().await, db.proxy().await);
    let database = db.database_through(&proxy).build().unwrap();
    let first = Running::start(reactor_on(database, gate.clone(), patient())).await;
    db.insert("me").await;
    gate.next().await;
    let old_id = value(&client, "SELECT id FROM notification_reactors").await;
    let second = Running::start(db.reactor_with(recording.clone(), patient())).await;
    on_duty(&client, 2).await;
    proxy.set(Traffic::Cut);
    let rescued = tokio::time::timeout(SOON, recording.next()).await.unwrap();
    assert_eq!((rescued.recipient(), rescued.attempt()), ("me", 2));
    db.becomes("sent=1").await;
    second.stop().await;
    gate.open();
    proxy.set(Traffic::Pass);
    db.insert("next").await;
    assert_eq!(
        tokio::time::timeout(SOON, gate.next()).await.unwrap().recipient(),
        "next"
    );
    db.becomes("sent=2").await;
    assert_eq!(
        value(&client, "SELECT attempts FROM notification_jobs WHERE recipient = 'me'").await,
        "2"
    );
    eventually(SOON, || async {
        let listed = value(
            &client,
            "SELECT string_agg(id::text, ' ') FROM notification_reactors WHERE lock_key <> 0",
        )
        .await;
        expect(listed.len() == old_id.len() && listed != old_id, listed)
    })
    .await;
    first.stop().await;
    assert_eq!(value(&client, "SELECT count(*) FROM notification_reactors").await, "0");
}

/// Three rows, on channels that differ in what becomes of a row whose outcome nobody knows, are being sent by the only
/// reactor that serves them. It is cut off until one of another channel takes it for dead, and comes back.
#[tokio::test]
async fn a_reactor_that_comes_back_does_not_give_up_its_own_running_sends() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let (client, proxy) = (db.client().await, db.proxy().await);
    let database = db.database_through(&proxy).build().unwrap();
    let hold = patient().on_unknown(OnUnknown::Hold);
    let first = reactor_on(database, gate.clone(), hold)
        .channel("once", gate.clone(), patient())
        .channel("again", gate.clone(), patient());
    let first = Running::start(first).await;
    let insert = "INSERT INTO notification_jobs (channel, recipient, max_attempts)
                  VALUES ('ops', 'me', 5), ('once', 'me', 1), ('again', 'me', 5)";
    client.batch_execute(insert).await.unwrap();
    gate.wait_for(3, SOON).await;
    let elsewhere = Reactor::builder(db.database()).channel("other", Recording::new(), patient());
    let second = Running::start(elsewhere).await;
    on_duty(&client, 2).await;
    proxy.set(Traffic::Cut);
    let dead = "SELECT count(*) FROM notification_reactors WHERE dead";
    becomes(&client, dead, "1").await;
    proxy.set(Traffic::Pass);
    let listed = "SELECT count(*) FROM notification_reactors WHERE lock_key <> 0 AND NOT dead";
    becomes(&client, listed, "2").await;
    client.batch_execute(TWO_LOOKS_AND_MORE).await.unwrap();
    let untouched = "SELECT count(*) FROM notification_jobs
                     WHERE status = 'pending' AND claim = 1 AND claimed_by IS NOT NULL";
    assert_eq!(value(&client, untouched).await, "3");
    gate.open();
    db.becomes("sent=3").await;
    assert_eq!(gate.begun(), 3);
    // Nothing is left to be rescued.
    becomes(&client, "SELECT count(*) FROM notification_reactors", "2").await;
    first.stop().await;
    second.stop().await;
}

/// A reactor with a lease that long that was cut off until its rows were rescued, and the other, which had no slot free for
/// them. When the first is back its sends end.
async fn rescued_but_not_begun_again(lease: Duration) {
    let db = TestDb::new().await;
    let (gate, busy) = (Gate::shut(), Gate::shut());
    let (client, proxy) = (db.client().await, db.proxy().await);
    let database = db.database_through(&proxy).build().unwrap();
    let first = reactor_on(database, gate.clone(), patient().max_in_flight(3)).lease(lease);
    let first = Running::start(first).await;
    let insert = "INSERT INTO notification_jobs (channel, recipient) SELECT 'ops', n FROM generate_series(1, 4) AS n";
    client.batch_execute(insert).await.unwrap();
    gate.wait_for(3, SOON).await;
    let second = Running::start(db.reactor_with(busy.clone(), patient().max_in_flight(1))).await;
    busy.next().await;
    on_duty(&client, 2).await;
    proxy.set(Traffic::Cut);
    let rescued = "SELECT count(*) FROM notification_jobs WHERE status = 'pending' AND claimed_by IS NULL";
    becomes(&client, rescued, "3").await;
    proxy.set(Traffic::Pass);
    if lease < SOON {
        // They are renewed, and so ours again.
        becomes(&client, rescued, "0").await;
    }
    gate.open();
    db.becomes("pending=1 sent=3").await;
    busy.open();
    db.becomes("sent=4").await;
    assert_eq!((gate.begun(), busy.begun()), (3, 1));
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn what_is_sent_before_anybody_has_begun_it_again_is_sent_once() {
    rescued_but_not_begun_again(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn what_is_being_sent_and_was_not_begun_again_is_renewed() {
    rescued_but_not_begun_again(Duration::from_secs(4)).await;
}

#[tokio::test]
async fn a_short_cut_costs_nothing() {
    let db = TestDb::new().await;
    let (client, proxy) = (db.client().await, db.proxy().await);
    let through = db.database_through(&proxy).build().unwrap();
    let pair = Pair::new([through, db.database()], &client).await;
    for _ in 0..3 {
        proxy.set(Traffic::Cut);
        client.batch_execute("SELECT pg_sleep(0.4)").await.unwrap();
        proxy.set(Traffic::Pass);
        client.batch_execute(TWO_LOOKS_AND_MORE).await.unwrap();
        assert_eq!(value(&client, STATE).await, "3 2 0");
    }
    pair.end(&client).await;
}

#[tokio::test]
async fn a_lone_reactor_looks_after_a_newcomer_at_once() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let client = db.client().await;
    let first = Running::start(db.reactor(recording.clone())).await;
    on_duty(&client, 1).await;
    let ears = db.ears().await;
    let second = Running::start(db.reactor(recording)).await;
    eventually(SOON, || async {
        expect(ears.heard().await == 1, "it has not said so yet")
    })
    .await;
    second.crash().await;
    // By itself the first finds out when it is 9 s old at the soonest that it is not alone. It is 6 s old now.
    eventually(Duration::from_secs(3), || async {
        let listed = value(&client, "SELECT count(*) FROM notification_reactors").await;
        expect(listed == "1", listed)
    })
    .await;
    first.stop().await;
}

#[tokio::test]
async fn of_a_dead_reactor_only_what_it_claimed_while_it_lived_is_rescued() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let client = db.client().await;
    // Dead for ten seconds: no lease that it got alive lasts for longer than twenty more.
    client
        .batch_execute(
            "INSERT INTO notification_reactors (id, lock_key, host, version, channels, lease, seen_at, dead)
             VALUES (gen_random_uuid(), 1, '', '', '{ops,other}', '30 s', now() - interval '10 s', true);
             INSERT INTO notification_jobs
                 (channel, recipient, attempts, max_attempts, claim, claimed_by, next_attempt_at)
             SELECT channel, recipient, attempts, 5, 1, id, now() + lease_left
             FROM notification_reactors, (VALUES
                 ('ops', 'first attempt', 1, interval '15 s'), ('ops', 'last attempt', 5, '15 s'),
                 ('ops', 'third attempt', 3, '15 s'), ('ops', 'claimed later', 1, '25 s'),
                 ('other', 'not ours', 1, '15 s')) AS claimed (channel, recipient, attempts, lease_left)",
        )
        .await
        .unwrap();
    let running = Running::start(db.reactor(recording.clone())).await;
    let mut sent: Vec<_> = recording.wait_for(2, SOON).await;
    sent.sort_by_key(|sent| sent.attempt());
    let sent: Vec<_> = sent.iter().map(|sent| (sent.recipient(), sent.attempt())).collect();
    assert_eq!(sent, [("first attempt", 2), ("third attempt", 4)]);
    let of = |recipient| {
        let columns = "concat_ws(' ', status, attempts, claimed_by IS NOT NULL, last_error)";
        format!("SELECT {columns} FROM notification_jobs WHERE recipient = '{recipient}'")
    };
    assert_eq!(value(&client, &of("claimed later")).await, "pending 1 t");
    assert_eq!(value(&client, &of("not ours")).await, "pending 1 t");
    let last = value(&client, &of("last attempt")).await;
    assert!(last.starts_with("failed 5 f gave up: the reactor died"), "{last}");
    assert_eq!(
        value(&client, "SELECT count(*) FROM notification_reactors WHERE dead").await,
        "1",
        "it stays for the row of a channel that nobody here serves"
    );
    running.stop().await;
}
