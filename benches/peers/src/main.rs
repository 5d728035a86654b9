//! Doorbell beside two job queues that a Rust developer would pick: `graphile_worker` and `apalis-postgres`.
//!
//! All are measured in this process, on one private PostgreSQL server that waits for its disk, each measurement in a
//! database of its own. Rounds are interleaved, so that a machine which slows down slows all, and who is first changes
//! from round to round. Figures are medians of the rounds; `ratio` is to Doorbell's figure of the same run.
//!
//! - **spaced**, **back to back**: one job at a time, from just before it is enqueued until its handler is entered; 5 to
//!   20 ms after the one before, or at once. A job that takes longer than 10 s is `late`, and counts as 10 s.
//! - **drain**: jobs that wait already and do nothing, from the start of the worker until the last is completed.
//! - **enqueue**: 8 clients that enqueue one job after the other while a worker runs. `backlog` is how many jobs the
//!   worker had not begun at the end.
//!
//! Doorbell's jobs are plain INSERTs; the peers' go through the call that their documentation shows. How each is set up,
//! and where that is written, stands in its file. A job that never arrives ends the run with a failure.
//!
//! ```text
//! cargo run --release --locked --manifest-path benches/peers/Cargo.toml [-- [--quick] [--json]]
//! ```
//!
//! About four minutes; with `--quick` half a minute, which shows that all of it works but not how fast. The first build
//! takes some minutes more.
//!
//! - `queue`: what a queue must offer to be measured; `doorbell`, `graphile`, `apalis`: how each does.
//! - `arena`: the server, and an empty database for each measurement.
//! - `working`: a worker that runs, and the jobs that it has not entered yet.
//! - `plan`: what is measured, and for how long; `latency`, `drain`, `enqueue`: the measurements.
//! - `report`: the rounds made one, as a table or as JSON.

mod apalis;
mod arena;
mod doorbell;
mod drain;
mod enqueue;
mod graphile;
mod latency;
mod plan;
mod queue;
mod report;
mod working;

use anyhow::{Context, Result};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};

use self::arena::Arena;
use self::plan::{Measure, Plan};
use self::queue::Contender;
use self::report::{Figure, Report};

/// Measure Doorbell beside graphile_worker and apalis-postgres
#[derive(Parser)]
struct Args {
    /// One short round: that it works, not how fast
    #[arg(long)]
    quick: bool,

    /// Print one JSON object a line; times in microseconds
    #[arg(long)]
    json: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let report = run(&if args.quick { Plan::quick() } else { Plan::full() }).await?;
    if args.json {
        report.print_json();
    } else {
        report.print_table();
    }
    Ok(())
}

async fn run(plan: &Plan) -> Result<Report> {
    let mut arena = Arena::open().await?;
    let mut report = Report::default();
    let progress = progress(plan)?;
    for round in 0..plan.rounds {
        for measure in Measure::ALL {
            let mut order = Contender::ALL;
            order.rotate_left(round % Contender::ALL.len());
            for contender in order {
                progress.set_message(format!("{}, {}", measure.name(), contender.name()));
                let measured = take(&mut arena, plan, measure, contender).await;
                let what = || format!("{} of {}", measure.name(), contender.name());
                report.add(measure, contender, measured.with_context(what)?);
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();
    Ok(report)
}

async fn take(arena: &mut Arena, plan: &Plan, measure: Measure, contender: Contender) -> Result<Vec<Figure>> {
    match contender {
        Contender::Doorbell => measure.take::<doorbell::Doorbell>(arena, plan).await,
        Contender::Graphile => measure.take::<graphile::Graphile>(arena, plan).await,
        Contender::Apalis => measure.take::<apalis::Apalis>(arena, plan).await,
    }
}

/// Seen on a terminal only.
fn progress(plan: &Plan) -> Result<ProgressBar> {
    let steps = plan.rounds * Measure::ALL.len() * Contender::ALL.len();
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len}, {elapsed}: {msg}")?;
    Ok(ProgressBar::new(steps as u64).with_style(style))
}
