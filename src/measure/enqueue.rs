//! Our way: a plain INSERT into the queue, until a sender is entered.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::probe::{Arrival, Probe, Receiver};
use crate::connect::Database;
use crate::{ChannelConfig, Error, Mode, Notification, Reactor, Receipt, SendError, Sender};

const INSERT: &str = r#"INSERT INTO :"schema".notification_jobs (channel, recipient) VALUES ('bench', $1)"#;
const UNFINISHED: &str = r#"SELECT EXISTS (SELECT FROM :"schema".notification_jobs WHERE status = 'pending')"#;

/// Far enough away that the bell alone wakes the reactor.
const SCAN_INTERVAL: Duration = Duration::from_secs(3600);

/// Says when it is entered, and delivers nothing.
struct Gong(mpsc::UnboundedSender<Arrival>);

impl Sender for Gong {
    async fn send(&self, notification: &Notification) -> Result<Receipt, SendError> {
        let entered = Instant::now();
        self.0.send((notification.recipient().to_owned(), entered))?;
        Ok(Receipt::none())
    }
}

impl Probe {
    /// From just before an INSERT into `notification_jobs` until [`Sender::send`] is entered, by a reactor of this
    /// process that listens.
    ///
    /// # Errors
    ///
    /// The server's, or [`Error::is_connection`]: the reactor cannot listen.
    pub async fn enqueue(database: &Database) -> Result<Self, Error> {
        let (gong, arrivals) = mpsc::unbounded_channel();
        let receiver = start_reactor(database, Gong(gong)).await?;
        let render = |sql| database.schema().render(sql);
        Probe::new(database, &render(INSERT), Some(&render(UNFINISHED)), arrivals, receiver).await
    }
}

async fn start_reactor(database: &Database, gong: Gong) -> Result<Receiver, Error> {
    let reactor = Reactor::builder(database.clone())
        .channel("bench", gong, ChannelConfig::default())
        .scan_interval(SCAN_INTERVAL)
        .build()?;
    let reactor = std::sync::Arc::new(reactor);
    let running = std::sync::Arc::clone(&reactor);
    let receiver = Receiver::Task(tokio::spawn(async move {
        if let Err(error) = running.run(std::future::pending()).await {
            tracing::error!(error = %error.chain(), "the measured reactor ended");
        }
    }));
    match reactor.started().await {
        Mode::Polling { why } => Err(Error::connection(format!("the reactor cannot listen: {why}"))),
        _ => Ok(receiver),
    }
}
