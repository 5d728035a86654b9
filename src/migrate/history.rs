//! The history of migrations, and who stands in the way of one.

use std::collections::BTreeMap;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::migration::{MIGRATIONS, Migration};
use crate::Error;
use crate::generic_client::Session;
use crate::schema::Schema;
use crate::store::HistoryStatements;

/// The oldest server that will do, as `server_version_num` has it.
const OLDEST_SERVER: i32 = 140_000;

/// One migration: known to this program, applied to the database, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationStep {
    /// Its number. They are applied in this order, from 1.
    pub version: i32,
    /// What it is about, in a word.
    pub name: String,
    /// When it was applied, in UTC as RFC 3339 has it. `None`: not yet.
    pub applied_at: Option<String>,
    /// Whether this program has it. `false`: a newer one applied it.
    pub known: bool,
    /// Whether programs that do not know it must not work with the tables any more.
    pub breaking: bool,
}

/// Reads the history of one schema.
#[derive(Clone)]
pub(super) struct History {
    schema: Schema,
    statements: HistoryStatements,
}

impl History {
    pub(super) fn new(schema: &Schema) -> Self {
        History {
            schema: schema.clone(),
            statements: HistoryStatements::new(schema),
        }
    }

    /// What has been applied, by version.
    pub(super) async fn read(&self, session: Session<'_>) -> Result<BTreeMap<i32, MigrationStep>, Error> {
        let schema = (&self.schema.name() as _, Type::TEXT);
        let row = session.query_one(&self.statements.history_found, &[schema]).await?;
        refuse_old_server(row.try_get("server_version")?)?;
        let mut history = BTreeMap::new();
        if row.try_get("found")? {
            for row in session.query(&self.statements.history, &[]).await? {
                let step = MigrationStep::from_row(&row)?;
                history.insert(step.version, step);
            }
        }
        Ok(history)
    }

    /// Who holds a lock on our tables, in words.
    pub(super) async fn lock_holders(&self, session: Session<'_>) -> Result<String, Error> {
        let schema = (&self.schema.name() as _, Type::TEXT);
        let rows = session.query(&self.statements.lock_holders, &[schema]).await?;
        let mut holders = Vec::new();
        for row in rows {
            let (pid, table): (i32, &str) = (row.try_get("pid")?, row.try_get("table")?);
            let (application, state): (&str, &str) = (row.try_get("application")?, row.try_get("state")?);
            let seconds: f64 = row.try_get("seconds")?;
            holders.push(format!(
                "{table}, held by pid {pid} ({application}, {state}, for {seconds:.0} s)"
            ));
        }
        match holders.is_empty() {
            true => Ok("a table that was locked a moment ago".to_owned()),
            false => Ok(holders.join("; ")),
        }
    }
}

impl MigrationStep {
    fn from_row(row: &Row) -> Result<Self, Error> {
        let version = row.try_get("version")?;
        Ok(MigrationStep {
            version,
            name: row.try_get("name")?,
            applied_at: Some(row.try_get("applied_at")?),
            known: MIGRATIONS.iter().any(|migration| migration.version == version),
            breaking: row.try_get("breaking")?,
        })
    }

    /// One that is not applied.
    pub(super) fn of(migration: &Migration) -> Self {
        MigrationStep {
            version: migration.version,
            name: migration.name.to_owned(),
            applied_at: None,
            known: true,
            breaking: migration.breaking,
        }
    }
}

fn refuse_old_server(version: i32) -> Result<(), Error> {
    if version >= OLDEST_SERVER {
        return Ok(());
    }
    let (major, minor) = (version / 10_000, version % 10_000);
    Err(Error::schema(format!(
        "the server is PostgreSQL {major}.{minor}: doorbell needs 14 or later"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_before_14_is_refused_by_name() {
        assert!(refuse_old_server(140_000).is_ok());
        let error = refuse_old_server(130_022).unwrap_err();
        assert!(
            error.is_schema() && error.to_string().contains("PostgreSQL 13.22"),
            "{error}"
        );
    }
}
