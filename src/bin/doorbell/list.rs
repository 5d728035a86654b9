//! `doorbell list`: which notifications there are.

use doorbell::{Job, JobFilter, Status, Uuid};

use crate::failure::Failure;
use crate::output::{excerpt, json_array, plain, print};
use crate::table::Table;
use crate::target::Target;

/// A last error longer than this many characters is cut in the table; `show` has all of it.
const ERROR_WIDTH: usize = 60;

const EXAMPLES: &str = "\
Examples:
  doorbell list --status failed
  doorbell list --channel ops --limit 10
  doorbell list --status failed --json | jq -r '.[].id' | xargs doorbell retry";

/// List notifications, the newest first
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only those in this status: pending, sent, failed, expired or cancelled
    #[arg(long, value_parser = status)]
    status: Option<Status>,

    /// Only those on this channel
    #[arg(long)]
    channel: Option<String>,

    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u32,

    /// Only those that come after this one in the list: the last id of one page gives the next
    #[arg(long, value_name = "ID", value_parser = crate::target::id)]
    before: Option<Uuid>,

    /// Print a JSON array, an object a notification with a member for each column
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let (client, queue) = args.target.open().await?;
    let filter = filter(&args);
    if args.json {
        let jobs = queue.list(&client, &filter).await?;
        return print(json_array(jobs.iter().map(Job::to_json)));
    }
    let jobs = queue.list(&client, &filter.without_payload()).await?;
    print(table(&jobs).to_string())
}

fn filter(args: &Args) -> JobFilter {
    let mut filter = JobFilter::default().limit(args.limit);
    if let Some(status) = args.status {
        filter = filter.status(status);
    }
    if let Some(channel) = &args.channel {
        filter = filter.channel(channel);
    }
    if let Some(id) = args.before {
        filter = filter.before(id);
    }
    filter
}

fn table(jobs: &[Job]) -> Table {
    let mut table = Table::new(["ID", "CHANNEL", "RECIPIENT", "STATUS", "TRIES", "CREATED", "LAST ERROR"]);
    for job in jobs {
        table.row([
            job.id.to_string(),
            plain(&job.channel),
            plain(&job.recipient),
            job.status.to_string(),
            format!("{}/{}", job.attempts, job.max_attempts),
            job.created_at.clone(),
            excerpt(job.last_error.as_deref().unwrap_or_default(), ERROR_WIDTH),
        ]);
    }
    table
}

fn status(text: &str) -> Result<Status, String> {
    text.parse::<Status>().map_err(|error| error.to_string())
}
