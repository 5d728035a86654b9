//! How many single-row inserts a second are committed with the bell, beside no trigger at all and a plain NOTIFY trigger:
//! on the disk as it is, and where a commit costs a millisecond more. Durable server.
//!
//! `cargo bench --bench enqueue` takes about ten minutes and prints, a line for each number of clients, the JSON of
//! `doorbell bench enqueue`; with `-- --quick` one short round with 8 clients.

mod common;

use std::error::Error;
use std::time::Duration;

use clap::Parser;
use common::Options;
use doorbell::Error as DoorbellError;
use doorbell::embedded::Server;
use doorbell::measure::{Goal, InsertLoad, InsertReport, Inserts, Scratch, Variant};
use indicatif::{ProgressBar, ProgressStyle};

#[derive(Parser)]
struct Args {
    /// These numbers of clients alone
    #[arg(long, value_name = "N,…", value_delimiter = ',', env = "DOORBELL_BENCH_CLIENTS")]
    clients: Vec<u32>,

    /// These variants alone, as `none,quiet`; goals whose variants are missing are not judged
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', env = "DOORBELL_BENCH_VARIANTS")]
    variants: Vec<Variant>,

    #[command(flatten)]
    options: Options,
}

impl Args {
    fn loads(&self) -> Vec<InsertLoad> {
        let (clients, seconds, rounds): (&[u32], _, _) = match self.options.quick {
            true => (&[8], 0.25, 1),
            false => (&[1, 8, 32, 64], 1.0, 3),
        };
        let clients = if self.clients.is_empty() {
            clients
        } else {
            &self.clients
        };
        let chosen = |variant: &Variant| self.variants.is_empty() || self.variants.contains(variant);
        let load = |&clients| InsertLoad {
            clients,
            window: Duration::from_secs_f64(seconds),
            rounds,
            variants: Variant::ALL.into_iter().filter(chosen).collect(),
        };
        clients.iter().map(load).collect()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let site = args.options.site(Server::builder())?;
    Ok(measure_all(&site.url, &args.loads()).await?)
}

async fn measure_all(url: &str, loads: &[InsertLoad]) -> Result<(), DoorbellError> {
    let steps: u64 = loads.iter().map(InsertLoad::steps).sum();
    let progress = ProgressBar::new(2 * steps).with_style(style());
    let mut goals = Vec::new();
    for slow_commit in [false, true] {
        let schema = Scratch::new_name();
        let scratch = match slow_commit {
            true => Scratch::with_slow_commits(url, &schema).await?,
            false => Scratch::create(url, &schema).await?,
        };
        let measured = measure(&scratch, loads, &progress).await;
        scratch.remove().await?;
        goals.extend(measured?.iter().flat_map(|report| judge(report, slow_commit)));
    }
    progress.finish_and_clear();
    goals.iter().for_each(|goal| println!("{goal}"));
    Ok(())
}

async fn measure(
    scratch: &Scratch,
    loads: &[InsertLoad],
    progress: &ProgressBar,
) -> Result<Vec<InsertReport>, DoorbellError> {
    let inserts = Inserts::prepare(scratch.database()).await?;
    let mut reports = Vec::new();
    for load in loads {
        let report = inserts.measure(load, || progress.inc(1)).await?;
        progress.suspend(|| println!("{}", report.json()));
        reports.push(report);
    }
    Ok(reports)
}

/// The goals are for 32 clients.
fn judge(report: &InsertReport, slow_commit: bool) -> Vec<Goal> {
    if report.clients() != 32 {
        return vec![];
    }
    let (disk, of_none, of_notify) = match slow_commit {
        true => ("commits 1 ms slower", 0.9, 15.0),
        false => ("this disk", 0.85, 3.0),
    };
    let named = |what: &str| format!("32 clients, {disk}: {what}");
    let quiet = |base| report.ratio(Variant::Quiet, base);
    let two = |base| report.ratio(Variant::TwoReactors, base);
    let goals = [
        Goal::at_least(named("bell / no trigger"), quiet(Variant::None), of_none),
        Goal::at_least(named("bell / NOTIFY trigger"), quiet(Variant::Notify), of_notify),
        Goal::at_least(named("two working reactors / no trigger"), two(Variant::None), 0.8),
        Goal::at_least(
            named("two working reactors with bell / without"),
            two(Variant::TwoServed),
            0.8,
        ),
        Goal::at_most(
            named("ms in triggers, INSERT of 100,000"),
            report.bulk_trigger_ms(),
            1.0,
        ),
    ];
    goals.into_iter().filter(Goal::is_measured).collect()
}

/// Seen on a terminal only.
fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} measurements, {eta} left");
    style.unwrap_or_else(|_| ProgressStyle::default_bar())
}
