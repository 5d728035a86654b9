//! `doorbell bench`: what it measures, a file each.
//!
//! - `drain`: how fast a backlog is emptied.
//! - `latency`: from INSERT to sender.
//! - `enqueue`: what the bell costs those who insert.
//! - `site`: the server that is measured.
//! - `gap`: the time between two rows.

mod drain;
mod enqueue;
mod gap;
mod latency;
mod site;

use clap::Subcommand;

use crate::failure::Failure;

/// Measure this program on a server of yours
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Drain(drain::Args),
    Latency(latency::Args),
    Enqueue(enqueue::Args),
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    match args.what {
        What::Drain(args) => drain::run(args).await,
        What::Latency(args) => latency::run(args).await,
        What::Enqueue(args) => enqueue::run(args).await,
    }
}
