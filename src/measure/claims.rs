//! The reactor's own claim, by itself.

use std::time::{Duration, Instant};

use tokio_postgres::{Client as PgClient, Statement};

use super::probe::session;
use crate::connect::Database;
use crate::outcome::Outcome;
use crate::reactor::listener;
use crate::reactor::reach::Reach;
use crate::store::{Ask, Held, Lookout, Settlement, Store, Wanted};
use crate::{Error, Uuid};

const INSERT: &str = r#"INSERT INTO :"schema".notification_jobs (channel, recipient) VALUES ($1, 'me')"#;
const LEASE: Duration = Duration::from_secs(30);

/// Claims one row after the other as a reactor does, on a session of its own with the settings of the listening one.
pub struct Claims {
    store: Store,
    lookout: Lookout,
    producer: PgClient,
    insert: Statement,
    channel: &'static str,
    reactor: Uuid,
    /// As a reactor's, unless there is a backlog: then its claims leave rows behind.
    reach: Reach,
    backlog: bool,
}

impl Claims {
    /// Of this channel, which no reactor is to serve meanwhile. `backlog`: more rows are due there than the one inserted.
    ///
    /// # Errors
    ///
    /// The server's.
    pub async fn of(database: &Database, channel: &'static str, backlog: bool) -> Result<Self, Error> {
        let producer = session(database).await?;
        let claimer = session(database).await?;
        claimer.batch_execute(&listener::settings()).await?;
        Ok(Claims {
            store: Store::new(database.clone()),
            lookout: Lookout::new(claimer),
            insert: producer.prepare(&database.schema().render(INSERT)).await?,
            producer,
            channel,
            reactor: Uuid::now_v7(),
            reach: Reach::default(),
            backlog,
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
        let wanted = [Wanted {
            index: 0,
            channel: self.channel,
            slots: 1,
            reach: self.reach.duration(begun),
        }];
        let ask = Ask {
            wanted: &wanted,
            hold: false,
            bare: false,
            reactor: self.reactor,
            lease: LEASE,
        };
        let claims = self.store.claim(Some(&self.lookout), ask).await?;
        let took = begun.elapsed();
        if !self.backlog {
            self.reach.came_back_short(begun, false);
        }
        let settlements: Vec<Settlement> = claims.rows.iter().map(|row| sent(row.held)).collect();
        if settlements.is_empty() {
            return Err(Error::timeout("a claim did not find the row that was due"));
        }
        self.store.settle(&settlements).await?;
        Ok(took)
    }
}

fn sent(held: Held) -> Settlement {
    Settlement {
        held,
        outcome: Outcome::Sent { receipt: None },
    }
}
