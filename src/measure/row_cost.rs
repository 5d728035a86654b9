//! What it costs to insert into a table that has grown.

use std::time::{Duration, Instant};

use tokio_postgres::Client as PgClient;

use super::probe::session;
use crate::Error;
use crate::connect::Database;

/// Rows of one batch, one statement.
const BATCH: u32 = 10_000;

/// A producer of batches, with the ids of the table's default or with random ones.
pub struct Batches {
    session: PgClient,
    sql: String,
}

/// What one batch took, for each of its rows.
#[derive(Clone, Copy, Debug)]
pub struct RowCost {
    /// From asking until the answer, the commit included.
    pub time: Duration,
    /// Bytes of write-ahead log. Whatever else writes on the server counts too.
    pub wal: u64,
}

impl Batches {
    /// Into this table. `random_ids`: `gen_random_uuid()` instead of the default.
    ///
    /// # Errors
    ///
    /// The server's.
    pub async fn into(database: &Database, random_ids: bool) -> Result<Self, Error> {
        let id = if random_ids { "gen_random_uuid()" } else { "DEFAULT" };
        let columns = "(id, channel, recipient, payload, status)";
        let values = format!(r#"({id}, 'bench', 'me', '{{"template": "welcome"}}', 'sent')"#);
        let rows = vec![values; BATCH as usize].join(",");
        Ok(Batches {
            session: session(database).await?,
            sql: database.schema().render(&format!(
                r#"INSERT INTO :"schema".notification_jobs {columns} VALUES {rows}"#
            )),
        })
    }

    /// Inserts a batch.
    ///
    /// # Errors
    ///
    /// The server's.
    pub async fn time_batch(&self) -> Result<RowCost, Error> {
        let before = self.wal().await?;
        let begun = Instant::now();
        self.session.batch_execute(&self.sql).await?;
        let time = begun.elapsed() / BATCH;
        Ok(RowCost {
            time,
            wal: (self.wal().await? - before) / u64::from(BATCH),
        })
    }

    /// Flushes all dirty pages: the first change to each page after that logs the whole page.
    ///
    /// # Errors
    ///
    /// The server's, for instance that the role may not.
    pub async fn checkpoint(&self) -> Result<(), Error> {
        Ok(self.session.batch_execute("CHECKPOINT").await?)
    }

    async fn wal(&self) -> Result<u64, Error> {
        let sql = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
        let bytes: i64 = self.session.query_one(sql, &[]).await?.try_get(0)?;
        Ok(bytes.unsigned_abs())
    }
}
