//! A session that inserts in all the ways there are.

use std::time::{Duration, Instant};

use tokio_postgres::Client;

use super::dice::Dice;
use super::ledger::Row;
use crate::support::TestDb;

/// Longer than a look reaches back, so that the row is due long before it can be seen; and longer than a reactor waits for
/// silent producers before it arms all the same.
const LONG: Duration = Duration::from_millis(1600);

/// When a row is due, and how long after its insert that is.
const DUE: [(&str, Duration); 5] = [
    ("now()", Duration::ZERO),
    ("now()", Duration::ZERO),
    ("clock_timestamp()", Duration::ZERO),
    ("clock_timestamp() + interval '20 ms'", Duration::from_millis(20)),
    ("timestamptz '2001-01-01'", Duration::ZERO),
];

pub(super) struct Producer {
    client: Client,
    dice: Dice,
    name: u64,
    inserted: u64,
}

impl Producer {
    pub(super) async fn new(db: &TestDb, name: u64, seed: u64) -> Self {
        Producer {
            client: db.client().await,
            dice: Dice::new(seed, name),
            name,
            inserted: 0,
        }
    }

    /// From now on its inserts neither ring nor say that they are at work.
    pub(super) async fn opts_out(self) -> Self {
        self.run("SET doorbell.notify = off").await;
        self
    }

    /// A few transactions of different kinds; answers with what they committed.
    pub(super) async fn round(&mut self) -> Vec<Row> {
        let mut committed = Vec::new();
        self.dice.pause(15).await;
        for _ in 0..=self.dice.below(2) {
            committed.extend(match self.dice.below(9) {
                0..3 => self.statement(1).await,
                3 => self.statement(10).await,
                4..7 => self.transaction(5).await,
                7 => self.transaction(120).await,
                _ => self.rolled_back().await,
            });
        }
        committed
    }

    /// One transaction that takes long, and inserts while the others are at work.
    pub(super) async fn long_round(&mut self) -> Vec<Row> {
        self.begin().await;
        self.dice.pause(60).await;
        let rows = self.insert(1).await;
        tokio::time::sleep(LONG).await;
        self.dice.pause(200).await;
        self.commit(rows).await
    }

    async fn statement(&mut self, count: u64) -> Vec<Row> {
        let asked = Instant::now();
        ready_from(asked, self.insert(count).await)
    }

    /// With pauses, and perhaps a savepoint that is rolled back before or after what stays.
    async fn transaction(&mut self, pause: u64) -> Vec<Row> {
        self.begin().await;
        if self.dice.one_in(2) {
            self.undone_savepoint().await;
        }
        self.dice.pause(pause).await;
        let rows = self.insert(1).await;
        self.dice.pause(pause).await;
        if self.dice.one_in(3) {
            self.undone_savepoint().await;
        }
        self.commit(rows).await
    }

    async fn undone_savepoint(&mut self) {
        self.run("SAVEPOINT s").await;
        self.insert(1).await;
        self.run("ROLLBACK TO s").await;
    }

    async fn rolled_back(&mut self) -> Vec<Row> {
        self.begin().await;
        self.insert(1).await;
        self.dice.pause(5).await;
        self.run("ROLLBACK").await;
        vec![]
    }

    /// At any isolation level, the snapshot taken.
    async fn begin(&mut self) {
        let level = self
            .dice
            .one_of(["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]);
        self.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM pg_class"))
            .await;
    }

    async fn commit(&self, rows: Vec<Row>) -> Vec<Row> {
        let asked = Instant::now();
        self.run("COMMIT").await;
        ready_from(asked, rows)
    }

    /// One statement of so many rows.
    async fn insert(&mut self, count: u64) -> Vec<Row> {
        let first = self.inserted + 1;
        self.inserted += count;
        let (last, name) = (self.inserted, self.name);
        let channel = self.dice.one_of(["ops", "ops", "narrow"]);
        let (due, later) = self.dice.one_of(DUE);
        let ready = Instant::now() + later;
        self.run(&format!(
            "INSERT INTO notification_jobs (channel, recipient, next_attempt_at)
             SELECT '{channel}', '{name}-' || n, {due} FROM generate_series({first}, {last}) AS n"
        ))
        .await;
        let row = |n| Row {
            recipient: format!("{name}-{n}"),
            ready,
        };
        (first..=last).map(row).collect()
    }

    async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap();
    }
}

/// These rows can be seen from then on at the earliest.
fn ready_from(committed: Instant, mut rows: Vec<Row>) -> Vec<Row> {
    for row in &mut rows {
        row.ready = row.ready.max(committed);
    }
    rows
}
