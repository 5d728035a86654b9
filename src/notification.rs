//! One row of `notification_jobs`, as a sender sees it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

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

    /// The same notification with a deadline so long from now, for the tests of a sender.
    #[must_use]
    pub fn due_within(mut self, limit: Duration) -> Self {
        self.deadline = Instant::now() + limit;
        self
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    fn json() -> impl Strategy<Value = String> {
        let text = any::<String>().prop_map(|text| json_string(&text).to_string());
        let number = "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,2})?";
        let leaf = prop_oneof![Just("null".to_owned()), number, text];
        leaf.prop_recursive(8, 64, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(", "))),
                prop::collection::vec((any::<String>(), inner), 0..4).prop_map(|items| {
                    let members = items
                        .iter()
                        .map(|(key, value)| format!("{}: {value}", json_string(key)));
                    format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_notification_is_one_line_of_valid_json(channel: String, recipient: String, payload in json()) {
            let text = Notification::example(&channel, &recipient, &payload).to_json();
            let back: serde_json::Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(back["channel"].as_str(), Some(&*channel));
            prop_assert_eq!(back["recipient"].as_str(), Some(&*recipient));
            let verbatim = format!(r#","payload":{payload},"attempt":1,"#);
            prop_assert!(text.contains(&verbatim));
            prop_assert!(!text.contains('\n'));
        }
    }

    #[test]
    fn debug_output_keeps_personal_data_out_of_logs() {
        let text = format!("{:?}", Notification::example("ops", "ada@example.org", r#""secret""#));
        assert!(!text.contains("ada") && !text.contains("secret"), "{text}");
    }
}
