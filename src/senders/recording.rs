//! The sender for tests.

use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::{Notification, Receipt, SendError, Sender};

/// Delivers nothing, keeps every notification that it is given, and answers as told: for your tests.
///
/// Clones share what they record, so give one to the reactor and keep one.
///
/// ```
/// use std::time::Duration;
/// use doorbell::senders::Recording;
/// use doorbell::{Notification, Receipt, SendError, Sender};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let recording = Recording::answering(|notification| match notification.recipient() {
///     "nobody" => Err(SendError::permanent("no such recipient")),
///     _ => Ok(Receipt::new("250 ok")),
/// });
///
/// // What the reactor does with its clone:
/// let sender = recording.clone();
/// sender.send(&Notification::example("sms", "ada", "{}")).await.unwrap();
/// sender.send(&Notification::example("sms", "nobody", "{}")).await.unwrap_err();
///
/// assert_eq!(recording.next().await.recipient(), "ada");
/// let both = recording.wait_for(2, Duration::from_secs(5)).await;
/// assert_eq!(both.len(), 2);
/// # }
/// ```
#[derive(Clone)]
pub struct Recording {
    shared: Arc<Shared>,
}

type Answer = dyn FnMut(&Notification) -> Result<Receipt, SendError> + Send;

struct Shared {
    recorded: watch::Sender<Vec<Notification>>,
    answer: std::sync::Mutex<Box<Answer>>,
    /// How many [`Recording::next`] has given out.
    taken: tokio::sync::Mutex<usize>,
}

impl Recording {
    /// A recording sender to which every send succeeds, without a receipt.
    pub fn new() -> Self {
        Recording::answering(|_| Ok(Receipt::none()))
    }

    /// A recording sender that answers what this closure answers. It is called once a send, one call at a time, after
    /// the notification was recorded; it may keep a script of answers, count, or panic.
    pub fn answering(answer: impl FnMut(&Notification) -> Result<Receipt, SendError> + Send + 'static) -> Self {
        Recording {
            shared: Arc::new(Shared {
                recorded: watch::Sender::default(),
                answer: std::sync::Mutex::new(Box::new(answer)),
                taken: tokio::sync::Mutex::default(),
            }),
        }
    }

    /// Everything recorded so far, in the order in which the sends began.
    pub fn recorded(&self) -> Vec<Notification> {
        self.shared.recorded.borrow().clone()
    }

    /// The next notification, in order, that no earlier call of this method has given. Waits as long as it takes;
    /// [`tokio::time::timeout`] bounds it, and a call that is given up takes nothing.
    pub async fn next(&self) -> Notification {
        let mut taken = self.shared.taken.lock().await;
        let notification = self.wait_until(*taken + 1).await.swap_remove(*taken);
        *taken += 1;
        notification
    }

    /// Waits until `count` notifications have been recorded in all, but no longer than `limit`, and gives everything
    /// recorded by then: less than `count` if the time was up.
    pub async fn wait_for(&self, count: usize, limit: Duration) -> Vec<Notification> {
        match timeout(limit, self.wait_until(count)).await {
            Ok(recorded) => recorded,
            Err(_) => self.recorded(),
        }
    }

    async fn wait_until(&self, count: usize) -> Vec<Notification> {
        let mut changes = self.shared.recorded.subscribe();
        // An error would mean that the other half is gone, which `self` holds.
        let _ = changes.wait_for(|recorded| recorded.len() >= count).await;
        self.recorded()
    }
}

impl Default for Recording {
    fn default() -> Self {
        Recording::new()
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Recording")
            .field(&*self.shared.recorded.borrow())
            .finish()
    }
}

impl Sender for Recording {
    async fn send(&self, notification: &Notification) -> Result<Receipt, SendError> {
        self.shared
            .recorded
            .send_modify(|recorded| recorded.push(notification.clone()));
        // A closure that panicked once is called again all the same: a test may want several panics.
        let mut answer = self.shared.answer.lock().unwrap_or_else(PoisonError::into_inner);
        (*answer)(notification)
    }
}
