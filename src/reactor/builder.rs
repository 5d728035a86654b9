//! What a reactor is made of, checked before it runs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;

use crate::config::{ReactorConfig, validate_channel_name};
use crate::connect::Database;
use crate::reactor::Reactor;
use crate::reactor::mode::ModeSince;
use crate::reactor::state::Channel;
use crate::sender::Sender;
use crate::{ChannelConfig, Error};

/// Makes a [`Reactor`].
#[must_use = "a builder does nothing until it is built"]
pub struct ReactorBuilder {
    pub(super) database: Database,
    pub(super) config: ReactorConfig,
    pub(super) channels: Vec<Channel>,
}

impl ReactorBuilder {
    /// Serves a channel. A reactor claims only rows of channels that it has a sender for.
    pub fn channel(mut self, name: impl AsRef<str>, sender: impl Sender, config: ChannelConfig) -> Self {
        self.channels.push(Channel {
            name: name.as_ref().into(),
            config,
            sender: Arc::new(sender),
        });
        self
    }

    /// How long a claim is good for. Renewed at a third of it while the send runs; when a reactor dies, its rows are due
    /// again at the end of it at the latest. 1 s to 24 h. Default: 30 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.config.lease = lease;
        self
    }

    /// How often to look although nothing rang: the safety net under the bell, and the latency where there is none.
    /// Spread by a tenth. 10 ms to 1 h. Default: 5 s.
    pub fn scan_interval(mut self, interval: Duration) -> Self {
        self.config.scan_interval = interval;
        self
    }

    /// How long running sends may take to finish when the reactor is told to stop; then they are cut off. Should be
    /// shorter than the time after which an orchestrator kills. Up to 24 h. Default: 20 s.
    pub fn shutdown_grace(mut self, grace: Duration) -> Self {
        self.config.shutdown_grace = grace;
        self
    }

    /// Checks every setting. Does not connect.
    ///
    /// # Errors
    ///
    /// A setting is out of range, a channel is named twice, or there is none ([`Error::is_config`]).
    pub fn build(self) -> Result<Reactor, Error> {
        let ReactorBuilder {
            database,
            config,
            channels,
        } = self;
        config.validate()?;
        if channels.is_empty() {
            return Err(Error::config("a reactor needs at least one channel"));
        }
        if database.pool_size() < 2 {
            return Err(Error::config(
                "pool_size is 1; a reactor needs 2 at least: to renew leases while it reads a large payload",
            ));
        }
        for (index, channel) in channels.iter().enumerate() {
            validate_channel_name(&channel.name)?;
            channel.config.validate(&channel.name)?;
            if channels[..index].iter().any(|before| before.name == channel.name) {
                return Err(Error::config(format!("channels.{}: named twice", channel.name)));
            }
        }
        Ok(Reactor {
            database,
            config,
            channels,
            phase: watch::Sender::new(ModeSince::starting()),
            vitals: Mutex::default(),
        })
    }
}
