//! The session that listens, and counts what rang.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_postgres::Client as PgClient;

use crate::Error;
use crate::connect::Database;
use crate::measure::probe::hearing_session;
use crate::store::{Bell, NEW_REACTOR};

/// Hears every ring on one topic, and does nothing about it.
pub(super) struct Ears {
    session: PgClient,
    heard: Arc<AtomicU64>,
}

impl Ears {
    pub(super) async fn open(database: &Database, topic: &str) -> Result<Self, Error> {
        let heard = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&heard);
        let session = hearing_session(database, move |notification| {
            // A reactor that joins is no ring.
            if notification.payload() != NEW_REACTOR {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        })
        .await?;
        session.batch_execute(&format!("LISTEN \"{topic}\"")).await?;
        Ok(Ears { session, heard })
    }

    /// The same on the bell, with the lock of somebody who is asleep.
    pub(super) async fn asleep(database: &Database, bell: &Bell) -> Result<Self, Error> {
        let ears = Ears::open(database, &bell.topic).await?;
        let (class, id) = bell.asleep;
        let sql = format!("SELECT pg_catalog.pg_advisory_lock_shared({class}, {id})");
        ears.session.batch_execute(&sql).await?;
        Ok(ears)
    }

    /// How many rings have been committed since it began to listen.
    pub(super) async fn heard(&self) -> Result<u64, Error> {
        // The server hands out what was committed before this statement, at its end at the latest.
        self.session.batch_execute("SELECT").await?;
        Ok(self.heard.load(Ordering::Relaxed))
    }
}
