//! The column `status`.

use std::fmt;
use std::str::FromStr;

use crate::Error;

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
