//! `doorbell status`: the state of the queue.

use std::time::Duration;

use doorbell::{BellStatus, ChannelStatus, QueueStatus, ReactorStatus};

use crate::failure::Failure;
use crate::output::{counted, plain, print};
use crate::table::Table;
use crate::target::Target;

const EXAMPLES: &str = "\
Examples:
  doorbell status
  doorbell status --json | jq '.channels[] | {channel, due, oldest_due_seconds}'
  watch doorbell status";

/// Show what each channel holds, which reactors run, and whether the bell works
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let (client, queue) = args.target.open().await?;
    let status = queue.status(&client).await?;
    print(if args.json { status.to_json() } else { report(&status) })
}

fn report(status: &QueueStatus) -> String {
    let mut parts = vec![format!("schema {:?}, version {}", status.schema, status.schema_version)];
    parts.push(match status.channels.is_empty() {
        true => "no notifications".to_owned(),
        false => channels(&status.channels).to_string(),
    });
    parts.push(match status.reactors.is_empty() {
        true => "no reactors".to_owned(),
        false => reactors(&status.reactors).to_string(),
    });
    parts.push(bell(&status.bell));
    let warnings = warnings(status)
        .into_iter()
        .map(|warning| format!("warning: {warning}"));
    parts.extend(Some(warnings.collect::<Vec<_>>().join("\n")).filter(|text| !text.is_empty()));
    parts.join("\n\n")
}

fn channels(channels: &[ChannelStatus]) -> Table {
    let mut table = Table::new([
        "CHANNEL",
        "PENDING",
        "DUE",
        "OLDEST DUE",
        "SENDING",
        "SENT",
        "FAILED",
        "EXPIRED",
        "CANCELLED",
    ]);
    for channel in channels {
        table.row([
            plain(&channel.channel),
            channel.pending.to_string(),
            channel.due.to_string(),
            channel.oldest_due.map_or_else(|| "-".to_owned(), age),
            channel.claimed.to_string(),
            channel.sent.to_string(),
            channel.failed.to_string(),
            channel.expired.to_string(),
            channel.cancelled.to_string(),
        ]);
    }
    table
}

fn reactors(reactors: &[ReactorStatus]) -> Table {
    let mut table = Table::new(["REACTOR", "HOST", "VERSION", "STATE", "UP", "SEEN", "CHANNELS"]);
    for reactor in reactors {
        let state = match (reactor.dead, reactor.live) {
            (true, _) => "dead",
            (false, true) => "live",
            (false, false) => "silent",
        };
        table.row([
            reactor.id.to_string(),
            plain(&reactor.host),
            plain(&reactor.version),
            state.to_owned(),
            age(reactor.started_ago),
            format!("{} ago", age(reactor.seen_ago)),
            plain(&reactor.channels.join(", ")),
        ]);
    }
    table
}

fn bell(bell: &BellStatus) -> String {
    let state = match bell.asleep {
        0 => "nobody sleeps, so inserts are silent".to_owned(),
        asleep => format!("{asleep} asleep, so inserts ring"),
    };
    let usage = bell.queue_usage * 100.0;
    format!("bell: {state}; the server's notification queue is {usage:.0} % full")
}

/// What an operator should look into.
fn warnings(status: &QueueStatus) -> Vec<String> {
    let mut warnings = Vec::new();
    if !status.bell.triggers {
        warnings.push("a trigger is missing or disabled: inserts do not ring and wait for the next scan".to_owned());
    }
    for channel in status
        .channels
        .iter()
        .filter(|channel| channel.due > 0 && !channel.served)
    {
        let due = counted(channel.due, "notification");
        warnings.push(format!("no reactor serves channel {:?}: {due} due", channel.channel));
    }
    for holder in &status.bell.in_flight {
        let open = holder.open.map_or_else(|| "an unknown time".to_owned(), age);
        let (pid, application) = (holder.pid, plain(&holder.application));
        if holder.open.is_none_or(|open| open > Duration::from_secs(5)) {
            warnings.push(format!(
                "pid {pid} ({application}) inserted in a transaction that has been open for {open}; reactors stay awake for it"
            ));
        }
    }
    warnings
}

/// A length of time as people say it, not finer than seconds beyond the first.
fn age(age: Duration) -> String {
    match age.as_secs() {
        0 => format!("{}ms", age.as_millis()),
        seconds => humantime::format_duration(Duration::from_secs(seconds)).to_string(),
    }
}
