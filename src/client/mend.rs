//! By hand: try again, or never again.

use std::fmt;

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Queue;
use crate::generic_client::Session;
use crate::{Error, GenericClient, Status};

/// How many rows one step of [`Queue::retry_all_failed`] looks at.
const STEP_ROWS: i64 = 1000;

/// How often to try again when a dedupe key is taken at the very moment.
const TRIES: u32 = 5;

/// What [`Queue::retry`] did with one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Retried {
    /// It is pending and due now.
    Due,
    /// Left alone: a reactor is sending it just now.
    BeingSent,
    /// Refused: it has been sent.
    AlreadySent,
    /// Refused: its dedupe key belongs to another notification that is pending.
    KeyTaken,
    /// There is no such notification.
    NotFound,
}

/// What [`Queue::cancel`] did with one id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cancelled {
    /// It is cancelled and will not be sent.
    Cancelled,
    /// It is cancelled and will not be tried again, but a reactor was sending it: that send may still arrive.
    MayStillArrive,
    /// Refused: it is over already, with this status.
    AlreadyOver(Status),
    /// There is no such notification.
    NotFound,
}

/// What [`Queue::retry_all_failed`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetriedAll {
    /// So many are pending and due again.
    pub due: u64,
    /// So many stay failed, because their dedupe key belongs to another notification that is pending.
    pub key_taken: u64,
}

impl Queue {
    /// Makes notifications due now; says for each id, in the same order, what became of it.
    ///
    /// One that is `failed`, `expired` or `cancelled` becomes pending with all its attempts before it. It keeps
    /// `last_error` until it is settled again, and loses an `expires_at` that has passed. One that is waiting (delayed,
    /// or between two tries) is brought forward and its attempts go on counting.
    ///
    /// # Errors
    ///
    /// The database's own, or [`is_schema`](Error::is_schema): the tables are not there.
    pub async fn retry(&self, client: &impl GenericClient, ids: &[Uuid]) -> Result<Vec<(Uuid, Retried)>, Error> {
        let any = Status::ALL.map(Status::as_str);
        self.retry_those(client.session(), ids, &any).await
    }

    /// [Retries](Queue::retry) every failed notification, of one channel or of all.
    ///
    /// Walks over the whole table in steps of 1,000 rows, each a transaction of its own unless a transaction is given.
    /// Those that fail while it walks may or may not be among them.
    ///
    /// # Errors
    ///
    /// As [`retry`](Queue::retry); what was done before the error stays done.
    pub async fn retry_all_failed(
        &self,
        client: &impl GenericClient,
        channel: Option<&str>,
    ) -> Result<RetriedAll, Error> {
        let mut all = RetriedAll::default();
        let mut after: Option<Uuid> = None;
        loop {
            let parameters = [
                (&after as _, Type::UUID),
                (&STEP_ROWS as _, Type::INT8),
                (&channel as _, Type::TEXT),
            ];
            let step = self
                .query_one(client.session(), &self.statements().failed, &parameters)
                .await?;
            let failed: Vec<Uuid> = step.try_get("failed")?;
            if !failed.is_empty() {
                for (_, retried) in self
                    .retry_those(client.session(), &failed, &[Status::Failed.as_str()])
                    .await?
                {
                    all.due += u64::from(retried == Retried::Due);
                    all.key_taken += u64::from(retried == Retried::KeyTaken);
                }
            }
            after = step.try_get("next")?;
            if after.is_none() {
                return Ok(all);
            }
        }
    }

    /// Cancels pending notifications; says for each id, in the same order, what became of it.
    ///
    /// One that is being sent is cancelled too. Its reactor drops the send when it next renews the lease; until then,
    /// the send may arrive, and the row says `cancelled` all the same.
    ///
    /// # Errors
    ///
    /// The database's own, or [`is_schema`](Error::is_schema): the tables are not there.
    pub async fn cancel(&self, client: &impl GenericClient, ids: &[Uuid]) -> Result<Vec<(Uuid, Cancelled)>, Error> {
        let parameters = [(&ids as _, Type::UUID_ARRAY)];
        let rows = self
            .query(client.session(), &self.statements().cancel, &parameters)
            .await?;
        rows.iter().map(Cancelled::from_row).collect()
    }

    async fn retry_those(
        &self,
        session: Session<'_>,
        ids: &[Uuid],
        statuses: &[&str],
    ) -> Result<Vec<(Uuid, Retried)>, Error> {
        let parameters = [(&ids as _, Type::UUID_ARRAY), (&statuses as _, Type::TEXT_ARRAY)];
        let mut tries = 0;
        loop {
            tries += 1;
            match self.query(session, &self.statements().retry, &parameters).await {
                // unique_violation: somebody took the key after we had looked. A transaction is lost by that.
                Err(error) if error.sqlstate() == Some("23505") => {
                    if tries == TRIES || matches!(session, Session::Transaction(_)) {
                        return Err(error.saying("a dedupe key was taken at this very moment: try again"));
                    }
                }
                rows => return rows?.iter().map(Retried::from_row).collect(),
            }
        }
    }
}

impl Retried {
    fn from_row(row: &Row) -> Result<(Uuid, Self), Error> {
        let status: Option<&str> = row.try_get("status")?;
        let retried = match status {
            None => Retried::NotFound,
            Some("sent") => Retried::AlreadySent,
            Some(_) if row.try_get("changed")? => Retried::Due,
            Some(_) if row.try_get("key_taken")? => Retried::KeyTaken,
            Some(_) => Retried::BeingSent,
        };
        Ok((row.try_get("id")?, retried))
    }
}

impl Cancelled {
    fn from_row(row: &Row) -> Result<(Uuid, Self), Error> {
        let status: Option<&str> = row.try_get("status")?;
        let cancelled = match status {
            None => Cancelled::NotFound,
            Some("pending") if row.try_get("being_sent")? => Cancelled::MayStillArrive,
            Some("pending") => Cancelled::Cancelled,
            Some(over) => Cancelled::AlreadyOver(over.parse()?),
        };
        Ok((row.try_get("id")?, cancelled))
    }
}

impl fmt::Display for Retried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Retried::Due => "due now",
            Retried::BeingSent => "left alone: it is being sent",
            Retried::AlreadySent => "refused: it has been sent",
            Retried::KeyTaken => "refused: its dedupe key belongs to another pending notification",
            Retried::NotFound => "not found",
        })
    }
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cancelled::Cancelled => f.write_str("cancelled"),
            Cancelled::MayStillArrive => f.write_str("cancelled, but it was being sent and may still arrive"),
            Cancelled::AlreadyOver(status) => write!(f, "refused: it is {status} already"),
            Cancelled::NotFound => f.write_str("not found"),
        }
    }
}
