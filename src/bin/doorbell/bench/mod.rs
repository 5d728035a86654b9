//! `doorbell bench`: what it measures, a file each.
//!
//! - `latency`: from INSERT to sender.
//! - `site`: the server that is measured.
//! - `gap`: the time between two rows.

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
    Latency(latency::Args),
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    match args.what {
        What::Latency(args) => latency::run(args).await,
    }
}
