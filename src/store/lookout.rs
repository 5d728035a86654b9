//! The session that hears the bell, as a place to look from: claims run on it too, and what follows them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client as PgClient, Error, Row, Statement};

use super::runner::{Parameter, is_suspicious, types};

/// A session outside the pool, with what is prepared on it.
///
/// When the bell has rung this session's backend is awake and its memory warm; to claim on another one means to wake that
/// too, and on an idle machine a wake takes longer than the claim.
pub(crate) struct Lookout {
    client: PgClient,
    prepared: Mutex<HashMap<String, Statement>>,
}

impl Lookout {
    pub(crate) fn new(client: PgClient) -> Self {
        Lookout {
            client,
            prepared: Mutex::default(),
        }
    }

    pub(crate) fn client(&self) -> &PgClient {
        &self.client
    }

    /// Is this statement prepared, so that it goes out at the first poll?
    pub(super) fn has(&self, sql: &str) -> bool {
        self.prepared().contains_key(sql)
    }

    /// Runs a statement, prepared before or now. After an error, or when it was slow, it is prepared anew the next time.
    pub(super) async fn query(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Error> {
        let known = self.prepared().remove(sql);
        let statement = match known {
            Some(statement) => statement,
            None => self.client.prepare_typed(sql, &types(parameters)).await?,
        };
        let values: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|(value, _)| *value).collect();
        let begun = Instant::now();
        let rows = self.client.query(&statement, &values).await?;
        if !is_suspicious(begun.elapsed(), rows.len()) {
            self.prepared().insert(sql.to_owned(), statement);
        }
        Ok(rows)
    }

    fn prepared(&self) -> MutexGuard<'_, HashMap<String, Statement>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
