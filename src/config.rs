//! Settings of a reactor, checked in one place.

use std::time::Duration;

use crate::{Error, RetryPolicy};

/// What to do when nobody knows whether a notification arrived: its reactor died, its lease ended, its send timed out,
/// panicked or was cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUnknown {
    /// Try again, by the retry policy. It may arrive twice.
    #[default]
    Retry,
    /// Never send twice by ourselves: the row becomes `failed` with a `last_error` that says so, and a person decides.
    /// Claims of such a channel wait for their flush to disk.
    Hold,
}

/// Settings of one channel in one reactor.
///
/// ```
/// use std::time::Duration;
/// use doorbell::{ChannelConfig, OnUnknown, RetryPolicy};
///
/// let sms = ChannelConfig::default()
///     .max_in_flight(4)
///     .timeout(Duration::from_secs(5))
///     .retry(RetryPolicy::exponential(Duration::from_secs(1), Duration::from_secs(900)))
///     .on_unknown(OnUnknown::Hold);
/// # let _ = sms;
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct ChannelConfig {
    pub(crate) max_in_flight: u32,
    pub(crate) timeout: Duration,
    pub(crate) retry: RetryPolicy,
    pub(crate) on_unknown: OnUnknown,
}

impl Default for ChannelConfig {
    fn default() -> Self {
        ChannelConfig {
            max_in_flight: 16,
            timeout: Duration::from_secs(10),
            retry: RetryPolicy::default(),
            on_unknown: OnUnknown::default(),
        }
    }
}

impl ChannelConfig {
    /// How many sends of this channel run at once in this reactor; never more rows are claimed. 1 to 10,000. Default: 16.
    pub fn max_in_flight(mut self, sends: u32) -> Self {
        self.max_in_flight = sends;
        self
    }

    /// How long one send may take before it is dropped. From 1 ms to 24 hours. Default: 10 s. May be longer than the
    /// reactor's lease: leases are renewed while sends run.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long to wait after a failed attempt. Default: 200 ms × attempt.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// What to do when nobody knows whether it arrived. Default: try again.
    pub fn on_unknown(mut self, on_unknown: OnUnknown) -> Self {
        self.on_unknown = on_unknown;
        self
    }

    /// Checks every setting; the error names the first that is wrong.
    pub(crate) fn validate(&self, channel: &str) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::config(format!("channels.{channel}: {what}")));
        if !(1..=10_000).contains(&self.max_in_flight) {
            return wrong(format!(
                "max_in_flight is {}; it must be from 1 to 10000",
                self.max_in_flight
            ));
        }
        if self.timeout < Duration::from_millis(1) || self.timeout > Duration::from_secs(24 * 3600) {
            return wrong(format!("timeout is {:?}; it must be from 1ms to 24h", self.timeout));
        }
        match self.retry.flaw() {
            Some(flaw) => wrong(flaw),
            None => Ok(()),
        }
    }
}

/// Settings of a reactor as a whole.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReactorConfig {
    pub(crate) lease: Duration,
    pub(crate) scan_interval: Duration,
    pub(crate) shutdown_grace: Duration,
}

impl Default for ReactorConfig {
    fn default() -> Self {
        ReactorConfig {
            lease: Duration::from_secs(30),
            scan_interval: Duration::from_secs(5),
            shutdown_grace: Duration::from_secs(20),
        }
    }
}

impl ReactorConfig {
    pub(crate) fn validate(&self) -> Result<(), Error> {
        let bounds = [
            (
                "lease",
                self.lease,
                Duration::from_secs(1),
                Duration::from_secs(24 * 3600),
            ),
            (
                "scan_interval",
                self.scan_interval,
                Duration::from_millis(10),
                Duration::from_secs(3600),
            ),
            (
                "shutdown_grace",
                self.shutdown_grace,
                Duration::ZERO,
                Duration::from_secs(24 * 3600),
            ),
        ];
        for (name, value, least, most) in bounds {
            if value < least || value > most {
                return Err(Error::config(format!(
                    "reactor.{name} is {value:?}; it must be from {least:?} to {most:?}"
                )));
            }
        }
        Ok(())
    }
}

/// The longest channel name in bytes: it is part of an index entry.
pub(crate) const LONGEST_CHANNEL: usize = 1024;

/// Checks the name of a delivery channel.
pub(crate) fn validate_channel_name(channel: &str) -> Result<(), Error> {
    if channel.is_empty() {
        return Err(Error::config("a channel's name must not be empty"));
    }
    if channel.len() > LONGEST_CHANNEL || channel.contains('\0') {
        let start: String = channel.chars().take(20).collect();
        return Err(Error::config(format!(
            "channel {start:?}…: at most {LONGEST_CHANNEL} bytes and no NUL"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_setting_is_named() {
        let message = |config: ChannelConfig| config.validate("sms").unwrap_err().to_string();
        assert!(message(ChannelConfig::default().max_in_flight(0)).contains("channels.sms: max_in_flight is 0"));
        assert!(message(ChannelConfig::default().timeout(Duration::ZERO)).contains("timeout"));
        let retry = RetryPolicy::exponential(Duration::from_secs(2), Duration::from_secs(1));
        assert!(message(ChannelConfig::default().retry(retry)).contains("retry.exponential.max"));
        let reactor = ReactorConfig {
            lease: Duration::ZERO,
            ..ReactorConfig::default()
        };
        assert!(reactor.validate().unwrap_err().to_string().contains("reactor.lease"));
        assert!(ChannelConfig::default().validate("sms").is_ok() && ReactorConfig::default().validate().is_ok());
        assert!(validate_channel_name("").is_err() && validate_channel_name(&"x".repeat(1025)).is_err());
    }
}
