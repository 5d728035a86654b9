//! The table of notifications, as the catalog and the statistics know it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{count, seconds};
use crate::generic_client::Session;
use crate::{Error, Queue};

/// The table of notifications, as the catalog and the statistics know it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TableStatus {
    /// The trigger that rings for inserts. Without it they wait for the next scan.
    pub on_insert: TriggerState,
    /// The trigger that rings for rows made due sooner.
    pub on_update: TriggerState,
    /// Rows, about.
    pub live_rows: u64,
    /// Dead row versions that vacuum has yet to remove, about.
    pub dead_rows: u64,
    /// How long ago vacuum last came through. `None`: not since the statistics began.
    pub vacuumed_ago: Option<Duration>,
    /// Whether the server runs autovacuum at all.
    pub server_vacuums: bool,
    /// Whether autovacuum minds this table.
    pub table_vacuums: bool,
    /// The storage settings of the first migration that the table lacks, as `name = value`.
    pub missing_settings: Vec<String>,
}

/// Whether a trigger does its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TriggerState {
    /// It fires in ordinary sessions.
    Enabled,
    /// It is there and does not fire.
    Disabled,
    /// It is not there.
    Missing,
}

impl Queue {
    /// `None`: there is no such table.
    pub(super) async fn table(&self, session: Session<'_>) -> Result<Option<TableStatus>, Error> {
        let schema = (&self.0.schema.name() as _, Type::TEXT);
        let rows = self.query(session, &self.statements().status_table, &[schema]).await?;
        rows.first().map(TableStatus::from_row).transpose()
    }
}

impl TableStatus {
    /// Both triggers are there and enabled.
    pub fn triggers_work(&self) -> bool {
        [self.on_insert, self.on_update] == [TriggerState::Enabled; 2]
    }

    fn from_row(row: &Row) -> Result<Self, Error> {
        Ok(TableStatus {
            on_insert: TriggerState::of(row.try_get("on_insert")?),
            on_update: TriggerState::of(row.try_get("on_update")?),
            live_rows: count(row, "live_rows")?,
            dead_rows: count(row, "dead_rows")?,
            vacuumed_ago: seconds(row, "vacuumed_seconds_ago")?,
            server_vacuums: row.try_get("server_vacuums")?,
            table_vacuums: row.try_get("table_vacuums")?,
            missing_settings: row.try_get("missing_settings")?,
        })
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "live_rows": self.live_rows,
            "dead_rows": self.dead_rows,
            "vacuumed_seconds_ago": self.vacuumed_ago.map(|ago| ago.as_secs_f64()),
            "autovacuum": self.server_vacuums && self.table_vacuums,
            "missing_settings": self.missing_settings,
        })
    }
}

impl TriggerState {
    fn of(enabled: Option<bool>) -> Self {
        match enabled {
            Some(true) => TriggerState::Enabled,
            Some(false) => TriggerState::Disabled,
            None => TriggerState::Missing,
        }
    }

    /// One word: `enabled`, `disabled` or `missing`.
    pub fn as_str(self) -> &'static str {
        match self {
            TriggerState::Enabled => "enabled",
            TriggerState::Disabled => "disabled",
            TriggerState::Missing => "missing",
        }
    }
}
