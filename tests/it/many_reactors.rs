//! Several reactors on one database.

use std::time::{Duration, Instant};

use doorbell::senders::Recording;
use doorbell::{ChannelConfig, Notification, Receipt, RetryPolicy, SendError, Sender};
use tokio::sync::watch;

use crate::support::{Gate, Running, SOON, TestDb, eventually, expect};

fn one_at_a_time(retry: Duration) -> ChannelConfig {
    let config = ChannelConfig::default()
        .max_in_flight(1)
        .timeout(Duration::from_secs(600));
    config.retry(RetryPolicy::linear(retry))
}

#[tokio::test]
async fn none_of_several_reactors_sends_a_row_twice() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let mut running = Vec::new();
    for _ in 0..3 {
        running.push(Running::start(db.reactor(recording.clone())).await);
    }
    let client = db.client().await;
    client
        .batch_execute(
            "INSERT INTO notification_jobs (channel, recipient) SELECT 'ops', n::text FROM generate_series(1, 400) n",
        )
        .await
        .unwrap();
    for n in 401..=500 {
        db.insert(&n.to_string()).await;
    }
    db.becomes("sent=500").await;
    let mut recipients: Vec<u32> = recording
        .recorded()
        .iter()
        .map(|n| n.recipient().parse().unwrap())
        .collect();
    recipients.sort_unstable();
    assert!(recipients.into_iter().eq(1..=500), "each once");
    assert_eq!(db.value("SELECT max(attempts) FROM notification_jobs").await, "1");
    for running in running {
        running.stop().await;
    }
}

#[tokio::test]
async fn a_reactor_without_a_free_slot_leaves_rows_to_others() {
    let (db, gate, recording) = (TestDb::new().await, Gate::shut(), Recording::new());
    let full = Running::start(db.reactor_with(gate.clone(), one_at_a_time(Duration::from_secs(1)))).await;
    db.insert("fills the first").await;
    gate.next().await;
    let free = Running::start(db.reactor(recording.clone())).await;
    for n in 0..20 {
        db.insert(&n.to_string()).await;
        let sent = tokio::time::timeout(SOON, recording.next()).await.unwrap();
        assert_eq!(sent.recipient(), n.to_string());
    }
    gate.open();
    full.stop().await;
    free.stop().await;
}

/// Fails `retry me` when told to, and never ends what else it sends.
#[derive(Clone)]
struct FailsWhenTold {
    recording: Recording,
    go: watch::Sender<bool>,
}

impl FailsWhenTold {
    fn new() -> Self {
        FailsWhenTold {
            recording: Recording::new(),
            go: watch::Sender::new(false),
        }
    }
}

impl Sender for FailsWhenTold {
    async fn send(&self, notification: &Notification) -> Result<Receipt, SendError> {
        self.recording.send(notification).await?;
        if notification.recipient() != "retry me" {
            std::future::pending::<()>().await;
        }
        self.go.subscribe().wait_for(|go| *go).await?;
        Err(SendError::transient("told to"))
    }
}

/// Two reactors: one in the middle of the row `retry me`, the other asleep without knowing of it.
async fn one_that_will_fail_and_one_asleep(
    db: &TestDb,
    retry: Duration,
) -> (Running, FailsWhenTold, Running, Recording) {
    let told = FailsWhenTold::new();
    let failing = db
        .reactor_with(told.clone(), one_at_a_time(retry))
        .shutdown_grace(Duration::from_millis(100));
    let failing = Running::start(failing).await;
    db.insert("retry me").await;
    told.recording.next().await;
    let recording = Recording::new();
    let other = Running::start(db.reactor(recording.clone())).await;
    db.armed(1).await;
    (failing, told, other, recording)
}

#[tokio::test]
async fn a_retry_that_falls_due_while_its_reactor_is_full_is_sent_by_another() {
    let db = TestDb::new().await;
    let (failing, told, other, recording) = one_that_will_fail_and_one_asleep(&db, Duration::from_secs(1)).await;
    // Unheard, so that the reactor whose slot is about to be free takes it.
    db.psql("SET doorbell.notify = off; INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', 'filler')")
        .await;
    told.go.send_replace(true);
    told.recording.next().await;
    let sent = tokio::time::timeout(SOON, recording.next()).await.unwrap();
    assert_eq!((sent.recipient(), sent.attempt()), ("retry me", 2));
    other.stop().await;
    failing.stop().await;
}

#[tokio::test]
async fn nor_does_it_wait_while_that_one_works_off_a_backlog_of_another_channel() {
    let (db, bulk) = (TestDb::new().await, Recording::new());
    let told = FailsWhenTold::new();
    let wide = ChannelConfig::default().max_in_flight(10_000);
    // With a channel that is idle besides, the backlog never fills the slots of its own.
    let failing = db
        .reactor_with(told.clone(), one_at_a_time(Duration::from_secs(1)))
        .channel("bulk", bulk.clone(), wide)
        .channel("idle", Recording::new(), ChannelConfig::default())
        .shutdown_grace(Duration::from_millis(100));
    let failing = Running::start(failing).await;
    db.insert("retry me").await;
    told.recording.next().await;
    let recording = Recording::new();
    let other = Running::start(db.reactor(recording.clone())).await;
    db.armed(2).await;
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient) SELECT 'bulk', n::text FROM generate_series(1, 200000) n",
    )
    .await;
    bulk.wait_for(100, SOON).await;
    db.psql("SET doorbell.notify = off; INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', 'filler')")
        .await;
    told.go.send_replace(true);
    let sent = tokio::time::timeout(SOON, recording.next()).await.unwrap();
    assert_eq!((sent.recipient(), sent.attempt()), ("retry me", 2));
    assert!(
        bulk.recorded().len() < 200_000,
        "the backlog was over too soon to show anything"
    );
    failing.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn a_retry_whose_reactor_has_stopped_is_sent_by_another_when_it_is_due() {
    let db = TestDb::new().await;
    let (failing, told, other, recording) = one_that_will_fail_and_one_asleep(&db, Duration::from_millis(1500)).await;
    told.go.send_replace(true);
    let failed = "SELECT count(*) FROM notification_jobs WHERE last_error = 'told to'";
    eventually(SOON, || async {
        let rows = db.value(failed).await;
        expect(rows == "1", rows)
    })
    .await;
    let begun = Instant::now();
    failing.stop().await;
    let sent = tokio::time::timeout(SOON, recording.next()).await.unwrap();
    assert_eq!((sent.recipient(), sent.attempt()), ("retry me", 2));
    assert!(begun.elapsed() > Duration::from_millis(500), "not before it was due");
    other.stop().await;
}

/// Notes each claim, whether or not it finds a row, and whether it came too late for any. Of a reactor's updates here only
/// a claim skips locked rows, since no send lasts until its lease is renewed.
const NOTE_CLAIMS: &str = "
    CREATE TABLE claims (too_late boolean NOT NULL);
    CREATE FUNCTION note_claim() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF current_query() LIKE '%SKIP LOCKED%' THEN
            INSERT INTO claims SELECT NOT EXISTS (SELECT FROM notification_jobs WHERE claim = 0);
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER note_claim BEFORE UPDATE ON notification_jobs FOR EACH STATEMENT EXECUTE FUNCTION note_claim()";

/// More than the second after which a ring that finds nothing passes for an accident again.
const QUIET: Duration = Duration::from_millis(1200);

/// One of them takes it, and each of the others looks for it once. Who looks while another takes it finds it locked, does
/// not know that it is going, and looks once more; such a look did not come too late.
#[tokio::test]
async fn a_retry_of_a_cron_job_is_sent_by_a_reactor_that_sleeps_when_it_is_due() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let sleeper = Running::start(db.reactor(recording.clone())).await;
    db.armed(1).await;
    db.psql("SET doorbell.notify = off; INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', 'me')")
        .await;
    let fails = Recording::answering(|_| Err(SendError::transient("not today")));
    let in_a_second = ChannelConfig::default().retry(RetryPolicy::linear(Duration::from_secs(1)));
    let cron_job = db.reactor_with(fails, in_a_second).build().unwrap();
    assert_eq!(cron_job.process_due(1).await.unwrap().retried, 1);
    let sent = tokio::time::timeout(SOON, recording.next()).await.unwrap();
    assert_eq!(sent.attempt(), 2);
    sleeper.stop().await;
}

#[tokio::test]
async fn a_lone_row_costs_each_other_sleeping_reactor_one_late_claim_at_most() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let mut running = Vec::new();
    for _ in 0..3 {
        running.push(Running::start(db.reactor(recording.clone())).await);
    }
    db.armed(3).await;
    tokio::time::sleep(QUIET).await;
    db.client().await.batch_execute(NOTE_CLAIMS).await.unwrap();
    for rows in 1..=4 {
        db.insert("me").await;
        db.becomes(&format!("sent={rows}")).await;
        // Long enough for claims too many, which come within milliseconds, and for the next empty ring to be an accident.
        tokio::time::sleep(QUIET).await;
        let count = async |which| -> u64 {
            let sql = format!("SELECT count(*) FROM claims WHERE {which}");
            db.value(&sql).await.parse().unwrap()
        };
        let (in_time, late) = (count("NOT too_late").await, count("too_late").await);
        assert!(in_time >= rows, "{in_time} claims for {rows} rows");
        assert!(late <= 2 * rows, "{late} late claims for {rows} rows");
    }
    for running in running {
        running.stop().await;
    }
}
