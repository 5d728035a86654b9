//! A backlog, emptied by a reactor and by the server alone.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_postgres::{Client as PgClient, Statement};

use super::probe::{Arrival, in_time, session};
use super::reactor::Running;
use super::senders::Gong;
use crate::connect::Database;
use crate::store::Store;
use crate::{ChannelConfig, Error, Reactor};

const LIMIT: &str = include_str!("limit.sql");
/// How many rows the limit takes at once.
const LIMIT_BATCH: i32 = 500;
const FILL: &str = r#"
    INSERT INTO :"schema".notification_jobs (channel, recipient, payload)
    SELECT 'bench', 'user-' || n || '@example.org', jsonb_build_object('n', n) FROM generate_series(1, $1::bigint) AS n"#;
const UNFINISHED: &str = r#"SELECT EXISTS (SELECT FROM :"schema".notification_jobs WHERE status = 'pending')"#;

/// Far enough away that the ring alone wakes the reactor.
const SCAN_INTERVAL: Duration = Duration::from_secs(3600);
/// How long a reactor may do nothing before the measurement is given up.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at whether the last rows are settled.
const PACE: Duration = Duration::from_millis(1);

/// A table full of due rows, and a reactor of this process that listens and is asleep until it is to empty it.
pub struct Drain {
    database: Database,
    jobs: NonZeroU32,
    client: PgClient,
    fill: Statement,
    unfinished: Statement,
    sends: mpsc::UnboundedReceiver<Arrival>,
    _reactor: Running,
}

/// How fast one backlog was emptied, in rows a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrainRound {
    /// By a reactor, from the ring that wakes it until the last row is settled.
    pub jobs_per_s: f64,
    /// By a procedure in the server.
    pub limit_per_s: f64,
}

impl DrainRound {
    /// The reactor's share of what the server can do.
    pub fn ratio(&self) -> f64 {
        self.jobs_per_s / self.limit_per_s
    }
}

impl Drain {
    /// Starts a reactor that sends at most `max_in_flight` rows at once, with a sender that does nothing. The database is
    /// a [`Scratch`](super::Scratch): rows that are there are removed.
    ///
    /// # Errors
    ///
    /// The server's; [`Error::is_config`]: `max_in_flight` is out of range; [`Error::is_connection`]: the reactor cannot
    /// listen.
    pub async fn new(database: &Database, jobs: NonZeroU32, max_in_flight: u32) -> Result<Self, Error> {
        let client = session(database).await?;
        let render = |sql| database.schema().render(sql);
        client.batch_execute(&render(LIMIT)).await?;
        // Nobody is to be told of the rows before all of them are there.
        client.batch_execute("SET doorbell.notify = 'off'").await?;
        let (gong, sends) = Gong::taking(Duration::ZERO);
        let channel = ChannelConfig::default().max_in_flight(max_in_flight);
        let reactor = Reactor::builder(database.clone())
            .channel("bench", gong, channel)
            .scan_interval(SCAN_INTERVAL);
        Ok(Drain {
            fill: client.prepare(&render(FILL)).await?,
            unfinished: client.prepare(&render(UNFINISHED)).await?,
            _reactor: Running::start(reactor).await?,
            database: database.clone(),
            jobs,
            client,
            sends,
        })
    }

    /// Empties the same backlog twice: by the server alone, and by the reactor.
    ///
    /// # Errors
    ///
    /// The server's, or [`Error::is_timeout`]: the reactor did nothing for 30 s.
    pub async fn round(&mut self) -> Result<DrainRound, Error> {
        let limit = self.time_limit().await?;
        let reactor = self.time_reactor().await?;
        let jobs = f64::from(self.jobs.get());
        Ok(DrainRound {
            jobs_per_s: jobs / reactor.as_secs_f64(),
            limit_per_s: jobs / limit.as_secs_f64(),
        })
    }

    async fn time_limit(&self) -> Result<Duration, Error> {
        self.refill().await?;
        let begun = Instant::now();
        let call = format!(r#"CALL :"schema".drain_limit({LIMIT_BATCH})"#);
        self.run(&call).await?;
        Ok(begun.elapsed())
    }

    async fn time_reactor(&mut self) -> Result<Duration, Error> {
        self.refill().await?;
        let begun = Instant::now();
        Store::new(self.database.clone()).ring().await?;
        for _ in 0..self.jobs.get() {
            in_time(PATIENCE, "the reactor sent no row", self.sent()).await?;
        }
        in_time(PATIENCE, "the reactor did not settle the last rows", self.finished()).await?;
        Ok(begun.elapsed())
    }

    async fn sent(&mut self) -> Result<(), Error> {
        let sent = self.sends.recv().await;
        sent.map(drop)
            .ok_or_else(|| Error::connection("the measured reactor ended by itself"))
    }

    async fn finished(&self) -> Result<(), Error> {
        while self.client.query_one(&self.unfinished, &[]).await?.try_get(0)? {
            tokio::time::sleep(PACE).await;
        }
        Ok(())
    }

    /// The backlog, with nothing left to be done about it: neither dead rows, nor statistics that speak of another table.
    async fn refill(&self) -> Result<(), Error> {
        self.run(r#"TRUNCATE :"schema".notification_jobs"#).await?;
        self.client.execute(&self.fill, &[&i64::from(self.jobs.get())]).await?;
        self.run(r#"VACUUM (ANALYZE) :"schema".notification_jobs"#).await
    }

    async fn run(&self, sql: &str) -> Result<(), Error> {
        Ok(self.client.batch_execute(&self.database.schema().render(sql)).await?)
    }
}
