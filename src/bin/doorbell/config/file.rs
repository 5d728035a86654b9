//! The file as it is written. Only `toml` knows where things stand, so what may be wrong in itself is found here.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) database: DatabaseTable,
    #[serde(default)]
    pub(super) reactor: ReactorTable,
    #[serde(default)]
    pub(super) channels: BTreeMap<String, Spanned<ChannelTable>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DatabaseTable {
    pub(super) url: Option<String>,
    pub(super) listen_url: Option<String>,
    pub(super) schema: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReactorTable {
    pub(super) lease: Option<Period>,
    pub(super) scan_interval: Option<Period>,
    pub(super) shutdown_grace: Option<Period>,
}

/// One table for all senders, so that a key of another sender can be told from an unknown one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChannelTable {
    pub(super) sender: Option<SenderName>,
    pub(super) max_in_flight: Option<u32>,
    pub(super) timeout: Option<Period>,
    pub(super) retry: Option<Spanned<RetryTable>>,
    pub(super) on_unknown: Option<OnUnknownName>,
    pub(super) url: Option<Spanned<String>>,
    pub(super) headers: Option<Spanned<BTreeMap<String, String>>>,
    pub(super) command: Option<Spanned<Vec<String>>>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum SenderName {
    Log,
    Webhook,
    Command,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum OnUnknownName {
    Retry,
    Hold,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RetryTable {
    pub(super) linear: Option<Period>,
    pub(super) exponential: Option<ExponentialTable>,
    pub(super) jitter: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExponentialTable {
    pub(super) initial: Period,
    pub(super) max: Period,
}

/// A duration written for people: `"200ms"`, `"1h 30m"`.
#[derive(Clone, Copy)]
pub(super) struct Period(pub(super) Duration);

/// Reads a duration; the error says how to write one.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{text:?} is not a duration such as \"200ms\", \"10s\" or \"15m\": {error}"))
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Period;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration in quotes such as \"200ms\", \"10s\" or \"15m\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Period, E> {
                duration(text).map(Period).map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Text)
    }
}
