//! The state of the queue: what it holds, its reactors, its bell, and what surrounds it.

use std::time::Duration;

use serde_json::json;
use tokio_postgres::Row;
use uuid::Uuid;

use super::Queue;
use crate::{Error, GenericClient, Migrator};

mod bell;
mod channel;
mod reactor;
mod role;
mod server;
mod table;

pub use bell::{BellStatus, InFlight};
pub use channel::ChannelStatus;
pub use reactor::{ReactorMode, ReactorStatus};
pub use role::{ProducerStatus, RoleStatus};
pub use server::{OpenTransaction, ServerStatus};
pub use table::{TableStatus, TriggerState};

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
    /// The table of notifications.
    pub table: TableStatus,
    /// The server.
    pub server: ServerStatus,
}

/// What surrounds the queue, read by [`Queue::surroundings`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Surroundings {
    /// The server.
    pub server: ServerStatus,
    /// The role that we are.
    pub role: RoleStatus,
    /// The table of notifications. `None`: there is none.
    pub table: Option<TableStatus>,
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
        let reactors = self.reactors(session).await?;
        let lost = reactors.iter().filter(|reactor| reactor.is_lost());
        let lost: Vec<Uuid> = lost.map(|reactor| reactor.id).collect();
        let channels = self.channels(session, &lost).await?;
        let table = self.table(session).await?;
        Ok(QueueStatus {
            schema: self.0.schema.name().to_owned(),
            schema_version: applied.map(|step| step.version).max().unwrap_or_default(),
            channels,
            reactors,
            bell: self.bell(session).await?,
            table: table.ok_or_else(|| Error::schema("the table was dropped a moment ago"))?,
            server: self.server(session).await?,
        })
    }

    /// Reads what surrounds the queue. Needs no right on the schema or its tables, which may be missing, and does not count
    /// rows. Runs several statements.
    ///
    /// # Errors
    ///
    /// The database's own.
    pub async fn surroundings(&self, client: &impl GenericClient) -> Result<Surroundings, Error> {
        let session = client.session();
        Ok(Surroundings {
            server: self.server(session).await?,
            role: self.role(session).await?,
            table: self.table(session).await?,
        })
    }
}

impl QueueStatus {
    /// Due notifications of channels that no live reactor serves.
    pub fn unserved_due(&self) -> u64 {
        let unserved = self.channels.iter().filter(|channel| !channel.served);
        unserved.map(|channel| channel.due).sum()
    }

    /// Notifications that reactors hold which are [lost](ReactorStatus::is_lost).
    pub fn claimed_by_lost(&self) -> u64 {
        self.channels.iter().map(|channel| channel.claimed_by_lost).sum()
    }

    /// One JSON object. Durations are seconds, with a fraction.
    pub fn to_json(&self) -> String {
        json!({
            "schema": self.schema,
            "schema_version": self.schema_version,
            "channels": self.channels.iter().map(ChannelStatus::json).collect::<Vec<_>>(),
            "unserved_due": self.unserved_due(),
            "claimed_by_lost": self.claimed_by_lost(),
            "reactors": self.reactors.iter().map(ReactorStatus::json).collect::<Vec<_>>(),
            "bell": self.bell.json(&self.table),
            "table": self.table.json(),
            "server": self.server.json(),
        })
        .to_string()
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
