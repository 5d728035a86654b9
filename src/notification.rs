//! One row of `notification_jobs`, as a sender sees it and as a producer makes it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::Error;

/// What a [`Sender`](crate::Sender) is given: one notification, on one attempt.
#[derive(Clone)]
pub struct Notification {
    pub(crate) id: Uuid,
    pub(crate) channel: Arc<str>,
    pub(crate) recipient: String,
    pub(crate) payload: String,
    pub(crate) attempt: u32,
    pub(crate) max_attempts: u32,
    pub(crate) enqueued_to_send: Duration,
    pub(crate) deadline: Instant,
}

impl Notification {
    /// A notification made by hand, for the tests of a sender: first attempt of five, due in 30 s at the latest.
    ///
    /// ```
    /// use doorbell::Notification;
    ///
    /// let notification = Notification::example("email", "ada@example.org", r#"{"subject": "hello"}"#);
    /// assert_eq!(notification.attempt(), 1);
    /// ```
    pub fn example(channel: &str, recipient: &str, payload: &str) -> Self {
        Notification {
            id: Uuid::now_v7(),
            channel: channel.into(),
            recipient: recipient.to_owned(),
            payload: payload.to_owned(),
            attempt: 1,
            max_attempts: 5,
            enqueued_to_send: Duration::ZERO,
            deadline: Instant::now() + Duration::from_secs(30),
        }
    }

    /// The row's id: the same on every attempt, so the idempotency key to hand to a provider.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// The delivery channel.
    pub fn channel(&self) -> &str {
        &self.channel
    }

    /// Whom it is for: what this text means is the sender's business.
    pub fn recipient(&self) -> &str {
        &self.recipient
    }

    /// The payload as PostgreSQL prints the jsonb, byte for byte: JSON text of any kind, not only objects.
    pub fn payload(&self) -> &str {
        &self.payload
    }

    /// The payload, parsed.
    ///
    /// # Errors
    ///
    /// The payload is not a `T`, or holds what `serde_json` cannot take (a number such as `1e400` as an `f64`, more than
    /// 128 levels of nesting). `?` in a sender makes that a transient failure; [`SendError::permanent`] is the better
    /// answer where a new try cannot help.
    ///
    /// [`SendError::permanent`]: crate::SendError::permanent
    pub fn payload_as<'a, T: serde::Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.payload)
    }

    /// The one-line JSON object that every shipped sender hands on:
    /// `{"id","channel","recipient","payload","attempt","max_attempts","enqueued_to_send_us"}`, the payload verbatim.
    pub fn to_json(&self) -> String {
        // Put together by hand because the payload must go through untouched: parsing it would change large numbers.
        format!(
            r#"{{"id":"{}","channel":{},"recipient":{},"payload":{},"attempt":{},"max_attempts":{},"enqueued_to_send_us":{}}}"#,
            self.id,
            json_string(&self.channel),
            json_string(&self.recipient),
            self.payload,
            self.attempt,
            self.max_attempts,
            self.enqueued_to_send.as_micros(),
        )
    }

    /// Which try this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// How many tries there are in all.
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// How long ago the row was created (by the database's clock) when it was handed to the sender.
    pub fn enqueued_to_send(&self) -> Duration {
        self.enqueued_to_send
    }

    /// When this send is dropped: after the channel's `timeout`, or when the row expires if that is sooner.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }
}

/// Leaves recipient and payload out: they are personal data, and `{:?}` ends in logs.
impl fmt::Debug for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notification")
            .field("id", &self.id)
            .field("channel", &self.channel)
            .field("attempt", &self.attempt)
            .field("max_attempts", &self.max_attempts)
            .finish_non_exhaustive()
    }
}

fn json_string(text: &str) -> serde_json::Value {
    serde_json::Value::String(text.to_owned())
}

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

/// Where a notification is in its life: the column `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Status {
    /// Waiting to be due, due, or being sent just now.
    Pending,
    /// Delivered.
    Sent,
    /// Given up: a permanent error, no attempts left, or held because nobody knows whether it arrived.
    Failed,
    /// Its `expires_at` passed before it was sent.
    Expired,
    /// Withdrawn before it was sent.
    Cancelled,
}

impl Status {
    /// Every status, in the order of a life.
    pub const ALL: [Status; 5] = [
        Status::Pending,
        Status::Sent,
        Status::Failed,
        Status::Expired,
        Status::Cancelled,
    ];

    /// The text in the column.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Sent => "sent",
            Status::Failed => "failed",
            Status::Expired => "expired",
            Status::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Status {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Status::ALL
            .into_iter()
            .find(|status| status.as_str() == text)
            .ok_or_else(|| {
                let known = Status::ALL.map(Status::as_str).join(", ");
                Error::input(format!("unknown status {text:?}: it is one of {known}"))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_carries_the_payload_untouched() {
        let payload = r#"{"a": 9007199254740993, "b": 1e400}"#;
        let mut notification = Notification::example("ops", "a\"b\n", payload);
        notification.enqueued_to_send = Duration::from_micros(1234);
        let id = notification.id();
        assert_eq!(
            notification.to_json(),
            format!(
                r#"{{"id":"{id}","channel":"ops","recipient":"a\"b\n","payload":{payload},"attempt":1,"max_attempts":5,"enqueued_to_send_us":1234}}"#
            )
        );
    }

    #[test]
    fn debug_output_keeps_personal_data_out_of_logs() {
        let text = format!("{:?}", Notification::example("ops", "ada@example.org", r#""secret""#));
        assert!(!text.contains("ada") && !text.contains("secret"), "{text}");
    }

    #[test]
    fn status_reads_what_it_prints() {
        for status in Status::ALL {
            assert_eq!(status.to_string().parse::<Status>().unwrap(), status);
        }
        assert!(
            "sending"
                .parse::<Status>()
                .unwrap_err()
                .to_string()
                .contains("pending, sent")
        );
    }
}
