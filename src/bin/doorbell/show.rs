//! `doorbell show`: one notification, all of it.

use doorbell::{Job, Uuid};

use crate::failure::Failure;
use crate::output::{plain, print};
use crate::target::Target;

const EXAMPLES: &str = "\
Examples:
  doorbell show 0190a6e2-3d4c-7abc-8def-0123456789ab
  doorbell show 0190a6e2-3d4c-7abc-8def-0123456789ab --json | jq .last_error";

/// Show one notification with every column
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The one with this id
    #[arg(value_parser = crate::target::id)]
    id: Uuid,

    /// Print a JSON object with a member for each column
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let (client, queue) = args.target.open().await?;
    let Some(job) = queue.get(&client, args.id).await? else {
        return Err(Failure::new(format!("there is no notification {}", args.id)));
    };
    print(if args.json { job.to_json() } else { sheet(&job) })
}

/// A line for each column that has a value.
fn sheet(job: &Job) -> String {
    let lines = [
        ("id", Some(job.id.to_string())),
        ("channel", Some(job.channel.clone())),
        ("recipient", Some(job.recipient.clone())),
        ("payload", job.payload.clone()),
        ("status", Some(job.status.to_string())),
        ("attempts", Some(format!("{} of {}", job.attempts, job.max_attempts))),
        ("next_attempt_at", Some(job.next_attempt_at.clone())),
        ("last_error", job.last_error.clone()),
        ("created_at", Some(job.created_at.clone())),
        ("updated_at", Some(job.updated_at.clone())),
        ("claim", Some(job.claim.to_string())),
        ("claimed_by", job.claimed_by.map(|id| id.to_string())),
        ("sent_at", job.sent_at.clone()),
        ("receipt", job.receipt.clone()),
        ("expires_at", job.expires_at.clone()),
        ("dedupe_key", job.dedupe_key.clone()),
    ];
    let lines = lines.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let lines = lines.map(|(name, value)| format!("{name:<15}  {}", plain(&value)));
    lines.collect::<Vec<_>>().join("\n")
}
