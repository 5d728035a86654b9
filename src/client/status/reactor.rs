//! What is known of a reactor without asking it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_postgres::Row;
use uuid::Uuid;

use super::seconds;
use crate::generic_client::Session;
use crate::{Error, Queue};

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
    /// How it learns of new rows, as far as the server can tell.
    pub mode: ReactorMode,
}

/// How a reactor learns of new rows, told from the locks that its sessions hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReactorMode {
    /// It hears the bell.
    Listening,
    /// It does not: rows wait for its next scan. Its own log, and [`Reactor::health`](crate::Reactor::health), say why.
    Polling,
    /// It has no session any more: the process is gone, or cut off for this moment.
    Gone,
    /// It shows no lock: it is about to start, or has no way around a transaction pooler, and then it polls. Or this is
    /// asked of a standby.
    Unknown,
}

impl Queue {
    pub(super) async fn reactors(&self, session: Session<'_>) -> Result<Vec<ReactorStatus>, Error> {
        let rows = self.query(session, &self.statements().status_reactors, &[]).await?;
        rows.iter().map(ReactorStatus::from_row).collect()
    }
}

impl ReactorStatus {
    /// Nobody is to wait for it: it is dead, silent, or gone.
    pub fn is_lost(&self) -> bool {
        !self.live || self.mode == ReactorMode::Gone
    }

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
            mode: ReactorMode::of(row.try_get("mode")?),
        })
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "id": self.id.to_string(),
            "host": self.host,
            "version": self.version,
            "channels": self.channels,
            "started_seconds_ago": self.started_ago.as_secs_f64(),
            "seen_seconds_ago": self.seen_ago.as_secs_f64(),
            "dead": self.dead,
            "live": self.live,
            "mode": self.mode.as_str(),
        })
    }
}

impl ReactorMode {
    fn of(text: &str) -> Self {
        match text {
            "listening" => ReactorMode::Listening,
            "polling" => ReactorMode::Polling,
            "gone" => ReactorMode::Gone,
            _ => ReactorMode::Unknown,
        }
    }

    /// One word: `listening`, `polling`, `gone` or `unknown`.
    pub fn as_str(self) -> &'static str {
        match self {
            ReactorMode::Listening => "listening",
            ReactorMode::Polling => "polling",
            ReactorMode::Gone => "gone",
            ReactorMode::Unknown => "unknown",
        }
    }
}
