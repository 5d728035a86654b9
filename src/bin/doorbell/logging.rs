//! The log, on standard error.

use std::env;
use std::io::{self, IsTerminal};

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use crate::failure::Failure;

/// What would put payloads, recipients or secret URLs into the log, so that it takes naming them to hear them.
/// `doorbell::ready` is always heard: others wait for it.
const DISCREET: &str = "tokio_postgres=warn,reqwest=info,hyper_util=info,h2=info,doorbell::ready=info";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How the log is written on standard error: as text, or as one JSON object a line
    #[arg(
        long,
        value_name = "FORMAT",
        global = true,
        value_enum,
        help_heading = "Log",
        env = "DOORBELL_LOG_FORMAT",
        hide_env_values = true,
        default_value_t = Format::Human
    )]
    log_format: Format,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Format {
    Human,
    Json,
}

/// Starts the log. That of a service tells of its life; that of a command is silent while all is well.
pub(crate) fn start(args: &Args, is_service: bool) -> Result<(), Failure> {
    let default = if is_service { "info" } else { "warn" };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(default)?)
        .with_writer(io::stderr)
        .with_target(false);
    if args.log_format == Format::Json {
        builder.json().flatten_event(true).init();
    } else {
        let colours = io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        builder.with_ansi(colours).init();
    }
    Ok(())
}

fn filter(default: &str) -> Result<EnvFilter, Failure> {
    let given = ["DOORBELL_LOG", "RUST_LOG"]
        .into_iter()
        .filter_map(|name| Some((name, env::var(name).ok()?)))
        .find(|(_, value)| !value.is_empty());
    let (name, wanted) = given.unwrap_or(("", default.to_owned()));
    // Of two directives for one target the later one counts.
    EnvFilter::try_new(format!("{DISCREET},{wanted}")).map_err(|error| Failure::usage(format!("{name}: {error}")))
}
