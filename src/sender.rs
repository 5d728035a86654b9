//! What a user implements: the thing that delivers one notification.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use crate::Notification;
use crate::error::causes;

/// Delivers the notifications of one channel.
///
/// Write it with `async fn`; the trait asks for a `Send` future because the reactor runs sends on many threads. One
/// value serves all sends of its channel, up to `max_in_flight` of them at once.
///
/// Delivery is *at least once*: after a crash between "delivered" and "written down" the same notification comes
/// again, with the same [`id`](Notification::id). Hand that id to the provider as its idempotency key.
///
/// A send that runs longer than the channel's `timeout` is dropped at its next await. One that panics is a failed
/// attempt; the reactor goes on.
///
/// ```
/// use doorbell::{Notification, Receipt, SendError, Sender};
///
/// struct Email;
///
/// impl Sender for Email {
///     async fn send(&self, notification: &Notification) -> Result<Receipt, SendError> {
///         if !notification.recipient().contains('@') {
///             return Err(SendError::permanent("not an address"));
///         }
///         let letter: serde_json::Value = notification.payload_as()?;
///         let message_id = format!("<{}@example.org> {letter}", notification.id());
///         Ok(Receipt::new(message_id))
///     }
/// }
/// ```
pub trait Sender: Send + Sync + 'static {
    /// Delivers one notification.
    ///
    /// # Errors
    ///
    /// A [`SendError`] says what happens next: try again by the channel's retry policy, try again after a given time,
    /// never again, or "nobody knows whether it arrived".
    fn send(&self, notification: &Notification) -> impl Future<Output = Result<Receipt, SendError>> + Send;
}

impl<S: Sender> Sender for Arc<S> {
    fn send(&self, notification: &Notification) -> impl Future<Output = Result<Receipt, SendError>> + Send {
        (**self).send(notification)
    }
}

/// The same trait, usable behind a pointer. Private, so that nobody has to see a boxed future.
pub(crate) trait AnySender: Send + Sync + 'static {
    fn send<'a>(&'a self, notification: &'a Notification) -> BoxFuture<'a, Result<Receipt, SendError>>;
}

impl<S: Sender> AnySender for S {
    fn send<'a>(&'a self, notification: &'a Notification) -> BoxFuture<'a, Result<Receipt, SendError>> {
        Box::pin(Sender::send(self, notification))
    }
}

/// What the provider answered, kept in the row's `receipt`: usually its message id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipt(Option<String>);

impl Receipt {
    /// A receipt with the provider's answer. NUL characters are dropped and the text is cut to 2 kB when stored.
    pub fn new(text: impl Into<String>) -> Self {
        Receipt(Some(text.into()))
    }

    /// Delivered, and nothing to keep.
    pub fn none() -> Self {
        Receipt(None)
    }

    /// The provider's answer.
    pub fn text(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

/// Why a send failed, and so what happens next.
///
/// `?` turns any error into a [transient](SendError::transient) one. For that reason this type is not itself a
/// [`std::error::Error`].
pub struct SendError {
    advice: Advice,
    message: String,
}

/// What a failed send asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    Retry,
    RetryAfter(Duration),
    GiveUp,
    Unknown,
}

impl SendError {
    /// May work later: the channel's [`RetryPolicy`](crate::RetryPolicy) says when.
    pub fn transient(message: impl fmt::Display) -> Self {
        SendError {
            advice: Advice::Retry,
            message: message.to_string(),
        }
    }

    /// Will never work (no such recipient): the row is `failed` at once, whatever `max_attempts` says.
    pub fn permanent(message: impl fmt::Display) -> Self {
        SendError {
            advice: Advice::GiveUp,
            message: message.to_string(),
        }
    }

    /// The provider said when to come back. It counts as an attempt; the delay is clamped to 24 hours.
    pub fn retry_after(delay: Duration, message: impl fmt::Display) -> Self {
        SendError {
            advice: Advice::RetryAfter(delay),
            message: message.to_string(),
        }
    }

    /// It may have arrived (a reply that was lost). The channel's
    /// [`OnUnknown`](crate::OnUnknown) decides: try again, or hold the row as `failed`.
    pub fn unknown(message: impl fmt::Display) -> Self {
        SendError {
            advice: Advice::Unknown,
            message: message.to_string(),
        }
    }

    /// The text that is kept in the row's `last_error`. NUL characters are dropped and it is cut to 2 kB when stored.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Is this a [permanent](SendError::permanent) failure?
    pub fn is_permanent(&self) -> bool {
        self.advice == Advice::GiveUp
    }

    /// Is this an [unknown](SendError::unknown) outcome?
    pub fn is_unknown(&self) -> bool {
        self.advice == Advice::Unknown
    }

    /// The delay of a [`retry_after`](SendError::retry_after).
    pub fn delay(&self) -> Option<Duration> {
        match self.advice {
            Advice::RetryAfter(delay) => Some(delay),
            _ => None,
        }
    }

    pub(crate) fn advice(&self) -> Advice {
        self.advice
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for SendError {
    fn from(error: E) -> Self {
        let causes = causes(&error).map(|cause| format!(": {cause}"));
        SendError::transient(format!("{error}{}", causes.collect::<String>()))
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.advice, self.message)
    }
}
