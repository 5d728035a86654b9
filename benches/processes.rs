//! Reactors as processes, on one server: how fast 1, 2, 4 and 8 of them empty a backlog together and how evenly they share
//! it, and what one costs that sleeps.
//!
//! The fleets are of two kinds. `doorbell run` with the sender `log` prints a line for each row, one after the other, which
//! takes more of the processor than all else that a reactor does (about 50 µs a row in all): several print at once. So there
//! are processes too whose sender does nothing.
//!
//! `cargo bench --bench processes` takes about thirteen minutes, of which ten are of sleep, five before and five after a
//! hundred thousand rows; with `-- --quick` half a minute, of which six seconds are of sleep.

mod common;
mod process;

use std::env;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use common::Options;
use doorbell::embedded::Server;
use doorbell::measure::{Goal, in_turns, median};
use doorbell::{ChannelConfig, Database, Notification, Reactor, Receipt, SendError, Sender};
use process::{Outcome, Process, Stage};
use tokio::signal::unix::{SignalKind, signal};

const FLEETS: [usize; 4] = [1, 2, 4, 8];
const SLOTS: u32 = 500;
/// Far enough away that the bell alone wakes a reactor.
const SCAN_INTERVAL: Duration = Duration::from_secs(600);
/// Between two looks at whether all is sent, none of which is to be felt.
const PACE: Duration = Duration::from_millis(10);

#[derive(Parser)]
struct Args {
    /// Be a reactor of this schema whose sender does nothing, until told to stop; then print how many rows it has sent
    #[arg(long, hide = true, requires = "url")]
    silent_reactor: Option<String>,

    #[command(flatten)]
    options: Options,
}

/// How much is done.
struct Extent {
    rounds: u32,
    rows: i64,
    sleep: Duration,
    sent_before_the_second_sleep: i64,
    /// A session that falls idle says up to 10 s later how many transactions it has had.
    until_counted: Duration,
}

impl Extent {
    fn of(options: &Options) -> Self {
        match options.quick {
            true => Extent {
                rounds: 1,
                rows: 2_000,
                sleep: Duration::from_secs(3),
                sent_before_the_second_sleep: 2_000,
                until_counted: Duration::from_secs(2),
            },
            false => Extent {
                rounds: 5,
                rows: 40_000,
                sleep: Duration::from_secs(300),
                sent_before_the_second_sleep: 100_000,
                until_counted: Duration::from_secs(15),
            },
        }
    }
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let args = Args::parse();
    let site = args.options.site(Server::builder())?;
    if let Some(schema) = &args.silent_reactor {
        return be_silent_reactor(&site.url, schema).await;
    }
    let extent = Extent::of(&args.options);
    let stage = Stage::set(&site.url, SLOTS).await?;
    let mut goals = vec![];
    for kind in [Kind::Printing, Kind::Silent] {
        goals.extend(together(&stage, kind, &extent).await?);
    }
    goals.extend(asleep(&stage, &extent).await?);
    stage.clear().await?;
    goals.iter().for_each(|goal| println!("{goal}"));
    Ok(())
}

#[derive(Clone, Copy)]
enum Kind {
    /// `doorbell run`, which prints a line for each row.
    Printing,
    /// This program, which at its end prints how many rows it has sent.
    Silent,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Printing => "reactors that print",
            Kind::Silent => "reactors that do not print",
        }
    }

    /// Starts one. `sent` is right when it has stopped.
    fn start(self, stage: &Stage, sent: Arc<AtomicU64>) -> Outcome<Process> {
        let rows = move |line: String| {
            sent.fetch_add(line.parse().unwrap_or(1), Ordering::Relaxed);
        };
        match self {
            Kind::Printing => stage.run(rows),
            Kind::Silent => {
                let mut command = Command::new(env::current_exe()?);
                command.args(["--silent-reactor", &stage.schema, "--url", &stage.url]);
                Process::start(&mut command, rows)
            }
        }
    }
}

/// Counts what it is given, and delivers nothing.
struct Counter(Arc<AtomicU64>);

impl Sender for Counter {
    async fn send(&self, _: &Notification) -> Result<Receipt, SendError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Receipt::none())
    }
}

async fn be_silent_reactor(url: &str, schema: &str) -> Outcome<()> {
    let mut asked = signal(SignalKind::terminate())?;
    let sent = Arc::new(AtomicU64::new(0));
    let counter = Counter(Arc::clone(&sent));
    let database = Database::builder(url).schema(schema).build()?;
    let reactor = Reactor::builder(database)
        .channel(Stage::CHANNEL, counter, ChannelConfig::default().max_in_flight(SLOTS))
        .scan_interval(SCAN_INTERVAL)
        .build()?;
    let stop = async {
        reactor.started().await;
        eprintln!("ready");
        asked.recv().await;
    };
    reactor.run(stop).await?;
    println!("{}", sent.load(Ordering::Relaxed));
    Ok(())
}

/// Rows a second of each fleet, by turns; each over those of one reactor in the same round.
async fn together(stage: &Stage, kind: Kind, extent: &Extent) -> Outcome<Vec<Goal>> {
    let kind_name = kind.name();
    println!("{kind_name}   rows/s   rows of the least busy and of the busiest");
    let mut rounds = vec![];
    for round in 0..extent.rounds {
        let mut rates = [0.0; FLEETS.len()];
        for number in in_turns(&[0, 1, 2, 3], round, extent.rounds) {
            let (rate, mut shares) = empty_with(stage, kind, FLEETS[number], extent.rows).await?;
            shares.sort_unstable();
            let (least, most) = (shares[0], shares[shares.len() - 1]);
            println!(
                "{:>width$} {rate:>8.0} {least:>8} {most:>8}",
                FLEETS[number],
                width = kind_name.len()
            );
            rates[number] = rate;
        }
        rounds.push(rates);
    }
    let goal = |number: usize| {
        let of_one = median(rounds.iter().map(|rates| rates[number] / rates[0]));
        Goal::at_least(
            format!("{} {kind_name}: rows/s over those of one", FLEETS[number]),
            of_one,
            0.95,
        )
    };
    Ok((1..FLEETS.len()).map(goal).collect())
}

/// How fast so many reactors send so many rows, and how many each has sent. Each row must be claimed once.
async fn empty_with(stage: &Stage, kind: Kind, reactors: usize, rows: i64) -> Outcome<(f64, Vec<u64>)> {
    stage.session.batch_execute("TRUNCATE notification_jobs").await?;
    let sent: Vec<Arc<AtomicU64>> = (0..reactors).map(|_| Arc::default()).collect();
    let start = |sent| kind.start(stage, Arc::clone(sent));
    let fleet: Vec<Process> = sent.iter().map(start).collect::<Outcome<_>>()?;
    insert_silently(stage, rows).await?;
    let begun = Instant::now();
    ring(stage).await?;
    emptied(stage).await?;
    let rate = rows as f64 / begun.elapsed().as_secs_f64();
    fleet.into_iter().try_for_each(Process::stop)?;
    let claims = stage.number("SELECT max(attempts) FROM notification_jobs").await?;
    if claims != 1 {
        return Err(format!("a row was claimed {claims} times").into());
    }
    Ok((rate, sent.iter().map(|sent| sent.load(Ordering::Relaxed)).collect()))
}

/// What a process costs that sleeps: at first, and after it has sent many rows.
async fn asleep(stage: &Stage, extent: &Extent) -> Outcome<Vec<Goal>> {
    stage.session.batch_execute("TRUNCATE notification_jobs").await?;
    let process = Kind::Printing.start(stage, Arc::default())?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut goals = cost_of_sleep(stage, &process, extent.sleep, "asleep").await?;
    insert_silently(stage, extent.sent_before_the_second_sleep).await?;
    ring(stage).await?;
    emptied(stage).await?;
    tokio::time::sleep(extent.until_counted).await;
    let what = format!("asleep, after {} rows", extent.sent_before_the_second_sleep);
    goals.extend(cost_of_sleep(stage, &process, extent.sleep, &what).await?);
    process.stop()?;
    Ok(goals)
}

async fn cost_of_sleep(stage: &Stage, process: &Process, lasts: Duration, what: &str) -> Outcome<Vec<Goal>> {
    let (before, transactions) = (process.usage()?, transactions_of(stage).await?);
    tokio::time::sleep(lasts).await;
    let seconds = lasts.as_secs_f64();
    // One of them is the question itself.
    let transactions = (transactions_of(stage).await? - transactions - 1) as f64 / seconds;
    let after = process.usage()?;
    let percent = 100.0 * (after.cpu - before.cpu).as_secs_f64() / seconds;
    let (megabytes, descriptors) = (after.resident_megabytes, after.descriptors);
    println!(
        "{what}: {transactions:.2} transactions/s, {percent:.3} % of a core, {megabytes:.1} MB, {descriptors} file descriptors"
    );
    Ok(vec![
        Goal::at_most(format!("{what}: transactions a second"), transactions, 1.0),
        Goal::at_most(format!("{what}: % of a core"), percent, 0.1),
        Goal::at_most(format!("{what}: MB resident"), megabytes, 25.0),
    ])
}

async fn insert_silently(stage: &Stage, rows: i64) -> Outcome<()> {
    let insert = format!(
        "SET doorbell.notify = off;
         INSERT INTO notification_jobs (channel, recipient) SELECT '{}', 'me' FROM generate_series(1, {rows});
         RESET doorbell.notify",
        Stage::CHANNEL
    );
    stage.session.batch_execute(&insert).await?;
    Ok(stage.session.batch_execute("VACUUM ANALYZE notification_jobs").await?)
}

async fn ring(stage: &Stage) -> Outcome<()> {
    let insert = format!(
        "INSERT INTO notification_jobs (channel, recipient) VALUES ('{}', 'last')",
        Stage::CHANNEL
    );
    Ok(stage.session.batch_execute(&insert).await?)
}

async fn emptied(stage: &Stage) -> Outcome<()> {
    let left = format!(
        "SELECT count(*) FROM (
             SELECT FROM notification_jobs WHERE channel = '{}' AND status = 'pending' LIMIT 1
         ) AS one",
        Stage::CHANNEL
    );
    // By the index: whether one is left is then told from its beginning.
    stage.session.batch_execute("SET enable_seqscan = off").await?;
    while stage.number(&left).await? > 0 {
        tokio::time::sleep(PACE).await;
    }
    Ok(stage.session.batch_execute("RESET enable_seqscan").await?)
}

/// Those of the database, ours included.
async fn transactions_of(stage: &Stage) -> Outcome<i64> {
    stage
        .number("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()")
        .await
}
