//! Looking notifications up.

use std::fmt;

use serde_json::json;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Queue;
use crate::store::lossy::{optional_text, text};
use crate::{Error, GenericClient, Status};

/// One row of `notification_jobs`, for people: every column by its name.
///
/// Instants are RFC 3339 text in UTC, made by the database, or `infinity` or `-infinity`. Bytes that are no UTF-8, which a
/// database of the encoding `SQL_ASCII` may hold, are shown as U+FFFD.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "the columns are described where the table is: migrations/0001_tables.up.sql"
)]
pub struct Job {
    pub id: Uuid,
    pub channel: String,
    pub recipient: String,
    /// JSON text, as PostgreSQL prints the jsonb. `None`: see [`JobFilter::without_payload`].
    pub payload: Option<String>,
    pub status: Status,
    pub attempts: i32,
    pub max_attempts: i32,
    pub next_attempt_at: String,
    pub last_error: Option<String>,
    pub created_at: String,
    pub updated_at: String,
    pub claim: i64,
    pub claimed_by: Option<Uuid>,
    pub sent_at: Option<String>,
    pub receipt: Option<String>,
    pub expires_at: Option<String>,
    pub dedupe_key: Option<String>,
}

impl Job {
    /// One JSON object on one line, a member for each column; the payload verbatim, if there is one.
    pub fn to_json(&self) -> String {
        // Put together by hand because the payload must go through untouched: parsing it would change large numbers.
        let payload = self.payload.as_ref().map(|payload| ("payload", payload.clone()));
        let before = [
            ("id", json!(self.id.to_string()).to_string()),
            ("channel", json!(self.channel).to_string()),
            ("recipient", json!(self.recipient).to_string()),
        ];
        let after = [
            ("status", json!(self.status.as_str()).to_string()),
            ("attempts", json!(self.attempts).to_string()),
            ("max_attempts", json!(self.max_attempts).to_string()),
            ("next_attempt_at", json!(self.next_attempt_at).to_string()),
            ("last_error", json!(self.last_error).to_string()),
            ("created_at", json!(self.created_at).to_string()),
            ("updated_at", json!(self.updated_at).to_string()),
            ("claim", json!(self.claim).to_string()),
            (
                "claimed_by",
                json!(self.claimed_by.map(|id| id.to_string())).to_string(),
            ),
            ("sent_at", json!(self.sent_at).to_string()),
            ("receipt", json!(self.receipt).to_string()),
            ("expires_at", json!(self.expires_at).to_string()),
            ("dedupe_key", json!(self.dedupe_key).to_string()),
        ];
        let members = before.into_iter().chain(payload).chain(after);
        let members: Vec<_> = members.map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", members.join(","))
    }

    fn from_row(row: &Row) -> Result<Self, Error> {
        Ok(Job {
            id: row.try_get("id")?,
            channel: text(row, "channel")?,
            recipient: text(row, "recipient")?,
            payload: optional_text(row, "payload")?,
            status: row.try_get::<_, &str>("status")?.parse()?,
            attempts: row.try_get("attempts")?,
            max_attempts: row.try_get("max_attempts")?,
            next_attempt_at: row.try_get("next_attempt_at")?,
            last_error: optional_text(row, "last_error")?,
            created_at: row.try_get("created_at")?,
            updated_at: row.try_get("updated_at")?,
            claim: row.try_get("claim")?,
            claimed_by: row.try_get("claimed_by")?,
            sent_at: row.try_get("sent_at")?,
            receipt: optional_text(row, "receipt")?,
            expires_at: row.try_get("expires_at")?,
            dedupe_key: optional_text(row, "dedupe_key")?,
        })
    }
}

/// Leaves out what is personal or may be: `{:?}` ends in logs.
impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("id", &self.id)
            .field("channel", &self.channel)
            .field("status", &self.status)
            .field("attempts", &self.attempts)
            .field("claim", &self.claim)
            .finish_non_exhaustive()
    }
}

/// Which notifications [`Queue::list`] returns. By default: the newest 100.
///
/// ```
/// use doorbell::{JobFilter, Status};
///
/// let failed = JobFilter::default().status(Status::Failed).channel("email").limit(20);
/// # let _ = failed;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct JobFilter {
    status: Option<Status>,
    channel: Option<String>,
    before: Option<Uuid>,
    limit: u32,
    payload: bool,
}

impl Default for JobFilter {
    fn default() -> Self {
        JobFilter {
            status: None,
            channel: None,
            before: None,
            limit: 100,
            payload: true,
        }
    }
}

impl JobFilter {
    /// Only those in this status. Default: any.
    pub fn status(mut self, status: Status) -> Self {
        self.status = Some(status);
        self
    }

    /// Only those on this channel. Default: any.
    pub fn channel(mut self, channel: impl Into<String>) -> Self {
        self.channel = Some(channel.into());
        self
    }

    /// Only those that come after this one in the list: give the last id of one page to get the next. Default: from the
    /// start.
    pub fn before(mut self, id: Uuid) -> Self {
        self.before = Some(id);
        self
    }

    /// At most so many. Default: 100.
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// Leaves the payloads on the server: they may be large, or beyond what it can make of them as text. Default: with them.
    pub fn without_payload(mut self) -> Self {
        self.payload = false;
        self
    }
}

impl Queue {
    /// Looks one notification up. `None`: there is none with this id.
    ///
    /// # Errors
    ///
    /// The database's own, or [`is_schema`](Error::is_schema): the tables are not there.
    pub async fn get(&self, client: &impl GenericClient, id: Uuid) -> Result<Option<Job>, Error> {
        let mut jobs = self.select(client, Some(id), &JobFilter::default()).await?;
        Ok(jobs.pop())
    }

    /// Lists notifications, the highest id first: the newest, where the database or a UUIDv7 made the ids. A filter that
    /// few of them pass walks over many.
    ///
    /// # Errors
    ///
    /// The database's own, or [`is_schema`](Error::is_schema): the tables are not there.
    pub async fn list(&self, client: &impl GenericClient, filter: &JobFilter) -> Result<Vec<Job>, Error> {
        self.select(client, None, filter).await
    }

    async fn select(
        &self,
        client: &impl GenericClient,
        id: Option<Uuid>,
        filter: &JobFilter,
    ) -> Result<Vec<Job>, Error> {
        let status = filter.status.map(Status::as_str);
        let limit = i64::from(filter.limit);
        let parameters = [
            (&id as _, Type::UUID),
            (&status as _, Type::TEXT),
            (&filter.channel as _, Type::TEXT),
            (&filter.before as _, Type::UUID),
            (&limit as _, Type::INT8),
            (&filter.payload as _, Type::BOOL),
        ];
        let rows = self
            .query(client.session(), &self.statements().jobs, &parameters)
            .await?;
        rows.iter().map(Job::from_row).collect()
    }
}
