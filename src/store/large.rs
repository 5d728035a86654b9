//! The statements about what a claim leaves in the table: payloads that are large, and after a claim that failed over what a
//! row holds, whatever the rows hold.

use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{Held, Store, statements};
use crate::Error;

/// How long the server may take to put one together and send it.
const READ_LIMIT: Duration = Duration::from_secs(60);

statements! {
    /// The statements about large payloads.
    LargeStatements { payload, payload_size }
}

/// What is sent of a row.
pub(crate) struct Contents {
    pub(crate) recipient: String,
    pub(crate) payload: String,
}

/// One row is read at a time, so that settles and renewals find a connection in the pool.
impl Store {
    /// How many bytes the contents of a claimed row have as text.
    pub(crate) async fn payload_size(&self, held: Held) -> Result<usize, Error> {
        let bytes: i64 = self.of_held(&self.large().payload_size, held).await?.try_get("bytes")?;
        Ok(usize::try_from(bytes).unwrap_or(0))
    }

    /// The contents of a claimed row.
    pub(crate) async fn payload(&self, held: Held) -> Result<Contents, Error> {
        let row = self.of_held(&self.large().payload, held).await?;
        Ok(Contents {
            recipient: row.try_get("recipient")?,
            payload: row.try_get("payload")?,
        })
    }

    /// Whether the database answers at all.
    pub(crate) async fn answers(&self) -> bool {
        self.query("SELECT", &[]).await.is_ok()
    }

    async fn of_held(&self, sql: &str, held: Held) -> Result<Row, Error> {
        let _turn = self.turn().lock().await;
        let attempts = i32::try_from(held.attempt).unwrap_or(i32::MAX);
        let parameters = [
            (&held.id as _, Type::UUID),
            (&held.claim as _, Type::INT8),
            (&held.claimed_by as _, Type::UUID),
            (&attempts as _, Type::INT4),
        ];
        let rows = self.query_within(READ_LIMIT, sql, &parameters).await?;
        rows.into_iter()
            .next()
            .ok_or_else(|| Error::input("the row is no longer ours"))
    }
}
