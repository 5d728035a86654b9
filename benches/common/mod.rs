//! What every benchmark begins with: its options, and a server.

use clap::builder::FalseyValueParser;
use doorbell::Error;
use doorbell::embedded::{Builder, Server};

/// The options that every benchmark has.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A short run, which shows that the benchmark works and says little about speed
    #[arg(long, env = "DOORBELL_BENCH_QUICK", value_parser = FalseyValueParser::new())]
    pub(crate) quick: bool,

    /// Another server than a private one
    #[arg(long, env = "DOORBELL_BENCH_URL")]
    url: Option<String>,

    /// What cargo says to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

/// The server that is measured. A private one ends with the value.
pub(crate) struct Site {
    pub(crate) url: String,
    _private: Option<Server>,
}

impl Options {
    /// The server that was named, else a private one, as `private` has it.
    pub(crate) fn site(&self, private: Builder) -> Result<Site, Error> {
        if let Some(url) = self.url.clone() {
            return Ok(Site { url, _private: None });
        }
        let server = private.start()?;
        Ok(Site {
            url: server.url("postgres"),
            _private: Some(server),
        })
    }
}
