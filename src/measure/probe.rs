//! One row after the other, from just before its INSERT until it arrives.

use std::time::{Duration, Instant};

use futures::StreamExt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client as PgClient, Notification as Notify, Statement};

use super::reactor::Running;
use crate::Error;
use crate::connect::Database;

/// How long one row may take before the measurement is given up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at whether a row is done with.
const PACE: Duration = Duration::from_millis(1);

/// A row's `recipient`, which tells it from all others, and when it arrived.
pub(super) type Arrival = (String, Instant);

/// A producer on a connection of its own, and a receiving end that says when each row arrives.
///
/// Both ends are in one process, so one clock takes both times. The INSERT is prepared beforehand: what is measured is
/// the way of a row, not the parsing of a statement.
pub struct Probe {
    producer: PgClient,
    insert: Statement,
    /// Answers true while a row is not yet done with.
    unfinished: Option<Statement>,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    rows: u64,
    _receiver: Receiver,
}

/// What makes the arrivals; ends with the probe.
pub(super) enum Receiver {
    Task(JoinHandle<()>),
    Reactor(#[expect(dead_code, reason = "a reactor runs as long as this lasts")] Running),
    Session(#[expect(dead_code, reason = "a session lasts as long as its client")] PgClient),
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Receiver::Task(task) = self {
            task.abort();
        }
    }
}

impl Probe {
    /// `insert` has the row's `recipient` as its only parameter; `unfinished` answers with one boolean.
    pub(super) async fn new(
        database: &Database,
        insert: &str,
        unfinished: Option<&str>,
        arrivals: mpsc::UnboundedReceiver<Arrival>,
        receiver: Receiver,
    ) -> Result<Self, Error> {
        let producer = session(database).await?;
        let unfinished = match unfinished {
            Some(sql) => Some(producer.prepare(sql).await?),
            None => None,
        };
        Ok(Probe {
            insert: producer.prepare(insert).await?,
            producer,
            unfinished,
            arrivals,
            rows: 0,
            _receiver: receiver,
        })
    }

    /// Times one row, and returns when it has arrived.
    ///
    /// # Errors
    ///
    /// The server's, or [`Error::is_timeout`]: the row did not arrive within 10 s.
    pub async fn time_one(&mut self) -> Result<Duration, Error> {
        self.rows += 1;
        let recipient = self.rows.to_string();
        let begun = Instant::now();
        self.producer.execute(&self.insert, &[&recipient]).await?;
        let arrived = in_time(PATIENCE, "a row did not arrive", self.arrival_of(&recipient)).await?;
        Ok(arrived - begun)
    }

    /// Waits until all that the rows set going is done.
    ///
    /// # Errors
    ///
    /// The server's, or [`Error::is_timeout`]: something was still going on after 10 s.
    pub async fn settled(&self) -> Result<(), Error> {
        in_time(PATIENCE, "a row was not done with", self.finish()).await
    }

    async fn arrival_of(&mut self, recipient: &str) -> Result<Instant, Error> {
        while let Some((arrived, at)) = self.arrivals.recv().await {
            if arrived == recipient {
                return Ok(at);
            }
        }
        Err(Error::connection("the receiving end is gone"))
    }

    async fn finish(&self) -> Result<(), Error> {
        let Some(unfinished) = &self.unfinished else {
            return Ok(());
        };
        while self.producer.query_one(unfinished, &[]).await?.try_get(0)? {
            tokio::time::sleep(PACE).await;
        }
        Ok(())
    }
}

pub(super) async fn in_time<T>(
    limit: Duration,
    complaint: &str,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(limit, work).await {
        Ok(result) => result,
        Err(_) => Err(Error::timeout(format!("{complaint} within {limit:?}"))),
    }
}

/// A session outside every pool, which lasts as long as its client.
pub(super) async fn session(database: &Database) -> Result<PgClient, Error> {
    hearing_session(database, |_| {}).await
}

/// The same, for one that listens.
pub(super) async fn hearing_session(
    database: &Database,
    mut heard: impl FnMut(Notify) + Send + 'static,
) -> Result<PgClient, Error> {
    let mut dedicated = database.connect_dedicated("doorbell bench").await?;
    tokio::spawn(async move {
        while let Some(Ok(message)) = dedicated.messages.next().await {
            if let AsyncMessage::Notification(notify) = message {
                heard(notify);
            }
        }
    });
    Ok(dedicated.client)
}
