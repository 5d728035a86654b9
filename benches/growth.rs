//! Is a large queue as fast as an empty one? Latency from INSERT to sender and the reactor's own claim, by turns on an
//! empty table and on one that has grown, on one durable server.
//!
//! `cargo bench --bench growth` writes 10 million rows three times, and a million as often, and takes some 15 minutes and
//! 12 GB; with `-- --quick` it writes a hundredth and takes half a minute. `-- sent future` measures these cases alone.

mod common;

use std::error::Error;
use std::num::NonZeroU32;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use common::Options;
use doorbell::embedded::Server;
use doorbell::measure::{Batches, Claims, Goal, Growth, Latencies, Pauses, Probe, RowCost, Scratch, Snapshot, median};
use doorbell::{Database, Error as DoorbellError};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

type Failure = Box<dyn Error>;

/// Between two rows: longer than a reactor stays awake after one, so that each finds it asleep.
const PAUSES: Pauses = Pauses::between(Duration::from_millis(10), Duration::from_millis(20));
/// Steps of `Queue::purge`.
const PURGE_BATCH: NonZeroU32 = NonZeroU32::new(1000).unwrap();

#[derive(Parser)]
struct Args {
    /// Cases to measure [default: all]
    #[arg(value_enum)]
    cases: Vec<Case>,

    /// This share of the rows [default: 1]
    #[arg(long, env = "DOORBELL_BENCH_SCALE")]
    scale: Option<f64>,

    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Case {
    /// 10 million sent rows
    Sent,
    /// 1 million rows that are due from tomorrow on
    Future,
    /// 1 million due rows: latency on another channel, claims on theirs
    Due,
    /// 1 million rows that went through since a snapshot was taken that is still open
    Snapshot,
    /// 10 million sent rows with random ids beside as many with ids that grow; takes a role that may CHECKPOINT
    Ids,
    /// 200,000 rows that are purged meanwhile
    Purge,
}

/// How much of everything.
struct Plan {
    scale: f64,
    rounds: usize,
    /// Of each kind, a round.
    samples: u32,
}

impl Args {
    fn plan(&self) -> Plan {
        let (scale, samples) = if self.options.quick { (0.01, 15) } else { (1.0, 100) };
        Plan {
            scale: self.scale.unwrap_or(scale),
            rounds: if self.options.quick { 3 } else { 5 },
            samples,
        }
    }
}

impl Plan {
    fn rows(&self, rows: u32) -> u64 {
        (f64::from(rows) * self.scale) as u64
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let args = Args::parse();
    let site = args.options.site(Server::builder().setting("max_wal_size", "4GB"))?;
    let plan = args.plan();
    let all = Case::value_variants();
    let cases = if args.cases.is_empty() { all } else { &args.cases };
    let mut goals = Vec::new();
    println!("times in µs; ratios are medians of {} rounds", plan.rounds);
    for &case in cases {
        let (empty, grown) = (
            Scratch::create(&site.url, &Scratch::new_name()).await?,
            Scratch::create(&site.url, &Scratch::new_name()).await?,
        );
        let measured = measure(case, &plan, empty.database(), grown.database()).await;
        empty.remove().await?;
        grown.remove().await?;
        goals.extend(measured?);
    }
    goals.iter().for_each(|goal| println!("{goal}"));
    Ok(())
}

async fn measure(case: Case, plan: &Plan, empty: &Database, grown: &Database) -> Result<Vec<Goal>, Failure> {
    match case {
        Case::Sent => flat(case, Growth::Sent, plan.rows(10_000_000), plan, empty, grown).await,
        Case::Future => flat(case, Growth::Future, plan.rows(1_000_000), plan, empty, grown).await,
        Case::Due => flat(case, Growth::Due, plan.rows(1_000_000), plan, empty, grown).await,
        Case::Snapshot => {
            let _snapshot = Snapshot::take(grown).await?;
            flat(case, Growth::Through, plan.rows(1_000_000), plan, empty, grown).await
        }
        Case::Ids => ids(plan, empty, grown).await.map(|()| vec![]),
        Case::Purge => purge(plan, empty).await.map(|()| vec![]),
    }
}

/// Latency and claims on both tables by turns.
async fn flat(
    case: Case,
    growth: Growth,
    rows: u64,
    plan: &Plan,
    empty: &Database,
    grown: &Database,
) -> Result<Vec<Goal>, Failure> {
    fill(growth, grown, rows).await?;
    let name = format!("{case:?}").to_lowercase();
    let latency = Medians::of(&latencies(plan, empty, grown).await?);
    println!("{name}: {rows} rows, INSERT to sender {latency}");
    let claims = Medians::of(&claims(plan, growth, empty, grown).await?);
    println!("{name}: {rows} rows, claim of one   {claims}");
    let bound = if case == Case::Snapshot { 2.0 } else { 1.2 };
    let goal =
        |what, of: &Medians| Goal::at_most(format!("{rows} rows, {name}: {what} / empty table"), of.ratio, bound);
    Ok(vec![goal("latency", &latency), goal("claim", &claims)])
}

async fn fill(growth: Growth, database: &Database, rows: u64) -> Result<(), DoorbellError> {
    let style = ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} rows, {eta} left");
    let progress = ProgressBar::with_draw_target(Some(rows), ProgressDrawTarget::stderr());
    progress.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    growth.fill(database, rows, |written| progress.inc(written)).await?;
    progress.finish_and_clear();
    Ok(())
}

/// What two tables took in one round.
struct Pair {
    empty: Latencies,
    grown: Latencies,
}

impl Pair {
    fn new() -> Self {
        Pair {
            empty: Latencies::new(),
            grown: Latencies::new(),
        }
    }
}

async fn latencies(plan: &Plan, empty: &Database, grown: &Database) -> Result<Vec<Pair>, DoorbellError> {
    let (mut empty, mut grown) = (Probe::enqueue(empty).await?, Probe::enqueue(grown).await?);
    let mut rounds = Vec::new();
    // The first round meets cold caches.
    for _ in 0..=plan.rounds {
        let mut pair = Pair::new();
        for _ in 0..plan.samples {
            PAUSES.next().await;
            pair.empty.add(empty.time_one().await?);
            PAUSES.next().await;
            pair.grown.add(grown.time_one().await?);
        }
        rounds.push(pair);
    }
    Ok(rounds.split_off(1))
}

async fn claims(plan: &Plan, growth: Growth, empty: &Database, grown: &Database) -> Result<Vec<Pair>, DoorbellError> {
    let (mut empty, mut grown) = (
        Claims::of(empty, growth.channel(), growth == Growth::Due).await?,
        Claims::of(grown, growth.channel(), growth == Growth::Due).await?,
    );
    let mut rounds = Vec::new();
    for _ in 0..=plan.rounds {
        let mut pair = Pair::new();
        for _ in 0..plan.samples {
            pair.empty.add(empty.time_one().await?);
            pair.grown.add(grown.time_one().await?);
        }
        rounds.push(pair);
    }
    Ok(rounds.split_off(1))
}

/// Medians of medians, and the median of the rounds' ratios.
struct Medians {
    empty: f64,
    grown: f64,
    ratio: f64,
}

impl Medians {
    fn of(rounds: &[Pair]) -> Self {
        let ratio = |pair: &Pair| pair.grown.p50_us() as f64 / pair.empty.p50_us().max(1) as f64;
        Medians {
            empty: median(rounds.iter().map(|pair| pair.empty.p50_us() as f64)),
            grown: median(rounds.iter().map(|pair| pair.grown.p50_us() as f64)),
            ratio: median(rounds.iter().map(ratio)),
        }
    }
}

impl std::fmt::Display for Medians {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Medians { empty, grown, ratio } = self;
        write!(f, "p50 {grown:>6.0}, empty table {empty:>6.0}, ratio {ratio:.2}")
    }
}

/// Inserts into two tables of the same size, whose ids grow or are random.
async fn ids(plan: &Plan, timed: &Database, random: &Database) -> Result<(), Failure> {
    let rows = plan.rows(10_000_000);
    fill(Growth::Sent, timed, rows).await?;
    fill(Growth::SentWithRandomIds, random, rows).await?;
    let into = [Batches::into(timed, false).await?, Batches::into(random, true).await?];
    let mut costs: [Vec<RowCost>; 2] = [vec![], vec![]];
    for _ in 0..plan.rounds {
        into[0].checkpoint().await?;
        for (inserts, costs) in into.iter().zip(&mut costs) {
            costs.push(inserts.time_batch().await?);
        }
    }
    let ratio = |of: fn(&RowCost) -> f64| {
        median(
            costs[1]
                .iter()
                .zip(&costs[0])
                .map(|(random, timed)| of(random) / of(timed)),
        )
    };
    for (name, costs) in ["time-ordered", "random"].iter().zip(&costs) {
        let time = median(costs.iter().map(|cost| cost.time.as_secs_f64() * 1e6));
        let wal = median(costs.iter().map(|cost| cost.wal as f64));
        println!("ids: {rows} rows, {name} ids: an inserted row takes {time:.1} µs and {wal:.0} bytes of WAL");
    }
    let (time, wal) = (ratio(|cost| cost.time.as_secs_f64()), ratio(|cost| cost.wal as f64));
    println!("ids: random / time-ordered: time {time:.2}, WAL {wal:.2}");
    Ok(())
}

/// Latency while `Queue::purge` is at work, beside the same reactor idle.
async fn purge(plan: &Plan, database: &Database) -> Result<(), Failure> {
    let rows = plan.rows(200_000);
    let mut probe = Probe::enqueue(database).await?;
    let (mut idle, mut busy) = (Latencies::new(), Latencies::new());
    for _ in 0..plan.rounds {
        fill(Growth::Sent, database, rows).await?;
        for _ in 0..plan.samples {
            PAUSES.next().await;
            idle.add(probe.time_one().await?);
        }
        let database = database.clone();
        let purged = tokio::spawn(async move { Growth::purge(&database, PURGE_BATCH).await });
        while !purged.is_finished() {
            PAUSES.next().await;
            busy.add(probe.time_one().await?);
        }
        let deleted = purged.await??;
        assert!(deleted >= rows, "{deleted} of {rows} rows were deleted");
    }
    for (when, latencies) in [("idle", &idle), ("while they are purged", &busy)] {
        let [p50, p99] = [0.5, 0.99].map(|share| latencies.quantile_us(share));
        println!(
            "purge: {rows} rows, {when}: INSERT to sender p50 {p50}, p99 {p99} ({} samples)",
            latencies.samples()
        );
    }
    Ok(())
}
