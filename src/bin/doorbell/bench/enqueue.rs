//! `doorbell bench enqueue`: how many rows a second producers commit, with the bell and without.

use std::time::Duration;

use clap::value_parser;
use doorbell::Database;
use doorbell::measure::{InsertLoad, InsertReport, Inserts, Variant};
use indicatif::{ProgressBar, ProgressStyle};

use super::site::Site;
use crate::failure::Failure;
use crate::output::print;
use crate::signals::until_stopped;
use crate::table::Table;

const HELP: &str = "\
Examples:
  doorbell bench enqueue
  doorbell bench enqueue --clients 1,8,32,64 --json
  doorbell bench enqueue --clients 32 --slow-commit

Variants: none, a table like the queue with no trigger; empty, the same with a trigger that does nothing; quiet, the bell \
while a reactor is busy (all its slots are taken); notify, a plain NOTIFY trigger and a session that listens; asleep, the \
bell beside a session that listens, counts as asleep and never wakes; no_reactor, the bell and nobody there; served, no \
trigger while a reactor works the queue by looking; worked, the bell while a reactor sends and settles these rows on the \
same machine; other_reactor, a working one and an idle one on another channel; two_served and two_reactors, as served and \
worked with two on the same channel.

JSON: one object a line for each number of clients. clients, seconds, rounds, commit_delay_us; rows a second of each \
variant by its name; quiet_ratio and so on, over none; quiet_rang_share and so on, the share of inserts that rang, and \
rang_share, that of worked; quiet_vs_empty, quiet_vs_notify, worked_vs_served, other_reactor_vs_worked, \
two_reactors_vs_two_served; bulk_trigger_ms, the time that triggers take of one INSERT of 100,000 rows. Rates are medians \
over the rounds, ratios medians of the rounds' own.";

/// Measure how many single-row inserts a second are committed, with the bell and without
///
/// Each round measures every variant, one after the other, in an order that changes from round to round. Tables are
/// emptied in between. Producers and reactors are in this process, so that they share the machine with the server.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// How many clients insert at once, each on a connection of its own; several numbers are measured in turn
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "32", value_parser = value_parser!(u32).range(1..=1000))]
    clients: Vec<u32>,

    /// How long each variant is measured in a round, 0.05 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = window)]
    seconds: Duration,

    /// How often each variant is measured
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Make each commit cost a millisecond more, as with a slow disk or a standby that has to answer; needs a superuser,
    /// and a server that waits for its disk (fsync)
    #[arg(long)]
    slow_commit: bool,

    /// Print a JSON object a line for each number of clients
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    site: Site,
}

impl Args {
    fn loads(&self) -> Vec<InsertLoad> {
        let load = |&clients| InsertLoad {
            clients,
            window: self.seconds,
            rounds: self.rounds,
            variants: Variant::ALL.to_vec(),
        };
        self.clients.iter().map(load).collect()
    }
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let loads = args.loads();
    let site = args.site.slow_commits(args.slow_commit);
    until_stopped(|stop| async move {
        let reports = site
            .visit(stop, async |database| measure(database, &loads).await)
            .await?;
        let line = if args.json { InsertReport::json } else { text };
        print(reports.iter().map(line).collect::<Vec<_>>().join("\n"))
    })
    .await
}

async fn measure(database: &Database, loads: &[InsertLoad]) -> Result<Vec<InsertReport>, Failure> {
    let inserts = Inserts::prepare(database).await?;
    let progress = progress(loads.iter().map(InsertLoad::steps).sum());
    let mut reports = Vec::new();
    for load in loads {
        reports.push(inserts.measure(load, || progress.inc(1)).await?);
    }
    progress.finish_and_clear();
    Ok(reports)
}

/// Seen on a terminal only.
fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} measurements, {eta} left");
    ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn window(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds")?;
    match (0.05..=3600.0).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err("must be from 0.05 to 3600".to_owned()),
    }
}

fn text(report: &InsertReport) -> String {
    let mut table = Table::new(["VARIANT", "ROWS/S", "× NONE", "RANG"]);
    for variant in Variant::ALL {
        table.row([
            variant.name().to_owned(),
            format!("{:.0}", report.rate(variant)),
            format!("{:.2}", report.ratio(variant, Variant::None)),
            format!("{:.1} %", 100.0 * report.rang_share(variant)),
        ]);
    }
    let compared = Variant::COMPARED.map(|(variant, base)| {
        let ratio = report.ratio(variant, base);
        format!("{} / {} {ratio:.2}", variant.name(), base.name())
    });
    format!(
        "{table}\n{} clients; {}; the triggers take {:.2} ms of 100,000 rows in one INSERT",
        report.clients(),
        compared.join(", "),
        report.bulk_trigger_ms(),
    )
}
