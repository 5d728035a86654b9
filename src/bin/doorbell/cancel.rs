//! `doorbell cancel`: notifications that are not to be sent after all.

use doorbell::{Cancelled, Uuid};

use crate::failure::Failure;
use crate::retry::{Answer, tell};
use crate::target::Target;

const EXAMPLES: &str = "\
Examples:
  doorbell cancel 0190a6e2-3d4c-7abc-8def-0123456789ab
  doorbell list --status pending --channel ops --json | jq -r '.[].id' | xargs doorbell cancel";

/// Cancel pending notifications
///
/// One that is being sent is cancelled too, but may still arrive; the line says so. Exit status 1 if any could not be
/// cancelled.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Those with these ids
    #[arg(value_name = "ID", required = true, value_parser = crate::target::id)]
    ids: Vec<Uuid>,

    /// Print what became of each as a JSON array
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let (client, queue) = args.target.open().await?;
    let cancelled = queue.cancel(&client, &args.ids).await?;
    let answers = cancelled.into_iter().map(|(id, cancelled)| Answer {
        id,
        changed: matches!(cancelled, Cancelled::Cancelled | Cancelled::MayStillArrive),
        outcome: cancelled.to_string(),
    });
    tell(answers.collect(), args.json)
}
