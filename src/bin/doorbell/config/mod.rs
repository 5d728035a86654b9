//! The configuration file and the environment that overrides it.
//!
//! `file` is the format as written, `channel` makes sense of one channel's table, `error` says what is wrong and where.
//!
//! What can be overridden, and by which variable: `DOORBELL_<SECTION>_<KEY>` for the settings of `[reactor]`, and for
//! those of `[database]` the shorter names that every command knows. A variable that is set but empty counts as not set.
//! Where the URL is overridden, the file's `listen_url` goes with the file's `url`.
//!
//! | setting | variable |
//! | --- | --- |
//! | `database.url` | `DOORBELL_DATABASE_URL`, else `DATABASE_URL` |
//! | `database.listen_url` | `DOORBELL_LISTEN_URL` |
//! | `database.schema` | `DOORBELL_SCHEMA` |
//! | `reactor.lease` | `DOORBELL_REACTOR_LEASE` |
//! | `reactor.scan_interval` | `DOORBELL_REACTOR_SCAN_INTERVAL` |
//! | `reactor.shutdown_grace` | `DOORBELL_REACTOR_SHUTDOWN_GRACE` |

mod channel;
mod error;
mod file;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

pub(crate) use channel::{Channel, Delivery};
pub(crate) use error::ConfigError;
use error::Flaw;
use file::{DatabaseTable, File, ReactorTable};

/// Everything that `doorbell run` is told: `None` where neither file nor environment says anything.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) database: DatabaseSettings,
    pub(crate) reactor: ReactorSettings,
    /// At least one, by name.
    pub(crate) channels: Vec<Channel>,
}

pub(crate) struct DatabaseSettings {
    pub(crate) url: Option<String>,
    pub(crate) listen_url: Option<String>,
    pub(crate) schema: Option<String>,
}

#[derive(Debug)]
pub(crate) struct ReactorSettings {
    pub(crate) lease: Option<Duration>,
    pub(crate) scan_interval: Option<Duration>,
    pub(crate) shutdown_grace: Option<Duration>,
}

impl Config {
    /// Reads the file, and the environment of this process over it.
    pub(crate) fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = fs::read_to_string(path).map_err(|error| ConfigError::unreadable(path, &error))?;
        let environment = |name: &str| std::env::var(name).ok();
        Config::read(&text, environment).map_err(|flaw| flaw.located(path, &text))
    }

    fn read(text: &str, environment: impl Fn(&str) -> Option<String>) -> Result<Config, Flaw> {
        let file: File = toml::from_str(text)?;
        let variable = |name: &str| environment(name).filter(|value| !value.is_empty());
        if file.channels.is_empty() {
            return Err(Flaw::new(
                "there is no channel: add one, for instance [channels.ops] with sender = \"log\"",
            ));
        }
        let channels = file
            .channels
            .into_iter()
            .map(|(name, table)| Channel::read(name, table));
        Ok(Config {
            database: DatabaseSettings::read(file.database, variable),
            reactor: ReactorSettings::read(file.reactor, variable)?,
            channels: channels.collect::<Result<_, _>>()?,
        })
    }
}

impl DatabaseSettings {
    /// What the environment of this process alone says.
    pub(crate) fn of_environment() -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        DatabaseSettings::read(DatabaseTable::default(), variable)
    }

    fn read(table: DatabaseTable, variable: impl Fn(&str) -> Option<String>) -> Self {
        let url = variable("DOORBELL_DATABASE_URL").or_else(|| variable("DATABASE_URL"));
        // The two of the file belong together: one of them beside another URL might be another database.
        let listen_url = table.listen_url.filter(|_| url.is_none() || table.url.is_none());
        DatabaseSettings {
            url: url.or(table.url),
            listen_url: variable("DOORBELL_LISTEN_URL").or(listen_url),
            schema: variable("DOORBELL_SCHEMA").or(table.schema),
        }
    }
}

/// Leaves the URLs out: they may hold passwords.
impl fmt::Debug for DatabaseSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseSettings")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl ReactorSettings {
    fn read(table: ReactorTable, variable: impl Fn(&str) -> Option<String>) -> Result<Self, Flaw> {
        let setting = |name: &str, in_file: Option<file::Period>| match variable(name) {
            Some(text) => match file::duration(&text) {
                Ok(duration) => Ok(Some(duration)),
                Err(what) => Err(Flaw::new(format!("{name}: {what}"))),
            },
            None => Ok(in_file.map(|period| period.0)),
        };
        Ok(ReactorSettings {
            lease: setting("DOORBELL_REACTOR_LEASE", table.lease)?,
            scan_interval: setting("DOORBELL_REACTOR_SCAN_INTERVAL", table.scan_interval)?,
            shutdown_grace: setting("DOORBELL_REACTOR_SHUTDOWN_GRACE", table.shutdown_grace)?,
        })
    }
}
