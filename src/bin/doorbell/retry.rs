//! `doorbell retry`: notifications made due now.

use clap::ArgGroup;
use doorbell::{Retried, RetriedAll, Uuid};
use serde_json::json;

use crate::failure::Failure;
use crate::output::{counted, json_array, print, remark};
use crate::target::Target;

const EXAMPLES: &str = "\
Examples:
  doorbell retry 0190a6e2-3d4c-7abc-8def-0123456789ab
  doorbell retry --all-failed --channel email";

/// Make notifications due now
///
/// One that has failed, expired or been cancelled gets all its tries anew; one that waits is brought forward. One that
/// has been sent, or is just being sent, is left alone. Exit status 1 if any was.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("which").args(["ids", "all_failed"]).required(true))]
pub(crate) struct Args {
    /// Those with these ids
    #[arg(value_name = "ID", value_parser = crate::target::id)]
    ids: Vec<Uuid>,

    /// All that have failed, instead of those with these ids
    #[arg(long)]
    all_failed: bool,

    /// With --all-failed: only those on this channel
    #[arg(long, conflicts_with = "ids")]
    channel: Option<String>,

    /// Print what became of each as a JSON array; with --all-failed, an object with the counts
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let (client, queue) = args.target.open().await?;
    if args.all_failed {
        let all = queue.retry_all_failed(&client, args.channel.as_deref()).await?;
        return print(if args.json { counts_json(all) } else { counts(all) });
    }
    let retried = queue.retry(&client, &args.ids).await?;
    let answers = retried.into_iter().map(|(id, retried)| Answer {
        id,
        changed: retried == Retried::Due,
        outcome: retried.to_string(),
    });
    tell(answers.collect(), args.json)
}

fn counts(all: RetriedAll) -> String {
    let due = counted(all.due, "notification");
    match all.key_taken {
        0 => format!("{due} due now"),
        taken => format!("{due} due now; {taken} left failed: another with the same dedupe key is pending"),
    }
}

fn counts_json(all: RetriedAll) -> String {
    json!({ "due": all.due, "key_taken": all.key_taken }).to_string()
}

/// What became of one id.
pub(crate) struct Answer {
    pub(crate) id: Uuid,
    pub(crate) changed: bool,
    pub(crate) outcome: String,
}

impl Answer {
    fn json(&self) -> String {
        json!({ "id": self.id.to_string(), "changed": self.changed, "outcome": self.outcome }).to_string()
    }
}

/// Prints what became of each id: as JSON, or the changed ones on standard output and the others on standard error.
pub(crate) fn tell(answers: Vec<Answer>, json: bool) -> Result<(), Failure> {
    if json {
        print(json_array(answers.iter().map(Answer::json)))?;
    }
    for Answer { id, changed, outcome } in &answers {
        match changed {
            true if json => {}
            true => print(format!("{id}  {outcome}"))?,
            false => remark(format!("doorbell: {id}: {outcome}")),
        }
    }
    match answers.iter().all(|answer| answer.changed) {
        true => Ok(()),
        false => Err(Failure::Told),
    }
}
