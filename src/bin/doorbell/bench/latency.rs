//! `doorbell bench latency`: from just before an INSERT until the sender is entered, beside a bare NOTIFY.

use doorbell::Database;
use doorbell::measure::{Latencies, Probe};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::gap::Gap;
use super::site::Site;
use crate::failure::Failure;
use crate::output::print;
use crate::signals::until_stopped;
use crate::table::Table;

const HELP: &str = "\
Examples:
  doorbell bench latency
  doorbell bench latency --samples 2000 --json
  doorbell bench latency --database-url postgres://app@localhost/app

JSON: samples; p50_us, p95_us, p99_us, max_us from INSERT to sender; notify_p50_us and so on for the bare NOTIFY; \
ratio_p50, the one median over the other; server_version.";

/// Measure how long a row takes from just before its INSERT until its sender is called
///
/// One row at a time, while the reactor is asleep. Each row is followed by a bare NOTIFY, timed from just before the
/// INSERT whose trigger sends it until it reaches a connection that listens: the least that anything woken by NOTIFY can
/// take on this server, and a measure of what Doorbell adds. Reactor, producer and listener have a connection each, all
/// of them in this process.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// How many rows, and as many bare notifications
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    samples: u32,

    /// How long to pause before each; a reactor may still be awake up to 10 ms after a row
    #[arg(long, value_name = "SHORTEST..LONGEST", default_value = "10ms..30ms")]
    gap: Gap,

    /// Print one JSON object; times in microseconds
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    site: Site,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    let Args {
        samples,
        gap,
        json,
        site,
    } = args;
    until_stopped(|stop| async move {
        let report = site
            .visit(stop, async |database| measure(database, samples, gap).await)
            .await?;
        print(if json { report.json() } else { report.text() })
    })
    .await
}

/// Times row and notification by turns, so that a server which slows down slows both.
async fn measure(database: &Database, samples: u32, gap: Gap) -> Result<Report, Failure> {
    let mut rows = Probe::enqueue(database).await?;
    let mut notifies = Probe::notify(database).await?;
    let mut floors = Probe::floor(database).await?;
    // The first of each meets cold caches.
    rows.time_one().await?;
    notifies.time_one().await?;
    floors.time_one().await?;
    let mut report = Report::new(server_version(database).await?);
    let (pauses, progress) = (gap.pauses(), progress(samples));
    for _ in 0..samples {
        pauses.next().await;
        report.row.add(rows.time_one().await?);
        pauses.next().await;
        report.notify.add(notifies.time_one().await?);
        pauses.next().await;
        report.floor.add(floors.time_one().await?);
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(report)
}

async fn server_version(database: &Database) -> Result<String, Failure> {
    let sql = "SELECT pg_catalog.current_setting('server_version')";
    let row = database.client().await?.query_typed_one(sql, &[]).await?;
    Ok(row.try_get(0)?)
}

/// Seen on a terminal only.
fn progress(samples: u32) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} rows, {eta} left");
    ProgressBar::new(samples.into()).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

struct Report {
    server_version: String,
    row: Latencies,
    notify: Latencies,
    floor: Latencies,
}

impl Report {
    fn new(server_version: String) -> Self {
        Report {
            server_version,
            row: Latencies::new(),
            notify: Latencies::new(),
            floor: Latencies::new(),
        }
    }

    /// To two places.
    fn ratio(&self) -> f64 {
        let ratio = self.row.p50_us() as f64 / self.notify.p50_us().max(1) as f64;
        (ratio * 100.0).round() / 100.0
    }

    fn json(&self) -> String {
        let Report {
            server_version,
            row,
            notify,
            floor,
        } = self;
        json!({
            "samples": row.samples(),
            "p50_us": row.p50_us(),
            "p95_us": row.quantile_us(0.95),
            "p99_us": row.quantile_us(0.99),
            "max_us": row.quantile_us(1.0),
            "notify_p50_us": notify.p50_us(),
            "notify_p95_us": notify.quantile_us(0.95),
            "notify_p99_us": notify.quantile_us(0.99),
            "notify_max_us": notify.quantile_us(1.0),
            "floor_claim_p50_us": floor.p50_us(),
            "floor_claim_p99_us": floor.quantile_us(0.99),
            "ratio_p50": self.ratio(),
            "server_version": server_version,
        })
        .to_string()
    }

    fn text(&self) -> String {
        let mut table = Table::new(["FROM INSERT, IN µs", "P50", "P95", "P99", "MAX"]);
        for (what, latencies) in [
            ("to the sender", &self.row),
            ("bare NOTIFY to its arrival", &self.notify),
        ] {
            let [p50, p95, p99, max] = [0.5, 0.95, 0.99, 1.0].map(|share| latencies.quantile_us(share).to_string());
            table.row([what.to_owned(), p50, p95, p99, max]);
        }
        let Report {
            row, server_version, ..
        } = self;
        format!(
            "{table}\n{} rows on PostgreSQL {server_version}; ratio of the medians {:.2}",
            row.samples(),
            self.ratio()
        )
    }
}
