//! `doorbell status`: the state of the queue.

use std::time::Duration;

use doorbell::{BellStatus, ChannelStatus, QueueStatus, ReactorMode, ReactorStatus, ServerStatus, TableStatus};

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
///
/// `doorbell doctor` says what is not as it should be, and what mends it.
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
    let below = [bell(&status.bell), table(&status.table), server(&status.server)];
    parts.push(below.join("\n"));
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
        table.row([
            reactor.id.to_string(),
            plain(&reactor.host),
            plain(&reactor.version),
            state(reactor).to_owned(),
            age(reactor.started_ago),
            format!("{} ago", age(reactor.seen_ago)),
            plain(&reactor.channels.join(", ")),
        ]);
    }
    table
}

fn state(reactor: &ReactorStatus) -> &'static str {
    match (reactor.dead, reactor.live, reactor.mode) {
        (true, ..) => "dead",
        (_, _, ReactorMode::Gone) => "gone",
        (_, false, _) => "silent",
        (.., ReactorMode::Unknown) => "live",
        (.., mode) => mode.as_str(),
    }
}

fn bell(bell: &BellStatus) -> String {
    let state = match bell.asleep {
        0 => "nobody sleeps, so inserts are silent".to_owned(),
        asleep => format!("{asleep} asleep, so inserts ring"),
    };
    let usage = bell.queue_usage * 100.0;
    format!("bell: {state}; the server's notification queue is {usage:.0} % full")
}

fn table(table: &TableStatus) -> String {
    let vacuumed = match table.vacuumed_ago {
        Some(ago) => format!("vacuumed {} ago", age(ago)),
        None => "not vacuumed yet".to_owned(),
    };
    format!(
        "table: about {} rows and {} dead ones, {vacuumed}",
        table.live_rows, table.dead_rows
    )
}

fn server(server: &ServerStatus) -> String {
    let longest = server.longest_transaction.as_ref();
    let longest = longest.map_or_else(String::new, |longest| {
        format!(", longest transaction {}", age(longest.open))
    });
    format!(
        "server: PostgreSQL {}, {} of {} connections, clock off by {:.1} s{longest}",
        server.version,
        server.connections,
        server.max_connections,
        server.clock_offset_seconds.abs()
    )
}

/// What an operator should look into. `doorbell doctor` looks for more.
fn warnings(status: &QueueStatus) -> Vec<String> {
    let mut warnings = Vec::new();
    if !status.table.triggers_work() {
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
pub(crate) fn age(age: Duration) -> String {
    match age.as_secs() {
        0 => format!("{}ms", age.as_millis()),
        seconds => humantime::format_duration(Duration::from_secs(seconds)).to_string(),
    }
}
