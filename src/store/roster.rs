//! The statements about the list of reactors: who is on it, who is dead, and what becomes of the rows of the dead.

use std::time::Duration;

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{Store, statements};
use crate::Error;

statements! {
    /// The statements about the list of reactors.
    RosterStatements { announce, bury, condemn, forget, peers, present, register, rescue, unregister }
}

/// What a notification says that tells of a new reactor (announce.sql). A ring says nothing.
pub(crate) const NEW_REACTOR: &str = "reactor";

/// What a reactor's entry in the list says besides its id.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) host: String,
    pub(crate) channels: Vec<String>,
    pub(crate) lease: Duration,
}

/// What a reactor learns when it says that it is alive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Presence {
    /// The others see its lock.
    pub(crate) shown: bool,
    /// There are others.
    pub(crate) peers: bool,
}

/// Another reactor, as a look found it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) id: Uuid,
    /// Nobody holds its lock.
    pub(crate) free: bool,
    /// It was given up for dead before.
    pub(crate) dead: bool,
}

/// What a rescue did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rescued {
    /// Rows that will be sent again.
    pub(crate) pending: usize,
    /// Rows that were settled as `failed`: held, or out of attempts.
    pub(crate) failed: usize,
}

impl Store {
    /// Lists a reactor under this id.
    pub(crate) async fn register(&self, id: Uuid, entry: &Entry) -> Result<(), Error> {
        let lease = entry.lease.as_secs_f64();
        self.query(
            &self.roster().register,
            &[
                (&id, Type::UUID),
                (&entry.host, Type::TEXT),
                (&env!("CARGO_PKG_VERSION"), Type::TEXT),
                (&entry.channels, Type::TEXT_ARRAY),
                (&lease, Type::FLOAT8),
            ],
        )
        .await?;
        Ok(())
    }

    /// Says that a reactor is alive, and shows the key of its lock if it holds that. `None`: it is not on the list, or
    /// was given up for dead.
    pub(crate) async fn present(&self, id: Uuid, held_key: Option<i64>) -> Result<Option<Presence>, Error> {
        let key = held_key.unwrap_or(0);
        let parameters = [(&id as _, Type::UUID), (&key as _, Type::INT8)];
        let rows = self.query(&self.roster().present, &parameters).await?;
        let presence = rows.first().map(|row| {
            Ok(Presence {
                shown: row.try_get("shown")?,
                peers: row.try_get("peers")?,
            })
        });
        presence.transpose()
    }

    /// Tells the others that there is one more.
    pub(crate) async fn announce(&self) -> Result<(), Error> {
        self.query(&self.roster().announce, &[]).await?;
        Ok(())
    }

    /// Looks after the other reactors: all that are dead, and the most silent of the others.
    pub(crate) async fn peers(&self, me: Uuid) -> Result<Vec<Peer>, Error> {
        let rows = self.query(&self.roster().peers, &[(&me, Type::UUID)]).await?;
        let peer = |row: &tokio_postgres::Row| {
            Ok(Peer {
                id: row.try_get("id")?,
                free: row.try_get("free")?,
                dead: row.try_get("dead")?,
            })
        };
        rows.iter().map(peer).collect()
    }

    /// Looks a second time after those whose lock was free; answers with those that are dead now.
    pub(crate) async fn condemn(&self, suspects: &[Uuid], own_key: i64) -> Result<Vec<Uuid>, Error> {
        let parameters = [(&suspects as _, Type::UUID_ARRAY), (&own_key as _, Type::INT8)];
        let rows = self.query(&self.roster().condemn, &parameters).await?;
        rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
    }

    /// Makes rows of a dead reactor due again on these channels, and parks those of the channels that `hold`.
    pub(crate) async fn rescue(&self, dead: Uuid, channels: &[&str], hold: &[&str]) -> Result<Rescued, Error> {
        let parameters = [
            (&dead as _, Type::UUID),
            (&channels as _, Type::TEXT_ARRAY),
            (&hold as _, Type::TEXT_ARRAY),
        ];
        let mut rescued = Rescued::default();
        for row in self.query(&self.roster().rescue, &parameters).await? {
            match row.try_get("status")? {
                "pending" => rescued.pending += 1,
                _ => rescued.failed += 1,
            }
        }
        Ok(rescued)
    }

    /// Takes a dead reactor off the list, unless there is something left to be rescued.
    pub(crate) async fn bury(&self, dead: Uuid) -> Result<(), Error> {
        self.query(&self.roster().bury, &[(&dead, Type::UUID)]).await?;
        Ok(())
    }

    /// Takes reactors off the list that have been gone for so long that nothing of theirs can be rescued. Answers how
    /// many; there may be more.
    pub(crate) async fn forget(&self, me: Uuid) -> Result<usize, Error> {
        let gone = self.query(&self.roster().forget, &[(&me, Type::UUID)]).await?;
        Ok(gone.len())
    }

    /// Takes a reactor off the list.
    pub(crate) async fn unregister(&self, reactor: Uuid) -> Result<(), Error> {
        self.query(&self.roster().unregister, &[(&reactor, Type::UUID)]).await?;
        Ok(())
    }
}
