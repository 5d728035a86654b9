//! `doorbell bench latency`: from just before an INSERT until the sender is entered, beside a bare NOTIFY and beside a
//! notification with one claim.

use doorbell::Database;
use doorbell::measure::{Comparison, compare};
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
  doorbell bench latency --gap 0
  doorbell bench latency --database-url postgres://app@localhost/app

JSON: samples; p50_us, p95_us, p99_us, max_us from INSERT to sender; notify_p50_us and so on for the bare NOTIFY, \
floor_claim_p50_us and so on for a notification and one claim; ratio_p50, the median over that of the bare NOTIFY; \
ratio_floor_p50, ratio_floor_p99, median and 99th percentile over those of the floor; server_version.";

/// Measure how long a row takes from just before its INSERT until its sender is called
///
/// One row at a time, while the reactor is asleep. Each row is followed by a bare NOTIFY, timed from just before the
/// INSERT whose trigger sends it until it reaches a connection that listens: the least that anything woken by NOTIFY can
/// take on this server. And that by the floor: a row like ours, a bare NOTIFY, and one claim by the session that hears it.
/// What is above the floor is what Doorbell adds. All connections are of this process.
///
/// With `--gap 0` the next row comes as soon as the sender has been called for the last one.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// How many rows, and as many of the other two
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    samples: u32,

    /// How long to pause before each
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

async fn measure(database: &Database, samples: u32, gap: Gap) -> Result<Report, Failure> {
    let progress = progress(samples);
    let comparison = compare(database, samples, gap.pauses(), |rows| progress.inc(rows.into())).await?;
    progress.finish_and_clear();
    Ok(Report {
        server_version: server_version(database).await?,
        comparison,
    })
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
    comparison: Comparison,
}

impl Report {
    fn json(&self) -> String {
        let Report {
            server_version,
            comparison,
        } = self;
        let Comparison { row, notify, floor } = comparison;
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
            "floor_claim_p95_us": floor.quantile_us(0.95),
            "floor_claim_p99_us": floor.quantile_us(0.99),
            "floor_claim_max_us": floor.quantile_us(1.0),
            "ratio_p50": comparison.of_notify(0.5),
            "ratio_floor_p50": comparison.of_floor(0.5),
            "ratio_floor_p99": comparison.of_floor(0.99),
            "server_version": server_version,
        })
        .to_string()
    }

    fn text(&self) -> String {
        let Report {
            server_version,
            comparison,
        } = self;
        let Comparison { row, notify, floor } = comparison;
        let mut table = Table::new(["FROM INSERT, IN µs", "P50", "P95", "P99", "MAX"]);
        for (what, latencies) in [
            ("to the sender", row),
            ("floor: NOTIFY and one claim", floor),
            ("bare NOTIFY to its arrival", notify),
        ] {
            let [p50, p95, p99, max] = [0.5, 0.95, 0.99, 1.0].map(|share| latencies.quantile_us(share).to_string());
            table.row([what.to_owned(), p50, p95, p99, max]);
        }
        format!(
            "{table}\n{} rows on PostgreSQL {server_version}; medians: {:.2} × a bare NOTIFY, {:.2} × the floor",
            row.samples(),
            comparison.of_notify(0.5),
            comparison.of_floor(0.5)
        )
    }
}
