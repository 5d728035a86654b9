//! Senders that fail in every way there is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use doorbell::senders::Recording;
use doorbell::{ChannelConfig, Database, Notification, OnUnknown, Reactor, Receipt, RetryPolicy, SendError, Sender};

use crate::support::{Child, Running, SOON, TestDb, eventually, expect, reactor_on};

const SHORT: Duration = Duration::from_millis(100);

fn impatient() -> ChannelConfig {
    ChannelConfig::default()
        .timeout(SHORT)
        .retry(RetryPolicy::linear(Duration::from_millis(20)))
}

/// Misbehaves in the way that the recipient names, and counts.
#[derive(Clone, Default)]
struct Misbehaving(Arc<AtomicUsize>);

impl Misbehaving {
    fn sends(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Sender for Misbehaving {
    async fn send(&self, notification: &Notification) -> Result<Receipt, SendError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        match notification.recipient() {
            "transient" => Err(SendError::transient("no")),
            "question mark" => Err(std::io::Error::other("no"))?,
            "retry after" => Err(SendError::retry_after(Duration::from_millis(1), "no")),
            "retry at once" => Err(SendError::retry_after(Duration::ZERO, "no")),
            "unknown" => Err(SendError::unknown("no")),
            "panics" => panic!("no"),
            "panics with a number" => std::panic::panic_any(7),
            "hangs" => std::future::pending().await,
            "panics when dropped" => {
                let _bomb = Bomb;
                std::future::pending().await
            }
            "spins" => loop {
                tokio::task::yield_now().await;
            },
            _ => Ok(Receipt::none()),
        }
    }
}

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

const FAILURES: [&str; 10] = [
    "transient",
    "question mark",
    "retry after",
    "retry at once",
    "unknown",
    "panics",
    "panics with a number",
    "hangs",
    "panics when dropped",
    "spins",
];

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_failure_is_tried_as_often_as_it_may_be_and_no_more() {
    let db = TestDb::new().await;
    let mut reactor = Reactor::builder(db.database()).scan_interval(Duration::from_secs(600));
    let senders = FAILURES.map(|_| Misbehaving::default());
    for (failure, sender) in FAILURES.iter().zip(&senders) {
        reactor = reactor.channel(failure, sender.clone(), impatient());
    }
    let running = Running::start(reactor).await;
    for failure in FAILURES {
        db.psql(&format!(
            "INSERT INTO notification_jobs (channel, recipient, max_attempts) VALUES ('{failure}', '{failure}', 2)"
        ))
        .await;
    }
    db.becomes("failed=10").await;
    for (failure, sender) in FAILURES.iter().zip(&senders) {
        let row = format!(
            "SELECT attempts || ' ' || (claimed_by IS NULL) || ' ' || (last_error <> '') FROM notification_jobs
             WHERE channel = '{failure}'"
        );
        assert_eq!(
            (db.value(&row).await, sender.sends()),
            ("2 true true".to_owned(), 2),
            "{failure}"
        );
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_due_again_at_once_are_not_forgotten() {
    let (db, sender) = (TestDb::new().await, Misbehaving::default());
    let running = Running::start(db.reactor(sender.clone())).await;
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, max_attempts)
         SELECT 'ops', 'retry at once', 50 FROM generate_series(1, 16)",
    )
    .await;
    db.becomes("failed=16").await;
    assert_eq!(sender.sends(), 16 * 50);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_channel_that_holds_an_unknown_outcome_is_not_tried_again() {
    let db = TestDb::new().await;
    let sender = Misbehaving::default();
    let config = impatient().on_unknown(OnUnknown::Hold);
    let running = Running::start(db.reactor_with(sender.clone(), config)).await;
    for failure in ["unknown", "panics", "hangs", "panics when dropped"] {
        db.insert(failure).await;
    }
    db.becomes("failed=4").await;
    let held =
        "SELECT count(*) FROM notification_jobs WHERE last_error LIKE 'held: %it may have arrived' AND attempts = 1";
    assert_eq!((db.value(held).await.as_str(), sender.sends()), ("4", 4));
    // What is known to have failed is tried again there too.
    db.psql("INSERT INTO notification_jobs (channel, recipient, max_attempts) VALUES ('ops', 'transient', 2)")
        .await;
    db.becomes("failed=5").await;
    assert_eq!(sender.sends(), 6);
    running.stop().await;
}

#[tokio::test]
async fn a_permanent_failure_is_not_tried_again() {
    let db = TestDb::new().await;
    let recording = Recording::answering(|_| Err(SendError::permanent("no such user")));
    let running = Running::start(db.reactor_with(recording.clone(), impatient())).await;
    db.insert("me").await;
    db.becomes("failed=1").await;
    assert_eq!(
        db.value("SELECT attempts || last_error FROM notification_jobs").await,
        "1no such user"
    );
    assert_eq!(recording.recorded().len(), 1);
    running.stop().await;
}

#[tokio::test]
async fn a_provider_that_says_come_back_never_is_asked_again_within_a_day() {
    let db = TestDb::new().await;
    let recording = Recording::answering(|_| Err(SendError::retry_after(Duration::MAX, "later")));
    let running = Running::start(db.reactor_with(recording.clone(), impatient())).await;
    db.insert("me").await;
    recording.next().await;
    let row = "SELECT attempts || ' ' || round(extract(epoch FROM next_attempt_at - updated_at) / 3600)
               FROM notification_jobs WHERE claimed_by IS NULL AND last_error = 'later'";
    eventually(SOON, || async {
        let rows = db.psql(row).await;
        expect(rows == "1 24", rows)
    })
    .await;
    running.stop().await;
}

#[tokio::test]
async fn error_texts_and_receipts_that_postgres_refuses_are_stored_as_far_as_they_can_be() {
    let db = TestDb::new().await;
    let recording = Recording::answering(|n| match n.recipient() {
        "huge" => Err(SendError::permanent("é".repeat(5_000_000))),
        "nul" => Err(SendError::permanent("a\0b\0")),
        "panic" => panic!("{}\0", "p".repeat(10_000_000)),
        "odd" => Err(SendError::permanent("\u{d7ff}\u{10ffff}\u{1}'; DROP TABLE x")),
        "empty" => Err(SendError::permanent("")),
        _ => Ok(Receipt::new(format!("\0id\0{}", "r".repeat(10_000_000)))),
    });
    let running = Running::start(db.reactor(recording.clone())).await;
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, max_attempts)
         SELECT 'ops', r, 1 FROM unnest('{huge, nul, panic, odd, empty, receipt, receipt}'::text[]) r",
    )
    .await;
    db.becomes("failed=5 sent=2").await;
    let error = async |recipient: &str, what: &str| {
        db.value(&format!(
            "SELECT {what} FROM notification_jobs WHERE recipient = '{recipient}' LIMIT 1"
        ))
        .await
    };
    assert_eq!(error("huge", "octet_length(last_error)").await, "2048");
    assert_eq!(error("nul", "last_error").await, "ab");
    assert_eq!(error("panic", "octet_length(last_error)").await, "2048");
    assert_eq!(
        error("odd", "last_error").await,
        "\u{d7ff}\u{10ffff}\u{1}'; DROP TABLE x"
    );
    assert_eq!(error("empty", "last_error = ''").await, "true");
    assert_eq!(
        error("receipt", "left(receipt, 3) || octet_length(receipt)").await,
        "idr2048"
    );
    running.stop().await;
}

/// Blocks its thread, which no time-out can end.
struct Blocking(Duration);

impl Sender for Blocking {
    async fn send(&self, _: &Notification) -> Result<Receipt, SendError> {
        std::thread::sleep(self.0);
        Ok(Receipt::new("late"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_sender_that_blocks_its_thread_past_time_out_and_lease_has_delivered_once() {
    let db = TestDb::new().await;
    let config = ChannelConfig::default().timeout(SHORT);
    let blocking = Blocking(Duration::from_millis(2500));
    let running = Running::start(db.reactor_with(blocking, config).lease(Duration::from_secs(1))).await;
    db.insert("me").await;
    db.becomes("sent=1").await;
    assert_eq!(
        db.value("SELECT attempts || receipt FROM notification_jobs").await,
        "1late"
    );
    running.stop().await;
}

#[tokio::test]
async fn a_failing_channel_does_not_hold_up_another() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let failing = Recording::answering(|_| Err(SendError::retry_after(Duration::from_millis(1), "again")));
    let reactor =
        db.reactor(recording.clone())
            .channel("failing", failing.clone(), ChannelConfig::default().max_in_flight(2));
    let running = Running::start(reactor).await;
    db.psql("INSERT INTO notification_jobs (channel, recipient, max_attempts) SELECT 'failing', n::text, 1000000 FROM generate_series(1, 50) n")
        .await;
    failing.wait_for(200, SOON).await;
    for _ in 0..5 {
        db.insert("me").await;
        let sent = tokio::time::timeout(Duration::from_secs(2), recording.next()).await;
        assert!(sent.is_ok(), "held up");
    }
    running.stop().await;
}

#[tokio::test]
async fn a_sender_that_takes_the_process_down_runs_out_of_attempts() {
    let db = TestDb::new().await;
    db.psql("INSERT INTO notification_jobs (channel, recipient, max_attempts) VALUES ('ops', 'abort', 2)")
        .await;
    for attempt in 1..=2 {
        let child = Child::run("misbehaving_senders::child_whose_sender_aborts", &db);
        assert!(!child.ended().await.success());
        let row = "SELECT attempts || status FROM notification_jobs";
        assert_eq!(db.value(row).await, format!("{attempt}pending"));
        // Its lease ends.
        db.psql("UPDATE notification_jobs SET next_attempt_at = now()").await;
    }
    let recording = Recording::new();
    let running = Running::start(db.reactor(recording.clone())).await;
    db.becomes("failed=1").await;
    let error = db.value("SELECT last_error FROM notification_jobs").await;
    assert!(error.contains("nobody knows how attempt 2 ended"), "{error}");
    assert!(recording.recorded().is_empty());
    running.stop().await;
}

struct Aborting;

impl Sender for Aborting {
    async fn send(&self, _: &Notification) -> Result<Receipt, SendError> {
        std::process::abort()
    }
}

#[tokio::test]
#[ignore = "a child process of another test"]
async fn child_whose_sender_aborts() {
    let database = Database::builder(Child::url()).build().unwrap();
    let reactor = reactor_on(database, Aborting, ChannelConfig::default())
        .build()
        .unwrap();
    let _ = reactor.run(std::future::pending()).await;
}
