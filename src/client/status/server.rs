//! The server that the queue is on.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tokio_postgres::Row;

use super::{count, seconds};
use crate::generic_client::Session;
use crate::{Error, Queue};

/// The server that the queue is on, and what else happens there.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerStatus {
    /// Its version in words.
    pub version: String,
    /// Its version as a number: 150008 is 15.8.
    pub version_number: i32,
    /// The database's, such as `UTF8`. With `SQL_ASCII` a row may hold bytes that are no text to us, and cannot be sent.
    pub encoding: String,
    /// A standby: it only reads, and reactors wait.
    pub standby: bool,
    /// How far its clock is ahead of this machine's, in seconds. Negative: behind. Doorbell goes by the server's alone.
    pub clock_offset_seconds: f64,
    /// Connections of clients to any database, at this moment.
    pub connections: u64,
    /// How many of them ordinary roles may have.
    pub max_connections: u64,
    /// Whether our role sees what the sessions of others do. If not, the two fields that follow know of its own alone.
    pub sees_others: bool,
    /// For how many transactions dead rows of this database have had to be kept, for whoever may still see them. `None`:
    /// nobody is known who may.
    pub oldest_xmin_age: Option<u64>,
    /// The transaction of this database that has been open for longest. `None`: none is known.
    pub longest_transaction: Option<OpenTransaction>,
}

/// A transaction that is open.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OpenTransaction {
    /// Its backend. `None`: it is prepared, and has none.
    pub pid: Option<i32>,
    /// Its `application_name`, or its identifier where it is prepared.
    pub name: String,
    /// `active`, `idle in transaction`, `prepared`, …
    pub state: String,
    /// For how long.
    pub open: Duration,
}

impl Queue {
    pub(super) async fn server(&self, session: Session<'_>) -> Result<ServerStatus, Error> {
        let statements = self.statements();
        let server = self.query_one(session, &statements.status_server, &[]).await?;
        let open = self.query(session, &statements.status_transaction, &[]).await?;
        Ok(ServerStatus {
            version: server.try_get("version")?,
            version_number: server.try_get("version_number")?,
            encoding: server.try_get("encoding")?,
            standby: server.try_get("standby")?,
            clock_offset_seconds: self.clock_offset(session).await?,
            connections: count(&server, "connections")?,
            max_connections: count(&server, "max_connections")?,
            sees_others: server.try_get("sees_others")?,
            oldest_xmin_age: server
                .try_get::<_, Option<i64>>("oldest_xmin_age")?
                .map(i64::unsigned_abs),
            longest_transaction: open.first().map(OpenTransaction::from_row).transpose()?,
        })
    }

    /// The server is taken to have read its clock halfway between question and answer.
    async fn clock_offset(&self, session: Session<'_>) -> Result<f64, Error> {
        let asked = now();
        let row = self.query_one(session, &self.statements().status_clock, &[]).await?;
        let answered = now();
        let server: f64 = row.try_get("epoch")?;
        Ok(server - f64::midpoint(asked, answered))
    }
}

/// Seconds since 1970, as this machine has it.
fn now() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

impl ServerStatus {
    pub(super) fn json(&self) -> Value {
        json!({
            "version": self.version,
            "encoding": self.encoding,
            "standby": self.standby,
            "clock_offset_seconds": self.clock_offset_seconds,
            "connections": self.connections,
            "max_connections": self.max_connections,
            "sees_others": self.sees_others,
            "oldest_xmin_age": self.oldest_xmin_age,
            "longest_transaction": self.longest_transaction.as_ref().map(OpenTransaction::json),
        })
    }
}

impl OpenTransaction {
    fn from_row(row: &Row) -> Result<Self, Error> {
        Ok(OpenTransaction {
            pid: row.try_get("pid")?,
            name: row.try_get("name")?,
            state: row.try_get("state")?,
            open: seconds(row, "seconds")?.unwrap_or_default(),
        })
    }

    fn json(&self) -> Value {
        json!({
            "pid": self.pid,
            "name": self.name,
            "state": self.state,
            "open_seconds": self.open.as_secs_f64(),
        })
    }
}
