//! `doorbell purge`: what is over goes.

use std::num::NonZeroU32;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::failure::Failure;
use crate::output::{counted, print};
use crate::target::Target;

const EXAMPLES: &str = "\
Examples:
  doorbell purge --older-than 7d
  doorbell purge --older-than '1month 12h' --batch 10000 --json";

/// Delete notifications that are over: sent, failed, expired or cancelled
///
/// Goes through the table in small transactions, so that nobody waits for it. Stopped half-way, it has deleted what it
/// said.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Those that have not changed for this long
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    older_than: Duration,

    /// How many rows to look at in one transaction
    #[arg(long, value_name = "ROWS", default_value = "1000")]
    batch: NonZeroU32,

    /// Print {"deleted": N}
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let (client, queue) = args.target.open().await?;
    // Shown on standard error, and only if that is a terminal.
    let progress = ProgressBar::new_spinner().with_style(style()?);
    let mut after = None;
    loop {
        let step = queue.purge_step(&client, args.older_than, args.batch, after).await?;
        progress.inc(step.deleted);
        after = step.next;
        if after.is_none() {
            break;
        }
    }
    progress.finish_and_clear();
    let deleted = progress.position();
    print(match args.json {
        true => json!({ "deleted": deleted }).to_string(),
        false => format!("{} deleted", counted(deleted, "notification")),
    })
}

fn style() -> Result<ProgressStyle, Failure> {
    ProgressStyle::with_template("{spinner} {human_pos} deleted in {elapsed}")
        .map_err(|error| Failure::new(error.to_string()))
}
