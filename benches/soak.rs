//! Does a reactor grow? One process (`doorbell run`, sender `log`) under a steady load, rows that come whether or not those
//! before them are through, and every ten seconds what it holds and what the server keeps for it. No row may be lost, and
//! none sent twice.
//!
//! What was sent more than ten seconds ago is purged meanwhile, as an operator would have it in days: so the table stays of
//! one size, and whatever grows does so without a reason.
//!
//! `cargo bench --bench soak` takes ten minutes at 2,000 rows a second; `-- --seconds 3600 --rate 500` has it otherwise, and
//! with `-- --quick` it takes five seconds.

mod common;
mod process;

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Parser;
use common::Options;
use doorbell::Queue;
use doorbell::embedded::Server;
use doorbell::measure::{Goal, Latencies, OpenLoop};
use process::{Outcome, Process, Stage, Usage};
use serde::Deserialize;
use tokio::time::{MissedTickBehavior, interval_at};

const SLOTS: u32 = 500;
/// Sent rows stay for so long.
const KEPT: Duration = Duration::from_secs(10);
const PURGE_BATCH: NonZeroU32 = NonZeroU32::new(1000).unwrap();
/// How long after the last insert all must be through.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Parser)]
struct Args {
    /// How long rows are inserted [default: 600]
    #[arg(long)]
    seconds: Option<u64>,

    /// How many a second
    #[arg(long, default_value_t = 2000.0)]
    rate: f64,

    #[command(flatten)]
    options: Options,
}

impl Args {
    fn lasts(&self) -> Duration {
        let seconds = if self.options.quick { 5 } else { 600 };
        Duration::from_secs(self.seconds.unwrap_or(seconds))
    }
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let args = Args::parse();
    let site = args.options.site(Server::builder())?;
    let soak = Soak::begin(&site.url).await?;
    let load = OpenLoop::poisson(args.rate, args.lasts());
    let (samples, ()) = tokio::try_join!(soak.watch(args.lasts()), soak.insert(&load))?;
    soak.all_sent(load.rows()).await?;
    let ledger = soak.end().await?;
    let goals = judge(&samples, args.lasts(), &ledger, load.rows());
    goals.iter().for_each(|goal| println!("{goal}"));
    Ok(())
}

/// A reactor at work, and what is known of its rows.
struct Soak {
    stage: Stage,
    process: Process,
    inserted: AtomicU64,
    ledger: Arc<Mutex<Ledger>>,
}

/// What the reactor has said of each row.
#[derive(Default)]
struct Ledger {
    /// How often each has been sent, by its number.
    times: Vec<u32>,
    sent: u64,
    /// Of those since the last sample.
    latencies: Latencies,
}

/// A line that it prints.
#[derive(Deserialize)]
struct Line {
    recipient: String,
    enqueued_to_send_us: u64,
}

impl Ledger {
    fn enter(&mut self, line: &Line) -> Outcome<()> {
        let row: usize = line.recipient.parse()?;
        if self.times.len() <= row {
            self.times.resize(row + 1, 0);
        }
        self.times[row] += 1;
        self.sent += 1;
        self.latencies.add(Duration::from_micros(line.enqueued_to_send_us));
        Ok(())
    }

    fn rows(&self, which: impl Fn(u32) -> bool) -> usize {
        self.times.iter().filter(|times| which(**times)).count()
    }
}

/// What is there at one time.
struct Sample {
    at: Duration,
    usage: Usage,
    due_index_kb: i64,
    dead_rows: i64,
    sessions: i64,
}

impl Soak {
    async fn begin(url: &str) -> Outcome<Self> {
        let stage = Stage::set(url, SLOTS).await?;
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let entered = Arc::clone(&ledger);
        let process = stage.run(move |line| {
            let entry = serde_json::from_str(&line).map_err(Into::into);
            let mut ledger = entered.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = entry.and_then(|line| ledger.enter(&line)) {
                eprintln!("no line of a row: {line}: {error}");
            }
        })?;
        Ok(Soak {
            stage,
            process,
            inserted: AtomicU64::new(0),
            ledger,
        })
    }

    async fn insert(&self, load: &OpenLoop) -> Outcome<()> {
        let inserted = || _ = self.inserted.fetch_add(1, Ordering::Relaxed);
        load.insert(self.stage.scratch.database(), inserted).await?;
        Ok(())
    }

    /// Purges and samples every ten seconds, or ten times in all if that is more often.
    async fn watch(&self, lasts: Duration) -> Outcome<Vec<Sample>> {
        println!("    s inserted     sent pending    MB files  CPU % p50 ms p99 ms   dead index kB sessions");
        let begun = Instant::now();
        let pace = (lasts / 10).min(Duration::from_secs(10));
        let mut ticks = interval_at((begun + pace).into(), pace);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut samples: Vec<Sample> = vec![];
        while begun.elapsed() + pace / 2 < lasts {
            ticks.tick().await;
            self.purge().await?;
            let sample = self.sample(begun).await?;
            self.print(&sample, samples.last()).await?;
            samples.push(sample);
        }
        Ok(samples)
    }

    async fn purge(&self) -> Outcome<()> {
        let queue = Queue::in_schema(&self.stage.schema)?;
        queue.purge(&self.stage.session, KEPT, PURGE_BATCH).await?;
        Ok(())
    }

    async fn sample(&self, begun: Instant) -> Outcome<Sample> {
        let number = async |sql| self.stage.number(sql).await;
        Ok(Sample {
            at: begun.elapsed(),
            usage: self.process.usage()?,
            due_index_kb: number("pg_relation_size('notification_jobs_due') / 1024").await?,
            dead_rows: number("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relid = 'notification_jobs'::regclass")
                .await?,
            sessions: number("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()").await?,
        })
    }

    async fn print(&self, sample: &Sample, before: Option<&Sample>) -> Outcome<()> {
        let pending = self.pending().await?;
        let (sent, latencies) = {
            let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            (ledger.sent, std::mem::take(&mut ledger.latencies))
        };
        let [p50, p99] = [0.5, 0.99].map(|share| latencies.quantile_us(share) as f64 / 1000.0);
        let seconds = sample.at.as_secs_f64();
        let cpu = before.map_or(f64::NAN, |before| {
            100.0 * (sample.usage.cpu - before.usage.cpu).as_secs_f64() / (sample.at - before.at).as_secs_f64()
        });
        let inserted = self.inserted.load(Ordering::Relaxed);
        let (megabytes, files) = (sample.usage.resident_megabytes, sample.usage.descriptors);
        let Sample {
            due_index_kb,
            dead_rows,
            sessions,
            ..
        } = sample;
        println!(
            "{seconds:>5.0} {inserted:>8} {sent:>8} {pending:>7} {megabytes:>5.1} {files:>5} {cpu:>6.1} {p50:>6.1} {p99:>6.1} \
             {dead_rows:>6} {due_index_kb:>8} {sessions:>8}"
        );
        Ok(())
    }

    async fn pending(&self) -> Outcome<i64> {
        self.stage
            .number("SELECT count(*) FROM notification_jobs WHERE status = 'pending'")
            .await
    }

    /// Waits until nothing is pending, or for a minute: then what is left counts as lost.
    async fn all_sent(&self, rows: usize) -> Outcome<()> {
        let inserted = self.inserted.load(Ordering::Relaxed);
        if inserted != rows as u64 {
            return Err(format!("{inserted} of {rows} rows were inserted").into());
        }
        let last = Instant::now() + PATIENCE;
        while self.pending().await? > 0 && Instant::now() < last {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    async fn end(self) -> Outcome<Ledger> {
        self.process.stop()?;
        self.stage.clear().await?;
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut *ledger))
    }
}

/// The end beside what was there when all had been at work for a minute. The index has two, since it grows until autovacuum
/// has come, which is about once a minute.
fn judge(samples: &[Sample], lasts: Duration, ledger: &Ledger, rows: usize) -> Vec<Goal> {
    let minute = (lasts / 3).min(Duration::from_secs(60));
    let grown = |what: &str, of: fn(&Sample) -> f64, since: Duration, bound| {
        let (first, last) = (samples.iter().find(|sample| sample.at >= since)?, samples.last()?);
        let [then, now] = [first, last].map(|sample| sample.at.as_secs_f64());
        let what = format!("{what}: after {now:.0} s / after {then:.0} s");
        Some(Goal::at_most(what, of(last) / of(first), bound))
    };
    let memory = |sample: &Sample| sample.usage.resident_megabytes;
    let descriptors = |sample: &Sample| sample.usage.descriptors as f64;
    let index = |sample: &Sample| sample.due_index_kb as f64;
    let lost = rows - ledger.rows(|times| times > 0);
    let twice = ledger.rows(|times| times > 1);
    [
        grown("MB resident", memory, minute, 1.1),
        grown("file descriptors", descriptors, minute, 1.0),
        grown("size of the index of due rows", index, 2 * minute, 1.2),
        Some(Goal::at_most(format!("rows lost of {rows}"), lost as f64, 0.0)),
        Some(Goal::at_most(format!("rows sent twice of {rows}"), twice as f64, 0.0)),
    ]
    .into_iter()
    .flatten()
    .collect()
}
