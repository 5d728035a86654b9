//! `doorbell bench drain`: how fast a backlog is emptied, beside what the server can do.

use std::num::NonZeroU32;

use doorbell::Database;
use doorbell::measure::{Drain, DrainRound, median};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::site::Site;
use crate::failure::Failure;
use crate::output::print;
use crate::signals::until_stopped;
use crate::table::Table;

const HELP: &str = "\
Examples:
  doorbell bench drain
  doorbell bench drain --jobs 100000 --rounds 5 --json
  doorbell bench drain --max-in-flight 16

JSON: jobs, rounds, max_in_flight; jobs_per_s, the median of the reactor's rounds; limit_per_s, that of the server's own; \
ratio, the median of the rounds' ratios, and ratio_min and ratio_max.";

/// Measure how fast one reactor empties a backlog, with a sender that does nothing
///
/// Timed from the ring that wakes the reactor until the last row is settled. Each round also empties the same backlog by a
/// procedure in the server, one session and 500 rows at a time, which writes the same columns and waits for the same
/// flush: a limit that no wire, no client and no bookkeeping slows down.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// How many rows are due
    #[arg(long, value_name = "N", default_value = "20000")]
    jobs: NonZeroU32,

    /// How many rounds, after one that is not counted
    #[arg(long, value_name = "N", default_value = "3")]
    rounds: NonZeroU32,

    /// How many rows the reactor sends at once
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_in_flight: u32,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    site: Site,
}

pub(super) async fn run(args: Args) -> Result<(), Failure> {
    until_stopped(|stop| async move {
        let Args {
            jobs,
            rounds,
            max_in_flight,
            json,
            site,
        } = args;
        let rounds = site
            .visit(stop, async |database| {
                measure(database, jobs, rounds, max_in_flight).await
            })
            .await?;
        let report = Report {
            jobs,
            max_in_flight,
            rounds,
        };
        print(if json { report.json() } else { report.text() })
    })
    .await
}

async fn measure(
    database: &Database,
    jobs: NonZeroU32,
    rounds: NonZeroU32,
    max_in_flight: u32,
) -> Result<Vec<DrainRound>, Failure> {
    let mut drain = Drain::new(database, jobs, max_in_flight).await?;
    // The first meets cold caches and statements that nobody has prepared.
    drain.round().await?;
    let progress = progress(rounds);
    let mut measured = Vec::new();
    for _ in 0..rounds.get() {
        measured.push(drain.round().await?);
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(measured)
}

/// Seen on a terminal only.
fn progress(rounds: NonZeroU32) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} rounds, {eta} left");
    ProgressBar::new(rounds.get().into()).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

struct Report {
    jobs: NonZeroU32,
    max_in_flight: u32,
    rounds: Vec<DrainRound>,
}

impl Report {
    fn median(&self, of: impl Fn(&DrainRound) -> f64) -> f64 {
        median(self.rounds.iter().map(of))
    }

    fn ratios(&self) -> [f64; 3] {
        let ratios = || self.rounds.iter().map(DrainRound::ratio);
        let least = ratios().fold(f64::INFINITY, f64::min);
        [least, median(ratios()), ratios().fold(0.0, f64::max)].map(two_places)
    }

    fn json(&self) -> String {
        let [ratio_min, ratio, ratio_max] = self.ratios();
        json!({
            "jobs": self.jobs,
            "rounds": self.rounds.len(),
            "max_in_flight": self.max_in_flight,
            "jobs_per_s": self.median(|round| round.jobs_per_s).round(),
            "limit_per_s": self.median(|round| round.limit_per_s).round(),
            "ratio": ratio,
            "ratio_min": ratio_min,
            "ratio_max": ratio_max,
        })
        .to_string()
    }

    fn text(&self) -> String {
        let mut table = Table::new(["ROUND", "ROWS/S", "LIMIT", "RATIO"]);
        for (round, number) in self.rounds.iter().zip(1..) {
            let rate = |rate: f64| format!("{rate:.0}");
            let ratio = format!("{:.2}", round.ratio());
            table.row([
                number.to_string(),
                rate(round.jobs_per_s),
                rate(round.limit_per_s),
                ratio,
            ]);
        }
        let [_, ratio, _] = self.ratios();
        format!("{table}\n{} rows a round; median ratio {ratio:.2}", self.jobs)
    }
}

fn two_places(ratio: f64) -> f64 {
    (ratio * 100.0).round() / 100.0
}
