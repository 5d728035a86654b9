//! What one channel's table asks for.

use std::ops::Range;
use std::time::Duration;

use doorbell::senders::{Command, Webhook};
use doorbell::{ChannelConfig, OnUnknown, RetryPolicy};
use toml::Spanned;

use super::error::Flaw;
use super::file::{ChannelTable, OnUnknownName, RetryTable, SenderName};

/// One channel to serve. The ranges of `config` are checked when the reactor is built.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) name: String,
    pub(crate) config: ChannelConfig,
    pub(crate) delivery: Delivery,
}

/// How a channel delivers.
#[derive(Debug)]
pub(crate) enum Delivery {
    Log,
    Webhook(Webhook),
    Command(Command),
}

/// A table and where it stands, for errors.
struct Draft {
    name: String,
    place: Range<usize>,
    table: ChannelTable,
}

impl Channel {
    pub(super) fn read(name: String, table: Spanned<ChannelTable>) -> Result<Self, Flaw> {
        let draft = Draft {
            name,
            place: table.span(),
            table: table.into_inner(),
        };
        Ok(Channel {
            config: draft.config()?,
            delivery: draft.delivery()?,
            name: draft.name,
        })
    }
}

impl Draft {
    fn config(&self) -> Result<ChannelConfig, Flaw> {
        let mut config = ChannelConfig::default();
        if let Some(sends) = self.table.max_in_flight {
            config = config.max_in_flight(sends);
        }
        if let Some(timeout) = self.table.timeout {
            config = config.timeout(timeout.0);
        }
        if let Some(retry) = &self.table.retry {
            config = config.retry(self.retry(retry)?);
        }
        Ok(match self.table.on_unknown {
            Some(OnUnknownName::Retry) => config.on_unknown(OnUnknown::Retry),
            Some(OnUnknownName::Hold) => config.on_unknown(OnUnknown::Hold),
            None => config,
        })
    }

    fn retry(&self, table: &Spanned<RetryTable>) -> Result<RetryPolicy, Flaw> {
        let RetryTable {
            linear,
            exponential,
            jitter,
        } = table.get_ref();
        let policy = match (linear, exponential) {
            (Some(step), None) => RetryPolicy::linear(step.0),
            (None, Some(curve)) => RetryPolicy::exponential(curve.initial.0, curve.max.0),
            _ => return Err(self.flaw("retry needs either linear or exponential", table.span())),
        };
        match jitter.unwrap_or_default() {
            share @ 0.0..=1.0 => Ok(policy.jitter(share)),
            share => Err(self.flaw(format!("retry.jitter is {share}; it must be from 0 to 1"), table.span())),
        }
    }

    fn delivery(&self) -> Result<Delivery, Flaw> {
        let Some(sender) = self.table.sender else {
            return Err(self.flaw(r#"needs sender = "log", "webhook" or "command""#, self.place.clone()));
        };
        self.refuse_keys_of_others(sender)?;
        match sender {
            SenderName::Log => Ok(Delivery::Log),
            SenderName::Webhook => self.webhook().map(Delivery::Webhook),
            SenderName::Command => self.command().map(Delivery::Command),
        }
    }

    fn refuse_keys_of_others(&self, sender: SenderName) -> Result<(), Flaw> {
        let ChannelTable {
            url, headers, command, ..
        } = &self.table;
        let keys = [
            ("url", url.as_ref().map(Spanned::span), SenderName::Webhook, "webhook"),
            (
                "headers",
                headers.as_ref().map(Spanned::span),
                SenderName::Webhook,
                "webhook",
            ),
            (
                "command",
                command.as_ref().map(Spanned::span),
                SenderName::Command,
                "command",
            ),
        ];
        for (key, place, owner, owner_name) in keys {
            if let Some(place) = place
                && owner != sender
            {
                return Err(self.flaw(format!("{key} is only for sender = {owner_name:?}"), place));
            }
        }
        Ok(())
    }

    fn webhook(&self) -> Result<Webhook, Flaw> {
        const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

        let Some(url) = &self.table.url else {
            return Err(self.flaw(r#"sender = "webhook" needs url"#, self.place.clone()));
        };
        let mut builder = Webhook::builder(url.get_ref());
        for (name, value) in self.table.headers.iter().flat_map(Spanned::get_ref) {
            builder = builder.header(name, value);
        }
        if let Some(timeout) = self.table.timeout {
            // Well before the end, so that "no connection" is not taken for "no answer", which may be held.
            builder = builder.connect_timeout(CONNECT_TIMEOUT.min(timeout.0 / 2));
        }
        builder
            .build()
            .map_err(|error| self.flaw(error.chain(), self.place.clone()))
    }

    /// A relative path is relative to the working directory, as in a shell.
    fn command(&self) -> Result<Command, Flaw> {
        let needed = r#"sender = "command" needs command = ["program", "argument", …]"#;
        let Some(argv) = &self.table.command else {
            return Err(self.flaw(needed, self.place.clone()));
        };
        match argv.get_ref().split_first() {
            Some((program, args)) if !program.is_empty() => Ok(Command::new(program).args(args)),
            _ => Err(self.flaw(needed, argv.span())),
        }
    }

    fn flaw(&self, what: impl AsRef<str>, place: Range<usize>) -> Flaw {
        Flaw::new(format!("channels.{}: {}", self.name, what.as_ref())).at(place)
    }
}
