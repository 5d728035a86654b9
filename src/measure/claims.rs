//! The reactor's own claim, by itself.

use std::time::{Duration, Instant};

use tokio_postgres::{Client as PgClient, Statement};

use super::probe::open;
use crate::connect::Database;
use crate::outcome::Outcome;
use crate::store::{Held, Lookout, Settlement, Store};
use crate::{Error, Uuid};

const INSERT: &str = r#"INSERT INTO :"schema".notification_jobs (channel, recipient) VALUES ($1, 'me')"#;
const LEASE: Duration = Duration::from_secs(30);

/// Claims one row after the other as a reactor does, on a session of its own.
pub struct Claims {
    store: Store,
    lookout: Lookout,
    producer: PgClient,
    insert: Statement,
    channel: &'static str,
    reactor: Uuid,
}

impl Claims {
    /// Of this channel, which no reactor is to serve meanwhile.
    ///
    /// # Errors
    ///
    /// The server's.
    pub async fn of(database: &Database, channel: &'static str) -> Result<Self, Error> {
        let producer = open(database, |_| {}).await?;
        Ok(Claims {
            store: Store::new(database.clone()),
            lookout: Lookout::new(open(database, |_| {}).await?),
            insert: producer.prepare(&database.schema().render(INSERT)).await?,
            producer,
            channel,
            reactor: Uuid::now_v7(),
        })
    }

    /// From asking for one row until the answer is decoded. A row is inserted before, so that one is due, and the one
    /// that was claimed is settled after.
    ///
    /// # Errors
    ///
    /// The server's, or [`Error::is_timeout`]: no row was found.
    pub async fn time_one(&mut self) -> Result<Duration, Error> {
        self.producer.execute(&self.insert, &[&self.channel]).await?;
        let begun = Instant::now();
        let wanted = [(self.channel, 1)];
        let claim = self
            .store
            .claim(Some(&self.lookout), &wanted, false, self.reactor, LEASE);
        let claims = claim.await?;
        let took = begun.elapsed();
        let settlements: Vec<Settlement> = claims.rows.iter().map(|row| self.sent(row.id, row.claim)).collect();
        if settlements.is_empty() {
            return Err(Error::timeout("a claim did not find the row that was due"));
        }
        self.store.settle(&settlements).await?;
        Ok(took)
    }

    fn sent(&self, id: Uuid, claim: i64) -> Settlement {
        Settlement {
            held: Held {
                id,
                claim,
                claimed_by: self.reactor,
                attempt: 1,
            },
            outcome: Outcome::Sent { receipt: None },
        }
    }
}
