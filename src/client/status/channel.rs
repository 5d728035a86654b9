//! What one channel holds.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{count, seconds};
use crate::generic_client::Session;
use crate::store::lossy;
use crate::{Error, Queue};

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
    /// Of these: those whose reactor is [lost](crate::ReactorStatus::is_lost). Another one sends them when it has found
    /// that out, or when their lease is over.
    pub claimed_by_lost: u64,
    /// Of the pending ones: those whose time has come.
    pub due: u64,
    /// For how long the longest of these has been due. `None`: nothing is due.
    pub oldest_due: Option<Duration>,
    /// Whether a reactor that is not lost serves the channel.
    pub served: bool,
}

impl Queue {
    /// `lost`: the reactors that are.
    pub(super) async fn channels(&self, session: Session<'_>, lost: &[Uuid]) -> Result<Vec<ChannelStatus>, Error> {
        let parameters = [(&lost as _, Type::UUID_ARRAY)];
        let rows = self
            .query(session, &self.statements().status_counts, &parameters)
            .await?;
        rows.iter().map(ChannelStatus::from_row).collect()
    }
}

impl ChannelStatus {
    fn from_row(row: &Row) -> Result<Self, Error> {
        Ok(ChannelStatus {
            channel: lossy::text(row, "channel")?,
            pending: count(row, "pending")?,
            sent: count(row, "sent")?,
            failed: count(row, "failed")?,
            expired: count(row, "expired")?,
            cancelled: count(row, "cancelled")?,
            claimed: count(row, "claimed")?,
            claimed_by_lost: count(row, "claimed_by_lost")?,
            due: count(row, "due")?,
            oldest_due: seconds(row, "oldest_due_seconds")?,
            served: row.try_get("served")?,
        })
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "channel": self.channel,
            "pending": self.pending,
            "sent": self.sent,
            "failed": self.failed,
            "expired": self.expired,
            "cancelled": self.cancelled,
            "claimed": self.claimed,
            "claimed_by_lost": self.claimed_by_lost,
            "due": self.due,
            "oldest_due_seconds": self.oldest_due.map(|age| age.as_secs_f64()),
            "served": self.served,
        })
    }
}
