//! A sender whose sends take until the test says so.

use std::time::Duration;

use doorbell::senders::Recording;
use doorbell::{Notification, Receipt, SendError, Sender};
use tokio::sync::watch;

/// Records what it is given at once, and delivers while it is open.
#[derive(Clone)]
pub(crate) struct Gate {
    recording: Recording,
    open: watch::Sender<bool>,
}

impl Gate {
    pub(crate) fn shut() -> Self {
        Gate {
            recording: Recording::new(),
            open: watch::Sender::new(false),
        }
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }

    /// The next notification that a send began with.
    pub(crate) async fn next(&self) -> Notification {
        self.recording.next().await
    }

    /// As [`Recording::wait_for`].
    pub(crate) async fn wait_for(&self, count: usize, limit: Duration) -> Vec<Notification> {
        self.recording.wait_for(count, limit).await
    }

    /// All that sends have begun with.
    pub(crate) fn sends(&self) -> Vec<Notification> {
        self.recording.recorded()
    }

    /// How many sends have begun.
    pub(crate) fn begun(&self) -> usize {
        self.recording.recorded().len()
    }
}

impl Sender for Gate {
    async fn send(&self, notification: &Notification) -> Result<Receipt, SendError> {
        let receipt = self.recording.send(notification).await?;
        self.open.subscribe().wait_for(|open| *open).await?;
        Ok(receipt)
    }
}
