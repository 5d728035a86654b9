//! Senders that deliver nothing.

use std::future::pending;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::probe::Arrival;
use crate::{Notification, Receipt, SendError, Sender};

/// Says when it is entered, and takes its time over it.
#[derive(Clone)]
pub(super) struct Gong {
    entered: mpsc::UnboundedSender<Arrival>,
    takes: Duration,
}

impl Gong {
    /// The sender, and what it says.
    pub(super) fn taking(takes: Duration) -> (Self, mpsc::UnboundedReceiver<Arrival>) {
        let (entered, arrivals) = mpsc::unbounded_channel();
        (Gong { entered, takes }, arrivals)
    }
}

impl Sender for Gong {
    async fn send(&self, notification: &Notification) -> Result<Receipt, SendError> {
        let entered = Instant::now();
        self.entered.send((notification.recipient().to_owned(), entered))?;
        if !self.takes.is_zero() {
            tokio::time::sleep(self.takes).await;
        }
        Ok(Receipt::none())
    }
}

/// What a sender does with a row of which nobody is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Is done with it at once.
    AtOnce,
    /// Is never done with it.
    Never,
}

impl Sender for Work {
    async fn send(&self, _: &Notification) -> Result<Receipt, SendError> {
        if *self == Work::Never {
            pending::<()>().await;
        }
        Ok(Receipt::none())
    }
}
