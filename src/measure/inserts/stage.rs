//! The tables, and one cell on them.

use std::time::Duration;

use tokio_postgres::Client as PgClient;
use tokio_postgres::error::SqlState;

use super::ears::Ears;
use super::producers::Producers;
use super::variant::{CHANNEL, Variant};
use super::{Cell, InsertLoad, bulk};
use crate::connect::Database;
use crate::measure::probe::session;
use crate::measure::reactor::Running;
use crate::measure::senders::Work;
use crate::store::{Bell, Store};
use crate::{ChannelConfig, Error, Reactor};

const NOTIFY_TOPIC: &str = "doorbell_bench_inserts";
/// The same columns, defaults, checks and indexes as the queue itself. No autovacuum anywhere: it comes once a minute
/// and would fall on one variant.
const SETUP: &str = r#"
    CREATE TABLE :"schema".silent (LIKE :"schema".notification_jobs INCLUDING ALL);
    CREATE TABLE :"schema".triggered (LIKE :"schema".notification_jobs INCLUDING ALL);
    CREATE FUNCTION :"schema".triggered() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
    CREATE TRIGGER triggered AFTER INSERT ON :"schema".triggered
        FOR EACH STATEMENT EXECUTE FUNCTION :"schema".triggered();
    CREATE TABLE :"schema".notifying (LIKE :"schema".notification_jobs INCLUDING ALL);
    CREATE FUNCTION :"schema".notifying() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_catalog.pg_notify(TG_ARGV[0], ''''); RETURN NULL; END';
    CREATE TRIGGER notifying AFTER INSERT ON :"schema".notifying
        FOR EACH STATEMENT EXECUTE FUNCTION :"schema".notifying('doorbell_bench_inserts');
    ALTER TABLE :"schema".silent SET (autovacuum_enabled = off);
    ALTER TABLE :"schema".triggered SET (autovacuum_enabled = off);
    ALTER TABLE :"schema".notifying SET (autovacuum_enabled = off);
    ALTER TABLE :"schema".notification_jobs SET (autovacuum_enabled = off)"#;
const COMMIT_DELAY: &str = "SELECT pg_catalog.current_setting('commit_delay')::int";
const CLEAR: &str =
    r#"TRUNCATE :"schema".silent, :"schema".triggered, :"schema".notifying, :"schema".notification_jobs"#;

/// Longer than any measurement.
const NEVER: Duration = Duration::from_secs(86_400);

pub(super) struct Stage {
    database: Database,
    /// For what has to be done between cells.
    hand: PgClient,
    bell: Bell,
    /// How much longer each commit takes, by the session's own setting.
    pub(super) commit_delay_us: u32,
}

impl Stage {
    pub(super) async fn build(database: &Database) -> Result<Self, Error> {
        let hand = session(database).await?;
        hand.batch_execute(&database.schema().render(SETUP)).await?;
        let delay = hand.query_one(COMMIT_DELAY, &[]).await?.try_get::<_, i32>(0)?;
        Ok(Stage {
            hand,
            commit_delay_us: delay.unsigned_abs(),
            bell: Store::new(database.clone()).bell().await?,
            database: database.clone(),
        })
    }

    pub(super) async fn cell(&self, variant: Variant, load: &InsertLoad) -> Result<Cell, Error> {
        self.clear().await?;
        self.hang_bell(variant.has_bell()).await?;
        let ears = self.listen(variant).await?;
        let producers = Producers::connect(&self.database, &self.insert(variant), load.clients).await?;
        let reactors = self.start_reactors(variant).await?;
        let inserted = producers.insert(load.window).await?;
        // Before the reactors end, since the last thing that they do is to ring.
        let rang = ears.heard().await?;
        for reactor in reactors {
            reactor.stop().await?;
        }
        Ok(Cell {
            rate: inserted.in_window as f64 / load.window.as_secs_f64(),
            rang_share: rang as f64 / inserted.in_all as f64,
        })
    }

    /// The time in milliseconds that the bell takes of one INSERT of 100,000 rows, with nobody there.
    pub(super) async fn bulk_trigger_ms(&self) -> Result<f64, Error> {
        self.clear().await?;
        self.hang_bell(true).await?;
        bulk::trigger_ms(&self.hand, self.database.schema()).await
    }

    /// Leaves tables of no size, and no timed checkpoint that could begin within the next minutes.
    async fn clear(&self) -> Result<(), Error> {
        self.execute(CLEAR).await?;
        match self.hand.batch_execute("CHECKPOINT").await {
            // Only some roles may. The changing order of the rounds has to do then.
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Ok(()),
            made => Ok(made?),
        }
    }

    async fn hang_bell(&self, hung: bool) -> Result<(), Error> {
        let what = if hung { "ENABLE" } else { "DISABLE" };
        let sql = format!(r#"ALTER TABLE :"schema".notification_jobs {what} TRIGGER USER"#);
        self.execute(&sql).await
    }

    async fn listen(&self, variant: Variant) -> Result<Ears, Error> {
        match variant {
            Variant::Notify => Ears::open(&self.database, NOTIFY_TOPIC).await,
            Variant::Asleep => Ears::asleep(&self.database, &self.bell).await,
            _ => Ears::open(&self.database, &self.bell.topic).await,
        }
    }

    /// Returns when all of them listen.
    async fn start_reactors(&self, variant: Variant) -> Result<Vec<Running>, Error> {
        let mut reactors = Vec::new();
        for &(channel, work) in variant.reactors() {
            let config = ChannelConfig::default().max_in_flight(slots(work)).timeout(NEVER);
            let reactor = Reactor::builder(self.database.clone())
                .channel(channel, work, config)
                .scan_interval(variant.scan_interval())
                .shutdown_grace(Duration::ZERO);
            reactors.push(Running::start(reactor).await?);
        }
        Ok(reactors)
    }

    fn insert(&self, variant: Variant) -> String {
        let table = variant.table();
        self.database.schema().render(&format!(
            r#"INSERT INTO :"schema".{table} (channel, recipient, payload)
               VALUES ('{CHANNEL}', 'ops@example.org', '{{"text": "disk almost full", "host": "db-1"}}')"#
        ))
    }

    async fn execute(&self, sql: &str) -> Result<(), Error> {
        Ok(self.hand.batch_execute(&self.database.schema().render(sql)).await?)
    }
}

/// So many that a reactor which sends at once is never without a free one, or so few that the other never has one.
fn slots(work: Work) -> u32 {
    match work {
        Work::AtOnce => 1000,
        Work::Never => 1,
    }
}
