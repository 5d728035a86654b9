//! Producers, reactors and faults at random, in rounds: each round must be over before the next begins, so that a lost
//! wake-up is not healed by the next ring. The safety scan is far away.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use doorbell::{ChannelConfig, Notification, Receipt, SendError, Sender};
use tokio::sync::watch;
use tokio_postgres::Client;

use crate::support::{Running, TestDb};

const PRODUCERS: u64 = 6;
const DURATION: Duration = Duration::from_secs(10);
/// The longest that a committed row may wait: milliseconds, really, but test machines are busy.
const PATIENCE: Duration = Duration::from_secs(5);

/// Random enough, and repeatable (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    async fn pause(&mut self, up_to_ms: u64) {
        tokio::time::sleep(Duration::from_micros(self.below(up_to_ms * 1000 + 1))).await;
    }
}

/// Counts the sends of each recipient; takes a moment now and then.
#[derive(Clone, Default)]
struct Tally(watch::Sender<HashMap<String, u32>>);

impl Sender for Tally {
    async fn send(&self, notification: &Notification) -> Result<Receipt, SendError> {
        let moment = u64::from(notification.id().as_bytes()[15] % 4);
        tokio::time::sleep(Duration::from_millis(moment)).await;
        self.0
            .send_modify(|sent| *sent.entry(notification.recipient().to_owned()).or_default() += 1);
        Ok(Receipt::none())
    }
}

struct Producer {
    client: Client,
    dice: Dice,
    name: u64,
    inserted: u64,
}

impl Producer {
    async fn new(db: &TestDb, name: u64, seed: u64) -> Self {
        Producer {
            client: db.client().await,
            dice: Dice(seed ^ (name + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            name,
            inserted: 0,
        }
    }

    /// A few transactions of different kinds; answers with what it committed.
    async fn round(&mut self) -> Vec<String> {
        let mut committed = Vec::new();
        self.dice.pause(15).await;
        for _ in 0..=self.dice.below(2) {
            match self.dice.below(8) {
                0..3 => committed.push(self.insert().await),
                3..6 => self.transaction(&mut committed, 5).await,
                6 => self.transaction(&mut committed, 120).await,
                _ => self.rolled_back().await,
            }
        }
        committed
    }

    async fn insert(&mut self) -> String {
        self.inserted += 1;
        let recipient = format!("{}-{}", self.name, self.inserted);
        let due = ["now()", "now()", "clock_timestamp() + interval '20 ms'"][self.dice.below(3) as usize];
        self.run(&format!(
            "INSERT INTO notification_jobs (channel, recipient, next_attempt_at) VALUES ('ops', '{recipient}', {due})"
        ))
        .await;
        recipient
    }

    /// Any isolation level, with pauses, perhaps a savepoint that is rolled back before or after what stays.
    async fn transaction(&mut self, committed: &mut Vec<String>, pause: u64) {
        let level = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"][self.dice.below(3) as usize];
        self.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM pg_class"))
            .await;
        if self.dice.below(2) == 0 {
            self.undone_savepoint().await;
        }
        self.dice.pause(pause).await;
        let recipient = self.insert().await;
        self.dice.pause(pause).await;
        if self.dice.below(3) == 0 {
            self.undone_savepoint().await;
        }
        self.run("COMMIT").await;
        committed.push(recipient);
    }

    async fn undone_savepoint(&mut self) {
        self.run("SAVEPOINT s").await;
        self.insert().await;
        self.run("ROLLBACK TO s").await;
    }

    async fn rolled_back(&mut self) {
        self.run("BEGIN").await;
        self.insert().await;
        self.dice.pause(5).await;
        self.run("ROLLBACK").await;
    }

    async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap();
    }
}

/// Runs rounds until the time is over; answers with how many rows were committed.
async fn rounds(db: &TestDb, tally: &Tally, cut_listeners: bool) -> usize {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64 | 1;
    eprintln!("seed {seed}");
    let mut producers = Vec::new();
    for name in 0..PRODUCERS {
        let name = name + PRODUCERS * u64::from(cut_listeners);
        producers.push(Producer::new(db, name, seed).await);
    }
    let (begun, mut dice, mut rows, mut longest) = (Instant::now(), Dice(seed), 0, Duration::ZERO);
    let mut sent = tally.0.subscribe();
    while begun.elapsed() < DURATION / 2 {
        let cut = async {
            if cut_listeners && dice.below(10) == 0 {
                dice.pause(30).await;
                db.terminate_backends("%listener%").await;
            }
        };
        let all = futures::future::join_all(producers.iter_mut().map(Producer::round));
        let (committed, ()) = futures::join!(all, cut);
        let (committed, ended) = (committed.concat(), Instant::now());
        let all_sent = sent.wait_for(|sent| committed.iter().all(|row| sent.contains_key(row)));
        let waited = tokio::time::timeout(PATIENCE, all_sent).await;
        assert!(waited.is_ok(), "a row waited longer than {PATIENCE:?} (seed {seed})");
        drop(waited);
        longest = longest.max(ended.elapsed());
        rows += committed.len();
        // Across the moment in which the reactors go to sleep.
        dice.pause(25).await;
    }
    eprintln!("{rows} rows, none waited longer than {longest:?}");
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_committed_row_is_sent_once_and_soon_whatever_producers_and_listeners_do() {
    let (db, tally) = (TestDb::new().await, Tally::default());
    let narrow = ChannelConfig::default().max_in_flight(2);
    let one = Running::start(db.reactor_with(tally.clone(), narrow)).await;
    let other = Running::start(db.reactor(tally.clone())).await;
    let rows = rounds(&db, &tally, false).await + rounds(&db, &tally, true).await;
    db.becomes(&format!("sent={rows}")).await;
    let sent = tally.0.borrow().clone();
    assert_eq!(sent.len(), rows, "nothing that was rolled back");
    assert!(sent.values().all(|count| *count == 1), "nothing twice");
    assert_eq!(db.value("SELECT max(attempts) FROM notification_jobs").await, "1");
    one.stop().await;
    other.stop().await;
}
