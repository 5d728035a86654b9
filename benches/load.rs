//! Latency under load, from the instant at which a row was to be inserted until its sender is entered: rows that come at
//! random times, 10 to 5,000 a second, whether or not those before them are through; and alerts beside bursts of 10,000
//! rows on another channel.
//!
//! `cargo bench --bench load` takes about four minutes; with `-- --quick` half a minute. `-- 1000` measures that rate alone.

mod common;

use std::error::Error;
use std::time::Duration;

use clap::Parser;
use common::Options;
use doorbell::Database;
use doorbell::embedded::Server;
use doorbell::measure::{Goal, Latencies, Passage, Pauses, Probe, Scratch, beside_bursts, inserts_alone, under_load};

/// Rows a second, and how many times the idle p50 the p99 may be.
const RATES: [(f64, Option<f64>); 4] = [(10.0, None), (100.0, None), (1_000.0, Some(5.0)), (5_000.0, Some(10.0))];
const SENDERS: [Duration; 2] = [Duration::ZERO, Duration::from_millis(10)];
const BURST: u32 = 10_000;

#[derive(Parser)]
struct Args {
    /// Rows a second: these rates alone, and no bursts
    #[arg(value_parser = ["10", "100", "1000", "5000"])]
    rates: Vec<String>,

    #[command(flatten)]
    options: Options,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let site = args.options.site(Server::builder())?;
    let scratch = Scratch::create(&site.url, &Scratch::new_name()).await?;
    let measured = measure(scratch.database(), &args).await;
    scratch.remove().await?;
    measured?.iter().for_each(|goal| println!("{goal}"));
    Ok(())
}

async fn measure(database: &Database, args: &Args) -> Result<Vec<Goal>, doorbell::Error> {
    let chosen: Vec<_> = RATES
        .into_iter()
        .filter(|(rate, _)| args.rates.is_empty() || args.rates.contains(&rate.to_string()))
        .collect();
    let (samples, lasts, bursts) = match args.options.quick {
        true => (50, Duration::from_secs(1), 1),
        false => (500, Duration::from_secs(20), 5),
    };
    headings();
    let idle = idle(database, samples).await?;
    line("one row at a time", None, Some(&idle));
    let idle_p50 = idle.p50_us().max(1) as f64;
    unserved(database, &chosen, lasts).await?;
    let mut goals = vec![];
    for takes in SENDERS {
        for &(rate, bound) in &chosen {
            let passed = under_load(database, rate, lasts, takes).await?;
            let what = match takes.is_zero() {
                true => format!("{rate} rows/s, no-op sender"),
                false => format!("{rate} rows/s, {takes:?} sender"),
            };
            line_of(&what, &passed);
            let of_idle = passed.to_sender.quantile_us(0.99) as f64 / idle_p50;
            goals.extend(bound.map(|bound| Goal::at_most(format!("{what}: p99 / idle p50"), of_idle, bound)));
        }
    }
    if args.rates.is_empty() {
        goals.push(alerts(database, bursts).await?);
    }
    Ok(goals)
}

/// How the server fares with those rates that have a goal while nobody takes the rows.
async fn unserved(database: &Database, rates: &[(f64, Option<f64>)], lasts: Duration) -> Result<(), doorbell::Error> {
    for (rate, _) in rates.iter().filter(|(_, bound)| bound.is_some()) {
        let inserts = inserts_alone(database, *rate, lasts).await?;
        line(&format!("{rate} rows/s, no reactor"), Some(&inserts), None);
    }
    Ok(())
}

/// Alerts beside bursts on another channel.
async fn alerts(database: &Database, bursts: u32) -> Result<Goal, doorbell::Error> {
    let (alone, beside) = beside_bursts(database, 100.0, bursts, BURST).await?;
    line_of("100 alerts/s, between the bursts", &alone);
    line_of(&format!("100 alerts/s, beside {bursts} of {BURST} rows"), &beside);
    let [beside, alone] = [beside, alone].map(|alerts| alerts.to_sender.quantile_us(0.99).max(1) as f64);
    Ok(Goal::at_most(
        "alerts beside a burst of 10,000: p99 / without",
        beside / alone,
        3.0,
    ))
}

fn headings() {
    println!(
        "{:<42} {:^28} {:^28}",
        "µs from when the INSERT was due", "until it was answered", "until the sender"
    );
    println!(
        "{:42} {}",
        "",
        format!("{:>8} {:>9} {:>9} ", "p50", "p99", "p99.9").repeat(2)
    );
}

fn line_of(what: &str, passed: &Passage) {
    line(what, Some(&passed.to_commit), Some(&passed.to_sender));
}

fn line(what: &str, to_commit: Option<&Latencies>, to_sender: Option<&Latencies>) {
    let quantiles = |latencies: Option<&Latencies>| match latencies {
        None => " ".repeat(29),
        Some(latencies) => {
            let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| latencies.quantile_us(share));
            format!("{p50:>8} {p99:>9} {p999:>9} ")
        }
    };
    println!("{what:<42} {}{}", quantiles(to_commit), quantiles(to_sender));
}

async fn idle(database: &Database, samples: u32) -> Result<Latencies, doorbell::Error> {
    let pauses = Pauses::between(Duration::from_millis(10), Duration::from_millis(20));
    let mut probe = Probe::enqueue(database).await?;
    let mut latencies = Latencies::new();
    for _ in 0..samples {
        pauses.next().await;
        latencies.add(probe.time_one().await?);
        probe.settled().await?;
    }
    Ok(latencies)
}
