//! Our way: a plain INSERT into the queue, until a sender is entered.

use std::time::Duration;

use super::probe::{Probe, Receiver};
use super::reactor::Running;
use super::senders::Gong;
use crate::connect::Database;
use crate::{ChannelConfig, Error, Reactor};

const INSERT: &str = r#"INSERT INTO :"schema".notification_jobs (channel, recipient) VALUES ('bench', $1)"#;
/// Of the newest row: the queue may hold others that are not ours, and the ids of its own making grow.
const UNFINISHED: &str = r#"
    SELECT EXISTS (SELECT FROM (SELECT status FROM :"schema".notification_jobs ORDER BY id DESC LIMIT 1) AS newest
                   WHERE status = 'pending')"#;

/// Far enough away that the bell alone wakes the reactor.
const SCAN_INTERVAL: Duration = Duration::from_secs(3600);

impl Probe {
    /// From just before an INSERT into `notification_jobs` until [`Sender::send`](crate::Sender::send) is entered, by a reactor of this
    /// process that listens.
    ///
    /// # Errors
    ///
    /// The server's, or [`Error::is_connection`]: the reactor cannot listen.
    pub async fn enqueue(database: &Database) -> Result<Self, Error> {
        let (gong, arrivals) = Gong::taking(Duration::ZERO);
        let reactor = Reactor::builder(database.clone())
            .channel("bench", gong, ChannelConfig::default())
            .scan_interval(SCAN_INTERVAL);
        let receiver = Receiver::Reactor(Running::start(reactor).await?);
        let render = |sql| database.schema().render(sql);
        Probe::new(database, &render(INSERT), Some(&render(UNFINISHED)), arrivals, receiver).await
    }
}
