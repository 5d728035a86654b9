//! One row of `notification_jobs`, as a producer makes it.

use std::fmt;
use std::time::Duration;

use uuid::Uuid;

/// A notification to be enqueued: channel and recipient, and what differs from the table's defaults.
///
/// ```
/// use std::time::Duration;
/// use doorbell::NewNotification;
/// use serde_json::json;
///
/// let new = NewNotification::new("ops", "#alerts")
///     .payload(json!({ "text": "disk is full" }))
///     .max_attempts(3)
///     .expires_in(Duration::from_secs(600));
/// assert_eq!(new.channel(), "ops");
/// ```
#[derive(Clone)]
#[must_use = "a new notification does nothing until it is enqueued"]
pub struct NewNotification {
    pub(crate) id: Option<Uuid>,
    pub(crate) channel: String,
    pub(crate) recipient: String,
    pub(crate) payload: Option<String>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) delay: Option<Duration>,
    pub(crate) expires_in: Option<Duration>,
    pub(crate) dedupe_key: Option<String>,
}

impl NewNotification {
    /// A notification with an empty payload (`{}`), five attempts, due at once.
    pub fn new(channel: impl Into<String>, recipient: impl Into<String>) -> Self {
        NewNotification {
            id: None,
            channel: channel.into(),
            recipient: recipient.into(),
            payload: None,
            max_attempts: None,
            delay: None,
            expires_in: None,
            dedupe_key: None,
        }
    }

    /// The payload. Default: `{}`.
    pub fn payload(mut self, payload: serde_json::Value) -> Self {
        self.payload = Some(payload.to_string());
        self
    }

    /// The payload as JSON text, for what a [`serde_json::Value`] cannot hold: numbers beyond 2^64, deep nesting. The
    /// database checks it; text that is not JSON makes the enqueue fail.
    pub fn payload_text(mut self, payload: impl Into<String>) -> Self {
        self.payload = Some(payload.into());
        self
    }

    /// The row's id, where the caller wants to choose it. Default: a UUIDv7 made by the database.
    pub fn id(mut self, id: Uuid) -> Self {
        self.id = Some(id);
        self
    }

    /// How many tries there are in all, at least 1. Default: 5.
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.max_attempts = Some(max_attempts);
        self
    }

    /// How long to wait, from now by the database's clock, before the first try. Default: none.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// After this time, from now by the database's clock, it is no longer sent but becomes `expired`. Default: never.
    pub fn expires_in(mut self, expires_in: Duration) -> Self {
        self.expires_in = Some(expires_in);
        self
    }

    /// While another notification with this key is pending on the same channel, enqueueing gives that one's id and adds
    /// nothing. Default: no key.
    pub fn dedupe_key(mut self, key: impl Into<String>) -> Self {
        self.dedupe_key = Some(key.into());
        self
    }

    /// The delivery channel.
    pub fn channel(&self) -> &str {
        &self.channel
    }

    /// Whom it is for.
    pub fn recipient(&self) -> &str {
        &self.recipient
    }
}

impl fmt::Debug for NewNotification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewNotification")
            .field("id", &self.id)
            .field("channel", &self.channel)
            .finish_non_exhaustive()
    }
}
