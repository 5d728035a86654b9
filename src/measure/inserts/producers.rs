//! The clients that insert.

use std::time::{Duration, Instant};

use futures::{Stream, StreamExt};
use tokio::task::JoinSet;
use tokio_postgres::{AsyncMessage, Statement};

use crate::Error;
use crate::connect::{Database, Dedicated};

/// How long they insert before it counts: plans are made, caches filled, a sleeping reactor is woken.
const WARM_UP: Duration = Duration::from_millis(250);

/// Clients that insert one row after the other, a connection and a transaction each.
pub(super) struct Producers(Vec<Producer>);

struct Producer {
    session: Dedicated,
    insert: Statement,
}

/// Rows that were committed.
#[derive(Clone, Copy, Default)]
pub(super) struct Inserted {
    /// Without those of the warm-up.
    pub(super) in_window: u64,
    pub(super) in_all: u64,
}

impl Producers {
    /// Connects and prepares, so that what is measured is inserting alone.
    pub(super) async fn connect(database: &Database, insert: &str, clients: u32) -> Result<Self, Error> {
        let mut producers = Vec::new();
        for _ in 0..clients {
            let mut session = database.connect_dedicated("doorbell bench").await?;
            let preparing = session.client.prepare(insert);
            let insert = tokio::select! {
                prepared = preparing => prepared?,
                gone = watch(&mut session.messages) => return Err(gone),
            };
            producers.push(Producer { session, insert });
        }
        Ok(Producers(producers))
    }

    /// Inserts for a warm-up and then for as long as `window`.
    pub(super) async fn insert(self, window: Duration) -> Result<Inserted, Error> {
        let begin = Instant::now() + WARM_UP;
        let mut working = JoinSet::new();
        for producer in self.0 {
            working.spawn(producer.insert(begin, begin + window));
        }
        let mut total = Inserted::default();
        while let Some(ended) = working.join_next().await {
            let inserted = ended.map_err(|error| Error::connection("a producer panicked").because(error))??;
            total.in_window += inserted.in_window;
            total.in_all += inserted.in_all;
        }
        Ok(total)
    }
}

impl Producer {
    /// Client and session in one task: a hand-over between two would be paid for by every row.
    async fn insert(self, begin: Instant, end: Instant) -> Result<Inserted, Error> {
        let Dedicated { client, mut messages } = self.session;
        let inserting = async {
            let mut inserted = Inserted::default();
            loop {
                client.execute(&self.insert, &[]).await?;
                inserted.in_all += 1;
                match Instant::now() {
                    now if now >= end => return Ok(inserted),
                    now if now >= begin => inserted.in_window += 1,
                    _ => {}
                }
            }
        };
        tokio::select! {
            ended = inserting => ended,
            gone = watch(&mut messages) => Err(gone),
        }
    }
}

/// Moves a session until it ends, which it should not.
async fn watch(mut messages: impl Stream<Item = Result<AsyncMessage, tokio_postgres::Error>> + Unpin) -> Error {
    loop {
        match messages.next().await {
            Some(Ok(_)) => {}
            Some(Err(error)) => return error.into(),
            None => return Error::connection("a producer's session is gone"),
        }
    }
}
