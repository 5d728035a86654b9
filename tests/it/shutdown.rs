//! Stopping, from every state.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use doorbell::senders::Recording;
use doorbell::{ChannelConfig, Database, Notification, OnUnknown, Receipt, SendError, Sender};
use tokio::sync::watch;

use crate::support::{Gate, Running, SOON, TestDb, Traffic, eventually, expect, patient, reactor_on};

const GRACE: Duration = Duration::from_millis(300);
/// Well below the 20 s that the grace is by default.
const AT_ONCE: Duration = Duration::from_secs(3);

/// Nothing of a reactor is left: no claimed row, no entry, no listening session, no lock.
async fn nothing_is_left(db: &TestDb) {
    assert_eq!(
        db.value("SELECT count(*) FROM notification_jobs WHERE claimed_by IS NOT NULL")
            .await,
        "0"
    );
    assert_eq!(db.value("SELECT count(*) FROM notification_reactors").await, "0");
    db.armed(0).await;
    let listeners = "SELECT count(*) FROM pg_stat_activity
                     WHERE datname = current_database() AND application_name LIKE '%listener%'";
    eventually(SOON, || async {
        let left = db.value(listeners).await;
        expect(left == "0", format!("{left} listening sessions are left"))
    })
    .await;
}

#[tokio::test]
async fn asleep() {
    let db = TestDb::new().await;
    let running = Running::start(db.reactor(Recording::new())).await;
    db.armed(1).await;
    assert!(running.stop().await < AT_ONCE);
    nothing_is_left(&db).await;
    let ears = db.ears().await;
    db.insert("me").await;
    assert_eq!(ears.heard().await, 0, "producers are silent again");
}

#[tokio::test]
async fn drowsy_behind_a_silent_producer() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let producer = db.client().await;
    let insert = "BEGIN; INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', 'me')";
    producer.batch_execute(insert).await.unwrap();
    let running = Running::start(db.reactor(recording.clone())).await;
    db.armed(1).await;
    assert!(running.stop().await < AT_ONCE);
    producer.batch_execute("COMMIT").await.unwrap();
    nothing_is_left(&db).await;
    assert_eq!(db.statuses().await, "pending=1");
}

#[tokio::test]
async fn under_load_with_every_row_accounted_for() {
    for round in 0..5 {
        let (db, recording) = (TestDb::new().await, Recording::new());
        db.psql(
            "INSERT INTO notification_jobs (channel, recipient) SELECT 'ops', n::text FROM generate_series(1, 2000) n",
        )
        .await;
        let running = Running::start(db.reactor(recording.clone())).await;
        recording.wait_for(1 + 40 * round, SOON).await;
        assert!(running.stop().await < AT_ONCE);
        nothing_is_left(&db).await;
        let rows = "SELECT count(*) FILTER (WHERE status = 'sent') || ' ' ||
                        count(*) FILTER (WHERE status = 'pending' AND attempts > 0) FROM notification_jobs";
        assert_eq!(
            db.value(rows).await,
            format!("{} 0", recording.recorded().len()),
            "round {round}"
        );
    }
}

#[tokio::test]
async fn a_send_that_ends_within_the_grace_is_written() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let running = Running::start(db.reactor_with(gate.clone(), patient())).await;
    db.insert("me").await;
    gate.next().await;
    let stopping = tokio::spawn(running.stop());
    db.armed(0).await;
    gate.open();
    assert!(stopping.await.unwrap() < AT_ONCE);
    nothing_is_left(&db).await;
    assert_eq!(db.statuses().await, "sent=1");
}

#[tokio::test]
async fn sends_that_outlast_the_grace_are_given_back_at_no_cost_in_attempts() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let full = patient().max_in_flight(3);
    let running = Running::start(db.reactor_with(gate.clone(), full).shutdown_grace(GRACE)).await;
    for n in 0..5 {
        db.insert(&n.to_string()).await;
    }
    gate.wait_for(3, SOON).await;
    let took = running.stop().await;
    assert!(took >= GRACE && took < AT_ONCE, "{took:?}");
    nothing_is_left(&db).await;
    let rows =
        "SELECT count(*) || ' ' || sum(attempts) || ' ' || bool_and(next_attempt_at <= now()) FROM notification_jobs
                WHERE status = 'pending'";
    assert_eq!(db.value(rows).await, "5 0 true");

    let recording = Recording::new();
    let next = Running::start(db.reactor(recording.clone())).await;
    db.becomes("sent=5").await;
    assert!(recording.recorded().iter().all(|n| n.attempt() == 1));
    next.stop().await;
}

#[tokio::test]
async fn sends_that_outlast_the_grace_are_held_where_nothing_is_sent_twice() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let hold = patient().on_unknown(OnUnknown::Hold);
    let running = Running::start(db.reactor_with(gate.clone(), hold).shutdown_grace(GRACE)).await;
    db.insert("me").await;
    gate.next().await;
    assert!(running.stop().await < AT_ONCE);
    nothing_is_left(&db).await;
    let row = "SELECT status || attempts || ' ' || last_error FROM notification_jobs";
    assert_eq!(
        db.value(row).await,
        "failed1 held: the send was cut off by a shutdown; it may have arrived"
    );
}

#[tokio::test]
async fn what_is_given_back_is_taken_by_a_reactor_that_sleeps() {
    let (db, gate, recording) = (TestDb::new().await, Gate::shut(), Recording::new());
    let first = Running::start(db.reactor_with(gate.clone(), patient()).shutdown_grace(GRACE)).await;
    db.insert("me").await;
    gate.next().await;
    let second = Running::start(db.reactor(recording.clone())).await;
    db.armed(2).await;
    first.stop().await;
    let sent = tokio::time::timeout(SOON, recording.next()).await.unwrap();
    assert_eq!((sent.recipient(), sent.attempt()), ("me", 1));
    second.stop().await;
}

#[tokio::test]
async fn in_the_middle_of_a_claim() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let held_up = db.hold_up_claims().await;
    let running = Running::start(db.reactor(recording.clone())).await;
    db.insert("slow").await;
    held_up.has(1).await;
    let stopping = tokio::spawn(running.stop());
    held_up.let_go().await;
    assert!(stopping.await.unwrap() < AT_ONCE);
    nothing_is_left(&db).await;
    assert_eq!(db.statuses().await, "sent=1", "what it had claimed it sent");
    assert_eq!(recording.recorded().len(), 1);
}

#[tokio::test]
async fn in_the_middle_of_a_claim_that_outlasts_the_grace() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let held_up = db.hold_up_claims().await;
    let builder = db.reactor(recording.clone()).shutdown_grace(Duration::ZERO);
    let running = Running::start(builder).await;
    db.insert("slow").await;
    held_up.has(1).await;
    assert!(running.stop().await < Duration::from_secs(15));
    held_up.let_go().await;
    assert!(recording.recorded().is_empty());
}

#[tokio::test]
async fn polling_without_a_listener() {
    let db = TestDb::new().await;
    let nowhere = "postgres://postgres@127.0.0.1:1/nowhere";
    let database = Database::builder(db.url()).listen_url(nowhere).build().unwrap();
    let builder = reactor_on(database, Recording::new(), ChannelConfig::default());
    let running = Running::start_without_waiting(builder);
    running.reactor.started().await;
    assert!(running.stop().await < AT_ONCE);
    nothing_is_left(&db).await;
}

#[tokio::test]
async fn before_the_server_was_ever_reached() {
    let nowhere = Database::builder("postgres://postgres@127.0.0.1:1/nowhere")
        .build()
        .unwrap();
    let builder = reactor_on(nowhere, Recording::new(), ChannelConfig::default());
    let running = Running::start_without_waiting(builder);
    tokio::task::yield_now().await;
    assert!(running.stop().await < AT_ONCE);
}

#[tokio::test]
async fn while_the_server_is_away_with_an_outcome_to_write() {
    for mode in [Traffic::Cut, Traffic::Freeze] {
        let (db, gate) = (TestDb::new().await, Gate::shut());
        let proxy = db.proxy().await;
        let database = db.database_through(&proxy).build().unwrap();
        let builder = reactor_on(database, gate.clone(), patient()).shutdown_grace(GRACE);
        let running = Running::start(builder).await;
        db.insert("me").await;
        gate.next().await;
        proxy.set(mode);
        gate.open();
        let took = running.stop().await;
        // Two seconds each for the last look and the last write, one for the goodbye, and room for a busy machine.
        assert!(took < Duration::from_secs(15), "{mode:?}: {took:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn while_a_sender_blocks_its_thread() {
    let db = TestDb::new().await;
    let (release, released) = mpsc::channel();
    let (begin, mut begun) = watch::channel(false);
    let blocking = Blocking {
        begin,
        released: Mutex::new(released),
    };
    let running = Running::start(db.reactor(blocking).shutdown_grace(GRACE)).await;
    db.insert("me").await;
    begun.wait_for(|begun| *begun).await.unwrap();
    running.stop().await;
    // Its row has to wait for the lease; but the reactor took its leave.
    assert_eq!(db.value("SELECT count(*) FROM notification_reactors").await, "0");
    assert_eq!(db.statuses().await, "pending=1");
    drop(release);
}

/// Blocks its thread until it is released.
struct Blocking {
    begin: watch::Sender<bool>,
    released: Mutex<mpsc::Receiver<()>>,
}

impl Sender for Blocking {
    async fn send(&self, _: &Notification) -> Result<Receipt, SendError> {
        self.begin.send_replace(true);
        // An error is the release.
        let _ = self.released.lock().unwrap().recv();
        Ok(Receipt::none())
    }
}

#[tokio::test]
async fn dropping_the_run_leaves_no_task_and_no_session_behind() {
    let db = TestDb::new().await;
    let (begun, dropped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let sender = Noticing {
        begun: Arc::clone(&begun),
        dropped: Arc::clone(&dropped),
    };
    let running = Running::start(db.reactor_with(sender, patient())).await;
    db.insert("me").await;
    eventually(SOON, || async { expect(begun.load(Ordering::SeqCst), "not begun") }).await;
    running.crash().await;
    eventually(SOON, || async {
        expect(dropped.load(Ordering::SeqCst), "the send still runs")
    })
    .await;
    let sessions = "SELECT count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    eventually(SOON, || async {
        let left = db.value(sessions).await;
        expect(left == "0", format!("{left} sessions are left"))
    })
    .await;
    assert_eq!(db.statuses().await, "pending=1");
}

/// Never ends, and notices when it is dropped.
struct Noticing {
    begun: Arc<AtomicBool>,
    dropped: Arc<AtomicBool>,
}

impl Sender for Noticing {
    async fn send(&self, _: &Notification) -> Result<Receipt, SendError> {
        let _guard = SetOnDrop(Arc::clone(&self.dropped));
        self.begun.store(true, Ordering::SeqCst);
        std::future::pending().await
    }
}

struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Fails `retry me` once the gate opens, and never ends anything else.
#[derive(Clone)]
struct FailsOne(Gate);

impl Sender for FailsOne {
    async fn send(&self, notification: &Notification) -> Result<Receipt, SendError> {
        if notification.recipient() != "retry me" {
            std::future::pending::<()>().await;
        }
        self.0.send(notification).await?;
        Err(SendError::transient("told to"))
    }
}

#[tokio::test]
async fn a_retry_written_within_the_grace_is_sent_by_another_when_it_is_due() {
    let (db, gate, recording) = (TestDb::new().await, Gate::shut(), Recording::new());
    let long = 2 * SOON;
    let first = db.reactor_with(FailsOne(gate.clone()), patient()).shutdown_grace(long);
    let first = Running::start(first).await;
    db.insert("takes long").await;
    db.insert("retry me").await;
    gate.next().await;
    let other = Running::start(db.reactor(recording.clone())).await;
    db.armed(2).await;
    let stopping = tokio::spawn(first.stop());
    db.armed(1).await;
    gate.open();
    let sent = tokio::time::timeout(SOON, recording.next()).await.unwrap();
    assert_eq!((sent.recipient(), sent.attempt()), ("retry me", 2));
    stopping.abort();
    other.stop().await;
}
