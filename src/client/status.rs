//! The state of the queue, its reactors and its bell.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Queue;
use crate::generic_client::Session;
use crate::{Error, GenericClient, Migrator};

/// The state of a queue, read by [`Queue::status`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct QueueStatus {
    /// The schema's name.
    pub schema: String,
    /// The newest migration that has been applied.
    pub schema_version: i32,
    /// A line for each channel that has notifications, by name.
    pub channels: Vec<ChannelStatus>,
    /// A line for each reactor that is listed, the oldest first.
    pub reactors: Vec<ReactorStatus>,
    /// The bell.
    pub bell: BellStatus,
}

/// What one channel holds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ChannelStatus {
    /// Its name.
    pub channel: String,
    /// Waiting, due or being sent.
    pub pending: u64,
    /// Delivered.
    pub sent: u64,
    /// Given up.
    pub failed: u64,
    /// Too late.
    pub expired: u64,
    /// Withdrawn.
    pub cancelled: u64,
    /// Of the pending ones: those that a reactor holds.
    pub claimed: u64,
    /// Of the pending ones: those whose time has come.
    pub due: u64,
    /// For how long the longest of these has been due. `None`: nothing is due.
    pub oldest_due: Option<Duration>,
    /// Whether a live reactor serves the channel.
    pub served: bool,
}

/// One line of `notification_reactors`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReactorStatus {
    /// The instance.
    pub id: Uuid,
    /// Where it runs.
    pub host: String,
    /// The version of the program.
    pub version: String,
    /// What it serves.
    pub channels: Vec<String>,
    /// How long ago it started.
    pub started_ago: Duration,
    /// How long ago it last gave a sign of life.
    pub seen_ago: Duration,
    /// Found dead by another reactor; its rows are being rescued.
    pub dead: bool,
    /// Not dead, and seen within its lease or 30 s, whichever is longer.
    pub live: bool,
}

/// The state of the bell.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BellStatus {
    /// So many reactors sleep, so inserts ring. 0: they are silent.
    pub asleep: u64,
    /// The transactions that have inserted silently and have not ended, the oldest first, at most 100: no reactor goes
    /// to sleep before they end.
    pub in_flight: Vec<InFlight>,
    /// How full the server's notification queue is, from 0 to 1.
    pub queue_usage: f64,
    /// Whether both triggers are there and enabled. Without them the safety scan finds the rows, later.
    pub triggers: bool,
}

/// A transaction that keeps reactors from sleeping.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InFlight {
    /// Its backend.
    pub pid: i32,
    /// Its `application_name`.
    pub application: String,
    /// `idle in transaction`, for instance. `None`: our role may not see it.
    pub state: Option<String>,
    /// How long it has been open. `None`: our role may not see it.
    pub open: Option<Duration>,
}

impl Queue {
    /// Reads the state of the queue. Counting is a scan of the whole table: a matter of seconds where it has millions of
    /// rows. Runs several statements, so the parts may be a moment apart.
    ///
    /// # Errors
    ///
    /// [`is_schema`](Error::is_schema): the tables are not there or too old. Otherwise the database's own.
    pub async fn status(&self, client: &impl GenericClient) -> Result<QueueStatus, Error> {
        let migrator = Migrator::new(self.0.schema.name())?;
        migrator.check(client).await?;
        let applied = migrator
            .status(client)
            .await?
            .into_iter()
            .filter(|step| step.applied_at.is_some());
        let session = client.session();
        let channels = self.query(session, &self.statements().status_counts, &[]).await?;
        let reactors = self.query(session, &self.statements().status_reactors, &[]).await?;
        Ok(QueueStatus {
            schema: self.0.schema.name().to_owned(),
            schema_version: applied.map(|step| step.version).max().unwrap_or_default(),
            channels: channels.iter().map(ChannelStatus::from_row).collect::<Result<_, _>>()?,
            reactors: reactors.iter().map(ReactorStatus::from_row).collect::<Result<_, _>>()?,
            bell: self.bell_status(session).await?,
        })
    }

    async fn bell_status(&self, session: Session<'_>) -> Result<BellStatus, Error> {
        let schema = (&self.0.schema.name() as _, Type::TEXT);
        let bell = self
            .query_one(session, &self.statements().status_bell, &[schema])
            .await?;
        let in_flight = self.query(session, &self.statements().status_in_flight, &[]).await?;
        Ok(BellStatus {
            asleep: count(&bell, "asleep")?,
            in_flight: in_flight.iter().map(InFlight::from_row).collect::<Result<_, _>>()?,
            queue_usage: bell.try_get("queue_usage")?,
            triggers: bell.try_get("triggers")?,
        })
    }
}

impl QueueStatus {
    /// Due notifications of channels that no live reactor serves.
    pub fn unserved_due(&self) -> u64 {
        let unserved = self.channels.iter().filter(|channel| !channel.served);
        unserved.map(|channel| channel.due).sum()
    }

    /// One JSON object. Durations are seconds, with a fraction.
    pub fn to_json(&self) -> String {
        json!({
            "schema": self.schema,
            "schema_version": self.schema_version,
            "channels": self.channels.iter().map(ChannelStatus::json).collect::<Vec<_>>(),
            "unserved_due": self.unserved_due(),
            "reactors": self.reactors.iter().map(ReactorStatus::json).collect::<Vec<_>>(),
            "bell": {
                "asleep": self.bell.asleep,
                "in_flight": self.bell.in_flight.iter().map(InFlight::json).collect::<Vec<_>>(),
                "queue_usage": self.bell.queue_usage,
                "triggers": self.bell.triggers,
            },
        })
        .to_string()
    }
}

impl ChannelStatus {
    fn from_row(row: &Row) -> Result<Self, Error> {
        Ok(ChannelStatus {
            channel: row.try_get("channel")?,
            pending: count(row, "pending")?,
            sent: count(row, "sent")?,
            failed: count(row, "failed")?,
            expired: count(row, "expired")?,
            cancelled: count(row, "cancelled")?,
            claimed: count(row, "claimed")?,
            due: count(row, "due")?,
            oldest_due: seconds(row, "oldest_due_seconds")?,
            served: row.try_get("served")?,
        })
    }

    fn json(&self) -> Value {
        json!({
            "channel": self.channel,
            "pending": self.pending,
            "sent": self.sent,
            "failed": self.failed,
            "expired": self.expired,
            "cancelled": self.cancelled,
            "claimed": self.claimed,
            "due": self.due,
            "oldest_due_seconds": self.oldest_due.map(|age| age.as_secs_f64()),
            "served": self.served,
        })
    }
}

impl ReactorStatus {
    fn from_row(row: &Row) -> Result<Self, Error> {
        Ok(ReactorStatus {
            id: row.try_get("id")?,
            host: row.try_get("host")?,
            version: row.try_get("version")?,
            channels: row.try_get("channels")?,
            started_ago: seconds(row, "started_seconds_ago")?.unwrap_or_default(),
            seen_ago: seconds(row, "seen_seconds_ago")?.unwrap_or_default(),
            dead: row.try_get("dead")?,
            live: row.try_get("live")?,
        })
    }

    fn json(&self) -> Value {
        json!({
            "id": self.id.to_string(),
            "host": self.host,
            "version": self.version,
            "channels": self.channels,
            "started_seconds_ago": self.started_ago.as_secs_f64(),
            "seen_seconds_ago": self.seen_ago.as_secs_f64(),
            "dead": self.dead,
            "live": self.live,
        })
    }
}

impl InFlight {
    fn from_row(row: &Row) -> Result<Self, Error> {
        Ok(InFlight {
            pid: row.try_get("pid")?,
            application: row.try_get("application")?,
            state: row.try_get("state")?,
            open: seconds(row, "seconds")?,
        })
    }

    fn json(&self) -> Value {
        json!({
            "pid": self.pid,
            "application": self.application,
            "state": self.state,
            "open_seconds": self.open.map(|open| open.as_secs_f64()),
        })
    }
}

fn count(row: &Row, column: &str) -> Result<u64, Error> {
    let count: i64 = row.try_get(column)?;
    Ok(count.unsigned_abs())
}

/// Clocks that were set back make negative ages: zero, then.
fn seconds(row: &Row, column: &str) -> Result<Option<Duration>, Error> {
    let seconds: Option<f64> = row.try_get(column)?;
    Ok(seconds.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default()))
}
