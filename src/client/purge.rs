//! Deleting what is over.

use std::num::NonZeroU32;
use std::time::Duration;

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Queue;
use crate::{Error, GenericClient};

/// Longer than any row is old, and within the range of an interval.
const FOR_EVER: Duration = Duration::from_secs(1000 * 365 * 24 * 3600);

/// What one [`Queue::purge_step`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PurgeStep {
    /// So many were deleted.
    pub deleted: u64,
    /// Where the next step begins. `None`: that was the last.
    pub next: Option<Uuid>,
}

impl Queue {
    /// Deletes notifications that are `sent`, `failed`, `expired` or `cancelled` and have not changed for `older_than`
    /// by the database's clock; returns how many.
    ///
    /// Walks over the whole table in steps of `batch` rows, 1,000 to 10,000 for instance, each a transaction of its own
    /// unless a transaction is given. Those that somebody has locked are left for the next time.
    ///
    /// # Errors
    ///
    /// The database's own, or [`is_schema`](Error::is_schema): the tables are not there. What was deleted before the
    /// error stays deleted.
    pub async fn purge(
        &self,
        client: &impl GenericClient,
        older_than: Duration,
        batch: NonZeroU32,
    ) -> Result<u64, Error> {
        let mut deleted = 0;
        let mut after = None;
        loop {
            let step = self.purge_step(client, older_than, batch, after).await?;
            deleted += step.deleted;
            after = step.next;
            if after.is_none() {
                return Ok(deleted);
            }
        }
    }

    /// One step of [`purge`](Queue::purge), for those who show how far it has come or stop it half-way: looks at the
    /// next `batch` rows after the id `after`, in the order of the ids. `None`: from the start.
    ///
    /// # Errors
    ///
    /// As [`purge`](Queue::purge).
    pub async fn purge_step(
        &self,
        client: &impl GenericClient,
        older_than: Duration,
        batch: NonZeroU32,
        after: Option<Uuid>,
    ) -> Result<PurgeStep, Error> {
        let rows = i64::from(batch.get());
        let seconds = older_than.min(FOR_EVER).as_secs_f64();
        let parameters = [
            (&after as _, Type::UUID),
            (&rows as _, Type::INT8),
            (&seconds as _, Type::FLOAT8),
        ];
        let row = self
            .query_one(client.session(), &self.statements().purge, &parameters)
            .await?;
        let deleted: i64 = row.try_get("deleted")?;
        Ok(PurgeStep {
            deleted: deleted.unsigned_abs(),
            next: row.try_get("next")?,
        })
    }
}
