//! The senders that ship, and one for tests.
//!
//! Each hands on [`Notification::to_json`](crate::Notification::to_json), the payload byte for byte as PostgreSQL prints
//! it. None needs more than a [`Notification`](crate::Notification), so each can be tried without a database:
//!
//! ```
//! use doorbell::senders::Log;
//! use doorbell::{Notification, Sender};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let notification = Notification::example("ops", "#alerts", r#"{"text": "disk is full"}"#);
//! Log::new().send(&notification).await.unwrap();
//! # }
//! ```

#[cfg(feature = "command")]
mod command;
mod log;
mod recording;
#[cfg(feature = "webhook")]
mod webhook;

#[cfg(feature = "command")]
pub use command::Command;
pub use log::Log;
pub use recording::Recording;
#[cfg(feature = "webhook")]
pub use webhook::{Webhook, WebhookBuilder};

/// The start of somebody's output as one line of text, of at most so many characters: it ends in `last_error` or
/// `receipt`, which are read in tables.
#[cfg(any(feature = "command", feature = "webhook"))]
fn excerpt(output: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(output);
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    line.chars().take(most).collect()
}

/// An [`excerpt`] as a receipt; none if nothing is left of it.
#[cfg(any(feature = "command", feature = "webhook"))]
fn receipt(output: &[u8], most: usize) -> crate::Receipt {
    match excerpt(output, most) {
        line if line.is_empty() => crate::Receipt::none(),
        line => crate::Receipt::new(line),
    }
}

#[cfg(all(test, any(feature = "command", feature = "webhook")))]
mod tests {
    use super::*;

    #[test]
    fn output_becomes_one_short_line() {
        assert_eq!(excerpt(b"  one\r\n\ttwo\0\xff three\n", 9), "one two \u{fffd}");
        assert_eq!(receipt(b" \n\0", 9).text(), None);
        assert_eq!(receipt("ééé".as_bytes(), 2).text(), Some("éé"));
    }
}
