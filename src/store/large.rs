//! The statements about payloads that a claim leaves in the table because they are large.

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

impl Store {
    /// How many bytes the payload of a claimed row has as text.
    pub(crate) async fn payload_size(&self, held: Held) -> Result<usize, Error> {
        let bytes: i32 = self.of_held(&self.large().payload_size, held).await?.try_get("bytes")?;
        Ok(usize::try_from(bytes).unwrap_or(0))
    }

    /// The payload of a claimed row.
    pub(crate) async fn payload(&self, held: Held) -> Result<String, Error> {
        Ok(self.of_held(&self.large().payload, held).await?.try_get("payload")?)
    }

    async fn of_held(&self, sql: &str, held: Held) -> Result<Row, Error> {
        let parameters = [
            (&held.id as _, Type::UUID),
            (&held.claim as _, Type::INT8),
            (&held.claimed_by as _, Type::UUID),
        ];
        let rows = self.query_within(READ_LIMIT, sql, &parameters).await?;
        rows.into_iter()
            .next()
            .ok_or_else(|| Error::input("the row is no longer ours"))
    }
}
