//! What becomes of a row after a send: a pure function, so that every kind of failure passes through one place.
//!
//! An outcome does not know whether attempts are left. The row's own `max_attempts` decides that at the moment of the
//! settle (it may have been changed while the send ran), in one expression of `store/settle.sql` that every retry goes
//! through.

use std::time::Duration;

use crate::sender::{Advice, Receipt, SendError};
use crate::{OnUnknown, RetryPolicy};

/// A sender's `retry_after` is cut to this.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(24 * 3600);

/// How a send ended.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The sender answered.
    Answered(Result<Receipt, SendError>),
    /// The deadline passed; the send was dropped.
    TimedOut(Duration),
    /// The sender panicked.
    Panicked(String),
    /// The reactor dropped the send because it is stopping.
    Aborted,
    /// The sender was not called: the row expired before, or the reactor stops.
    NotBegun,
}

/// What is written to the row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// Delivered.
    Sent { receipt: Option<String> },
    /// Pending again after the delay; `failed` if no attempt is left.
    Retry { delay: Duration, error: String },
    /// `failed` at once.
    Failed { error: String },
    /// Given back: due at once, and the attempt is not counted.
    Released,
}

impl Outcome {
    /// Takes out what the sender said, in case the database refuses the text; false if that changes nothing.
    pub(crate) fn make_plain(&mut self) -> bool {
        const PLAIN: &str = "the database refused to keep the sender's error text";
        match self {
            Outcome::Sent { receipt } => receipt.take().is_some(),
            Outcome::Retry { error, .. } | Outcome::Failed { error } if error != PLAIN => {
                PLAIN.clone_into(error);
                true
            }
            _ => false,
        }
    }
}

/// Decides what is written, from how the send ended, which attempt it was, and the channel's policies. `random` is
/// between 0 and 1 and spreads retries.
pub(crate) fn decide(ending: Ending, attempt: u32, retry: &RetryPolicy, on_unknown: OnUnknown, random: f64) -> Outcome {
    let unknown = |what: String| match on_unknown {
        OnUnknown::Retry => Outcome::Retry {
            delay: retry.delay(attempt, random),
            error: what,
        },
        OnUnknown::Hold => Outcome::Failed {
            error: format!("held: {what}; it may have arrived"),
        },
    };
    match ending {
        Ending::Answered(Ok(receipt)) => Outcome::Sent {
            receipt: receipt.text().map(storable),
        },
        Ending::Answered(Err(error)) => {
            let text = storable(error.message());
            match error.advice() {
                Advice::Retry => Outcome::Retry {
                    delay: retry.delay(attempt, random),
                    error: text,
                },
                Advice::RetryAfter(delay) => {
                    let delay = retry.spread(delay.min(LONGEST_RETRY_AFTER), random);
                    Outcome::Retry { delay, error: text }
                }
                Advice::GiveUp => Outcome::Failed { error: text },
                Advice::Unknown => unknown(text),
            }
        }
        Ending::TimedOut(after) => unknown(format!("no answer from the sender after {after:?}")),
        Ending::Panicked(message) => unknown(storable(&format!("the sender panicked: {message}"))),
        Ending::Aborted => match on_unknown {
            OnUnknown::Retry => Outcome::Released,
            OnUnknown::Hold => unknown("the send was cut off by a shutdown".to_owned()),
        },
        // An expired row is marked as such by the next claim.
        Ending::NotBegun => Outcome::Released,
    }
}

/// Text that a PostgreSQL `text` column takes: no NUL, at most 2 kB.
pub(crate) fn storable(text: &str) -> String {
    const LIMIT: usize = 2048;
    let mut clean: String = text.chars().filter(|&c| c != '\0').take(LIMIT).collect();
    let mut end = LIMIT.min(clean.len());
    while !clean.is_char_boundary(end) {
        end -= 1;
    }
    clean.truncate(end);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn endings() -> Vec<Ending> {
        vec![
            Ending::Answered(Ok(Receipt::new("250 ok"))),
            Ending::Answered(Err(SendError::transient("t"))),
            Ending::Answered(Err(SendError::permanent("p"))),
            Ending::Answered(Err(SendError::retry_after(Duration::from_secs(u64::MAX), "later"))),
            Ending::Answered(Err(SendError::unknown("u"))),
            Ending::TimedOut(Duration::from_secs(1)),
            Ending::Panicked("boom".to_owned()),
            Ending::Aborted,
            Ending::NotBegun,
        ]
    }

    /// What becomes of each of these endings at the second attempt.
    fn decided(on_unknown: OnUnknown) -> Vec<(String, Outcome)> {
        let decided = |ending: Ending| {
            let what = format!("{ending:?}");
            (what, decide(ending, 2, &RetryPolicy::default(), on_unknown, 0.0))
        };
        endings().into_iter().map(decided).collect()
    }

    fn are(decided: &[(String, Outcome)], expected: [&str; 9]) {
        assert_eq!(decided.len(), expected.len());
        for ((ending, outcome), expected) in decided.iter().zip(expected) {
            let got = match outcome {
                Outcome::Sent { .. } => "sent",
                Outcome::Retry { .. } => "retry",
                Outcome::Failed { .. } => "fail",
                Outcome::Released => "released",
            };
            assert_eq!(got, expected, "{ending}");
        }
    }

    #[test]
    fn a_hold_channel_never_tries_again_what_may_have_arrived() {
        let expected = [
            "sent", "retry", "fail", "retry", "fail", "fail", "fail", "fail", "released",
        ];
        are(&decided(OnUnknown::Hold), expected);
    }

    #[test]
    fn elsewhere_only_a_permanent_error_fails_at_once_and_only_a_send_that_did_not_end_is_free() {
        let decided = decided(OnUnknown::Retry);
        let expected = [
            "sent", "retry", "fail", "retry", "retry", "retry", "retry", "released", "released",
        ];
        are(&decided, expected);
        for (ending, outcome) in &decided {
            match outcome {
                Outcome::Sent { receipt } => assert_eq!(receipt.as_deref(), Some("250 ok")),
                Outcome::Retry { delay, .. } if ending.contains("RetryAfter") => {
                    assert_eq!(*delay, LONGEST_RETRY_AFTER)
                }
                Outcome::Retry { delay, .. } => assert_eq!(*delay, Duration::from_millis(400), "{ending}"),
                Outcome::Failed { .. } | Outcome::Released => {}
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_becomes_storable(text in "\\PC*|[\0a]*|é{1500}|😀{2000}") {
            let clean = storable(&text);
            prop_assert!(clean.len() <= 2048 && !clean.contains('\0'));
        }
    }
}
