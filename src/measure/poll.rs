//! The way without a bell: a dispatcher that looks at an interval.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tokio_postgres::{Client as PgClient, Statement};

use super::probe::{Arrival, Probe, Receiver, session};
use crate::Error;
use crate::connect::Database;

const SETUP: &str = r#"
    CREATE TABLE :"schema".polled (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        recipient text NOT NULL,
        status text NOT NULL DEFAULT 'pending',
        next_attempt_at timestamptz NOT NULL DEFAULT clock_timestamp()
    );
    CREATE INDEX polled_due ON :"schema".polled (next_attempt_at) WHERE status = 'pending'"#;
const INSERT: &str = r#"INSERT INTO :"schema".polled (recipient) VALUES ($1)"#;
const CLAIM: &str = r#"
    UPDATE :"schema".polled SET status = 'sent'
    WHERE id IN (
        SELECT id FROM :"schema".polled
        WHERE status = 'pending' AND next_attempt_at <= clock_timestamp()
        ORDER BY next_attempt_at LIMIT 16 FOR UPDATE SKIP LOCKED
    )
    RETURNING recipient"#;

impl Probe {
    /// From just before an INSERT into a small queue until a claim, made every `pace` on a connection of its own, has
    /// come back with the row.
    ///
    /// # Errors
    ///
    /// The server's.
    pub async fn poll(database: &Database, pace: Duration) -> Result<Self, Error> {
        let dispatcher = session(database).await?;
        dispatcher.batch_execute(&database.schema().render(SETUP)).await?;
        let claim = dispatcher.prepare(&database.schema().render(CLAIM)).await?;
        let (claimed, arrivals) = mpsc::unbounded_channel();
        let receiver = Receiver::Task(tokio::spawn(async move {
            if let Err(error) = look_and_look(&dispatcher, &claim, pace, &claimed).await {
                tracing::error!(error = %error.chain(), "the measured dispatcher ended");
            }
        }));
        Probe::new(database, &database.schema().render(INSERT), None, arrivals, receiver).await
    }
}

/// Until the probe is.
async fn look_and_look(
    dispatcher: &PgClient,
    claim: &Statement,
    pace: Duration,
    claimed: &mpsc::UnboundedSender<Arrival>,
) -> Result<(), Error> {
    let mut ticks = interval(pace);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let rows = dispatcher.query(claim, &[]).await?;
        let at = Instant::now();
        for row in rows {
            if claimed.send((row.try_get(0)?, at)).is_err() {
                return Ok(());
            }
        }
    }
}
