//! A program that inserts rows and knows nothing of the reactor.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool_postgres::Client;
use tokio::time::{interval, sleep};

use super::CHANNEL;
use super::clocks::Clocks;
use super::ledger::Ledger;
use super::report::{self, Summary};
use super::stage::Stage;
use crate::failure::Failure;
use crate::signals::Stop;
use crate::target::quoted;

/// How long the last rows may take.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Producer {
    client: Client,
    clocks: Clocks,
    table: String,
    ledger: Arc<Ledger>,
}

impl Producer {
    pub(super) async fn new(stage: &Stage, ledger: Arc<Ledger>) -> Result<Self, Failure> {
        let client = stage.database("doorbell demo producer")?.client().await?;
        Ok(Producer {
            clocks: Clocks::compare(&client).await?,
            client,
            table: format!("{}.notification_jobs", quoted(stage.schema())),
            ledger,
        })
    }

    /// Inserts every row of the ledger, so many a second, and reports once a second. A signal ends it early.
    pub(super) async fn insert_all(&self, rate: u32, mut stop: Stop) -> Result<(), Failure> {
        report::heading(self.ledger.rows(), rate);
        let mut ticks = interval(Duration::from_secs(1) / rate);
        let mut reported = 0;
        for row in 0..self.ledger.rows() {
            tokio::select! {
                _ = ticks.tick() => self.insert(row).await?,
                _ = stop.asked() => break,
            }
            let inserted = row + 1;
            if inserted % rate as usize == 0 || inserted == self.ledger.rows() {
                self.report(reported..inserted).await?;
                reported = inserted;
            }
        }
        Ok(())
    }

    async fn insert(&self, row: usize) -> Result<(), Failure> {
        let insert = format!(
            "INSERT INTO {} (channel, recipient, payload) VALUES ('{CHANNEL}', '{row}', '{{\"text\": \"hello\"}}')",
            self.table
        );
        self.ledger.begin(row);
        self.client.batch_execute(&insert).await?;
        self.ledger.commit(row);
        Ok(())
    }

    async fn report(&self, rows: Range<usize>) -> Result<(), Failure> {
        self.wait_until_settled().await?;
        self.note_settled(rows.len()).await?;
        report::progress(&self.ledger, rows);
        Ok(())
    }

    /// Waits until nothing is pending, but no longer than [`PATIENCE`].
    async fn wait_until_settled(&self) -> Result<(), Failure> {
        let pending = format!("SELECT FROM {} WHERE status = 'pending' LIMIT 1", self.table);
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline && !self.client.query_typed(&pending, &[]).await?.is_empty() {
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Makes entries for the newest rows, so many: when their outcome was written.
    async fn note_settled(&self, newest: usize) -> Result<(), Failure> {
        let sql = format!(
            "SELECT recipient, date_part('epoch', sent_at)::float8
             FROM (SELECT recipient, sent_at FROM {} ORDER BY id DESC LIMIT {newest}) AS newest
             WHERE sent_at IS NOT NULL",
            self.table
        );
        for row in self.client.query_typed(&sql, &[]).await? {
            self.ledger.settle(row.try_get(0)?, self.clocks.ours(row.try_get(1)?));
        }
        Ok(())
    }

    pub(super) async fn wait_and_sum_up(&self) -> Result<Summary, Failure> {
        self.wait_until_settled().await?;
        let sql = format!(
            "SELECT count(*) FILTER (WHERE status = 'sent'), count(*) FILTER (WHERE status = 'failed') FROM {}",
            self.table
        );
        let counts = self.client.query_typed_one(&sql, &[]).await?;
        let count = |column| Ok::<u64, Failure>(counts.try_get::<_, i64>(column)?.unsigned_abs());
        self.note_settled(self.ledger.rows()).await?;
        Summary::new(&self.ledger, count(0)?, count(1)?)
    }
}
