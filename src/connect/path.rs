//! What lies between us and the server: nothing, or a transaction pooler, which lends a backend to whoever has a
//! transaction. Nobody can listen through one, or hold a lock for longer, and what is set there is set for strangers.

use std::time::Duration;

use tokio_postgres::Client as PgClient;

use super::{Database, end_of};
use crate::Error;

/// How often two sessions are compared.
const ROUNDS: usize = 5;
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// How the address for sessions of our own leads to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// Not found out yet.
    Unknown,
    /// A session is ours alone.
    Direct,
    /// Through a transaction pooler.
    Pooled,
}

impl Database {
    /// Whether the address for LISTEN, that of `listen_url` or else the URL, leads through a transaction pooler such as
    /// PgBouncer. Opens two connections for a moment: only a pooler serves two that are open at the same time by one
    /// backend, or one by two backends, lending them a transaction each.
    ///
    /// # Errors
    ///
    /// [`Error::is_connection`], [`Error::is_timeout`]: the server gave no two connections, or did not answer.
    pub async fn listens_through_pooler(&self) -> Result<bool, Error> {
        Ok(self.explore().await? == Path::Pooled)
    }

    /// The same, remembered.
    pub(crate) async fn explore(&self) -> Result<Path, Error> {
        let shares = tokio::time::timeout(self.0.listener.limit() + ANSWER_LIMIT, self.shares_backends()).await;
        let shares = shares.map_err(|_| Error::timeout("two connections could not be compared in time"))??;
        let path = if shares { Path::Pooled } else { Path::Direct };
        self.0.path.send_replace(path);
        Ok(path)
    }

    /// What was found out last.
    pub(crate) fn path(&self) -> Path {
        *self.0.path.borrow()
    }

    /// What was found out need not be so any more.
    pub(crate) fn forget_path(&self) {
        self.0.path.send_replace(Path::Unknown);
    }

    /// Waits until a session of ours is known to be ours alone.
    pub(crate) async fn direct_path(&self) {
        // An error would mean that the other half is gone, which `self` holds.
        let _ = self.0.path.subscribe().wait_for(|path| *path == Path::Direct).await;
    }

    async fn shares_backends(&self) -> Result<bool, Error> {
        let name = "doorbell probe";
        let (one, other) = futures::try_join!(self.connect_dedicated(name), self.connect_dedicated(name))?;
        let compare = async {
            let (own, others) = (backend(&one.client).await?, backend(&other.client).await?);
            for _ in 1..ROUNDS {
                let again = (backend(&one.client).await?, backend(&other.client).await?);
                if own == others || again != (own, others) {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        tokio::select! {
            shares = compare => shares,
            error = end_of(one.messages) => Err(error),
            error = end_of(other.messages) => Err(error),
        }
    }
}

async fn backend(client: &PgClient) -> Result<i32, Error> {
    let rows = client.query_typed("SELECT pg_catalog.pg_backend_pid()", &[]).await?;
    let row = rows
        .first()
        .ok_or_else(|| Error::connection("the server gave no answer"))?;
    Ok(row.try_get(0)?)
}
