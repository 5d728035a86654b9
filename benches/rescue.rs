//! How soon what a killed process was sending is with another: one beside it, and its successor where it was alone.
//!
//! `cargo bench --bench rescue` takes about two minutes, most of which the second reactor takes until it may judge the first;
//! with `-- --quick`, one trial of each, 20 s.

mod common;
#[expect(dead_code, reason = "what a process uses is asked by other benchmarks")]
mod process;

use std::env;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Parser;
use common::Options;
use doorbell::embedded::Server;
use doorbell::measure::{Goal, median};
use doorbell::{ChannelConfig, Database, Notification, Reactor, Receipt, SendError, Sender};
use process::{Outcome, Process, Stage};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// In flight when the process is killed.
const ROWS: usize = 20;
/// Far longer than it takes, and far shorter than the lease: what arrives within it was rescued.
const LIMIT: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(600);
/// How long ago a reactor must have been listed to judge others, and a little more.
const ON_DUTY: &str = "SELECT count(*) FROM notification_reactors
                       WHERE lock_key <> 0 AND started_at < clock_timestamp() - interval '6 s'";

#[derive(Parser)]
struct Args {
    /// Be a reactor of this schema that prints the attempt of each row, and never ends a first one
    #[arg(long, hide = true, requires = "url")]
    reactor: Option<String>,

    #[command(flatten)]
    options: Options,
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let Args { reactor, options } = Args::parse();
    let site = options.site(Server::builder())?;
    if let Some(schema) = &reactor {
        return be_reactor(&site.url, schema).await;
    }
    let trials = if options.quick { 1 } else { 5 };
    let stage = Stage::set(&site.url, 1).await?;
    println!("seconds from kill -9 of a process until another has begun to send all of its {ROWS} rows:");
    let beside = several(&stage, trials, Kill::BesideAnother).await?;
    println!("seconds from the start of a successor until it has begun to send them:");
    let alone = several(&stage, trials, Kill::Alone).await?;
    stage.clear().await?;
    println!(
        "{}",
        Goal::at_most("seconds from kill -9 until another sends", beside, 2.0)
    );
    println!(
        "{}",
        Goal::at_most("seconds from its start until a successor sends", alone, 8.0)
    );
    Ok(())
}

#[derive(Clone, Copy)]
enum Kill {
    BesideAnother,
    Alone,
}

/// The median.
async fn several(stage: &Stage, trials: u32, kill: Kill) -> Outcome<f64> {
    let mut all = vec![];
    for _ in 0..trials {
        let took = trial(stage, kill).await?.as_secs_f64();
        println!("  {took:.2}");
        all.push(took);
    }
    Ok(median(all))
}

async fn trial(stage: &Stage, kill: Kill) -> Outcome<Duration> {
    let emptied = "TRUNCATE notification_jobs; DELETE FROM notification_reactors";
    stage.session.batch_execute(emptied).await?;
    let mut first = Beginning::of(stage)?;
    let insert = format!(
        "INSERT INTO notification_jobs (channel, recipient) SELECT '{}', n FROM generate_series(1, {ROWS}) AS n",
        Stage::CHANNEL
    );
    stage.session.batch_execute(&insert).await?;
    first.begins(1).await?;
    let (begun, second) = match kill {
        Kill::BesideAnother => {
            let mut second = Beginning::of(stage)?;
            let limit = Instant::now() + LIMIT;
            while stage.number(ON_DUTY).await? < 2 {
                if Instant::now() > limit {
                    return Err("the second reactor did not go on duty".into());
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            let begun = Instant::now();
            drop(first.process);
            second.begins(2).await?;
            (begun, second)
        }
        Kill::Alone => {
            drop(first.process);
            let begun = Instant::now();
            let mut second = Beginning::of(stage)?;
            second.begins(2).await?;
            (begun, second)
        }
    };
    let took = begun.elapsed();
    second.process.stop()?;
    let wrong = "SELECT count(*) FROM notification_jobs WHERE (status, attempts) <> ('sent', 2)";
    match stage.number(wrong).await? {
        0 => Ok(took),
        wrong => Err(format!("{wrong} of {ROWS} rows were not sent at their second attempt").into()),
    }
}

/// A reactor, and the attempts that it begins.
struct Beginning {
    process: Process,
    attempts: mpsc::UnboundedReceiver<String>,
}

impl Beginning {
    fn of(stage: &Stage) -> Outcome<Self> {
        let (begun, attempts) = mpsc::unbounded_channel();
        let mut command = Command::new(env::current_exe()?);
        command.args(["--reactor", &stage.schema, "--url", &stage.url]);
        // Who does not listen any more has heard enough.
        let process = Process::start(&mut command, move |line| drop(begun.send(line)))?;
        Ok(Beginning { process, attempts })
    }

    /// Returns when it has begun this attempt of every row.
    async fn begins(&mut self, attempt: u32) -> Outcome<()> {
        for _ in 0..ROWS {
            let begun = timeout(LIMIT, self.attempts.recv()).await?.ok_or("a reactor ended")?;
            if begun != attempt.to_string() {
                return Err(format!("attempt {begun} was begun instead of {attempt}").into());
            }
        }
        Ok(())
    }
}

struct EndsNoFirstAttempt;

impl Sender for EndsNoFirstAttempt {
    async fn send(&self, notification: &Notification) -> Result<Receipt, SendError> {
        println!("{}", notification.attempt());
        match notification.attempt() {
            1 => std::future::pending().await,
            _ => Ok(Receipt::none()),
        }
    }
}

async fn be_reactor(url: &str, schema: &str) -> Outcome<()> {
    let mut asked = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let config = ChannelConfig::default().max_in_flight(32).timeout(2 * LIMIT);
    let reactor = Reactor::builder(Database::builder(url).schema(schema).build()?)
        .channel(Stage::CHANNEL, EndsNoFirstAttempt, config)
        .scan_interval(LEASE)
        .lease(LEASE)
        .build()?;
    let stop = async {
        reactor.started().await;
        eprintln!("ready");
        asked.recv().await;
    };
    reactor.run(stop).await?;
    Ok(())
}
