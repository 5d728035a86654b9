//! The state of the bell.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_postgres::Row;

use super::{TableStatus, count, seconds};
use crate::generic_client::Session;
use crate::{Error, Queue};

/// The state of the bell. Whether its triggers are there stands in [`TableStatus`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BellStatus {
    /// So many reactors sleep, so inserts ring. 0: they are silent.
    pub asleep: u64,
    /// The transactions that have inserted silently and have not ended, the oldest first, at most 100: no reactor goes
    /// to sleep before they end.
    pub in_flight: Vec<InFlight>,
    /// How full the server's notification queue is, from 0 to 1. At 1 every commit that notifies fails.
    pub queue_usage: f64,
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
    pub(super) async fn bell(&self, session: Session<'_>) -> Result<BellStatus, Error> {
        let bell = self.query_one(session, &self.statements().status_bell, &[]).await?;
        let in_flight = self.query(session, &self.statements().status_in_flight, &[]).await?;
        Ok(BellStatus {
            asleep: count(&bell, "asleep")?,
            in_flight: in_flight.iter().map(InFlight::from_row).collect::<Result<_, _>>()?,
            queue_usage: bell.try_get("queue_usage")?,
        })
    }
}

impl BellStatus {
    pub(super) fn json(&self, table: &TableStatus) -> Value {
        json!({
            "asleep": self.asleep,
            "in_flight": self.in_flight.iter().map(InFlight::json).collect::<Vec<_>>(),
            "queue_usage": self.queue_usage,
            "triggers": table.triggers_work(),
            "doorbell_on_insert": table.on_insert.as_str(),
            "doorbell_on_update": table.on_update.as_str(),
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
