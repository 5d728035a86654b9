//! How many single-row inserts a second are committed with the bell, beside no trigger at all and a plain NOTIFY trigger:
//! on the disk as it is, and where a commit costs a millisecond more. Durable server.
//!
//! `cargo bench --bench enqueue` takes about ten minutes and prints, a line for each number of clients, the JSON of
//! `doorbell bench enqueue`; with `-- --quick`, or `DOORBELL_BENCH_QUICK=1` in the
//! environment, one short round with 8 clients. `DOORBELL_BENCH_CLIENTS=8,32` measures these numbers of clients alone. `DOORBELL_BENCH_URL` measures on another server than an embedded one.

use std::env;
use std::error::Error;
use std::time::Duration;

use doorbell::Error as DoorbellError;
use doorbell::embedded::Server;
use doorbell::measure::{Goal, InsertLoad, InsertReport, Inserts, Scratch, Variant};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime::Runtime;

fn main() -> Result<(), Box<dyn Error>> {
    let (server, url) = match env::var("DOORBELL_BENCH_URL") {
        Ok(url) => (None, url),
        Err(_) => {
            let server = Server::builder().start()?;
            let url = server.url("postgres");
            (Some(server), url)
        }
    };
    let measured = Runtime::new()?.block_on(measure_all(&url));
    drop(server);
    Ok(measured?)
}

async fn measure_all(url: &str) -> Result<(), DoorbellError> {
    let loads = loads();
    let steps: u64 = loads.iter().map(|load| load.steps()).sum();
    let progress = ProgressBar::new(2 * steps).with_style(style());
    let mut goals = Vec::new();
    for slow_commit in [false, true] {
        let schema = Scratch::new_name();
        let scratch = match slow_commit {
            true => Scratch::with_slow_commits(url, &schema).await?,
            false => Scratch::create(url, &schema).await?,
        };
        let measured = measure(&scratch, &loads, &progress).await;
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
        let report = inserts.measure(*load, || progress.inc(1)).await?;
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
    let two = report.ratio(Variant::TwoReactors, Variant::None);
    vec![
        Goal::at_least(named("bell / no trigger"), quiet(Variant::None), of_none),
        Goal::at_least(named("bell / NOTIFY trigger"), quiet(Variant::Notify), of_notify),
        Goal::at_least(named("two working reactors / no trigger"), two, 0.8),
        Goal::at_most(
            named("ms in triggers, INSERT of 100,000"),
            report.bulk_trigger_ms(),
            1.0,
        ),
    ]
}

fn loads() -> Vec<InsertLoad> {
    let quick = env::var_os("DOORBELL_BENCH_QUICK").is_some() || env::args().any(|arg| arg == "--quick");
    let (clients, seconds, rounds): (&[u32], _, _) = if quick {
        (&[8], 0.25, 1)
    } else {
        (&[1, 8, 32, 64], 1.0, 3)
    };
    let chosen: Option<Vec<u32>> = env::var("DOORBELL_BENCH_CLIENTS").ok().map(|numbers| {
        numbers
            .split(',')
            .filter_map(|number| number.trim().parse().ok())
            .collect()
    });
    let clients = chosen.as_deref().unwrap_or(clients);
    let load = |&clients| InsertLoad {
        clients,
        window: Duration::from_secs_f64(seconds),
        rounds,
    };
    clients.iter().map(load).collect()
}

/// Seen on a terminal only.
fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} measurements, {eta} left");
    style.unwrap_or_else(|_| ProgressStyle::default_bar())
}
