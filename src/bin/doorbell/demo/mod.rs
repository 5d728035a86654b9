//! `doorbell demo`: the whole road once, watched.
//!
//! - `stage`: the server and the schema that it plays in.
//! - `producer`: inserts rows as any program would.
//! - `ledger`: when each row was inserted, committed, sent and settled.
//! - `clocks`: what the server's clock says, by ours.
//! - `report`: what the audience sees.

mod clocks;
mod ledger;
mod producer;
mod report;
mod stage;

use std::sync::Arc;
use std::time::Instant;

use doorbell::{ChannelConfig, Migrator, Mode, Reactor};
use futures::future::try_join;
use tokio::sync::oneshot;

use self::ledger::{Ledger, LedgerSender};
use self::producer::Producer;
use self::report::Summary;
use self::stage::Stage;
use crate::failure::Failure;
use crate::output::print;
use crate::signals::{Stop, until_stopped};

const CHANNEL: &str = "demo";

const EXAMPLES: &str = "\
Examples:
  doorbell demo
  doorbell demo --count 1000 --rate 200
  doorbell demo --count 200 --json 2> /dev/null
  doorbell demo --database-url postgres://app@localhost/app";

/// Insert rows, send them, and watch how long each stage takes
///
/// Starts a private PostgreSQL server with temporary data (fsync on) and a reactor, and inserts rows over an independent
/// connection. All is gone at the end. Exit status 1 if a row was lost or sent twice.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// How many rows to insert
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,

    /// How many rows to insert a second
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,

    /// Print the summary as one JSON object; times in microseconds
    #[arg(long)]
    json: bool,

    /// Use this server instead of a private one, in a schema that is dropped at the end
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,

    /// The schema to play in, which must not exist [default: a new name]
    #[arg(long, value_name = "NAME")]
    schema: Option<String>,
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    until_stopped(|stop| stage_and_play(args, stop)).await
}

/// Whatever happens on the stage, it is cleared.
async fn stage_and_play(args: Args, mut stop: Stop) -> Result<(), Failure> {
    let stage = tokio::select! {
        stage = Stage::set(args.database_url.as_deref(), args.schema.as_deref()) => stage?,
        signal = stop.asked() => return Err(Failure::Signal(signal)),
    };
    let played = play(&args, &stage, stop.clone()).await;
    let cleared = stage.clear().await;
    let summary = played?;
    cleared?;
    print(if args.json { summary.json() } else { summary.text() })?;
    match stop.signal() {
        Some(signal) => Err(Failure::Signal(signal)),
        None => summary.verdict(),
    }
}

async fn play(args: &Args, stage: &Stage, stop: Stop) -> Result<Summary, Failure> {
    migrate(stage).await?;
    let ledger = Arc::new(Ledger::new(args.count));
    let reactor = Reactor::builder(stage.database("doorbell demo")?)
        .channel(CHANNEL, LedgerSender(Arc::clone(&ledger)), ChannelConfig::default())
        .build()?;
    let begun = Instant::now();
    let (quit, quitted) = oneshot::channel::<()>();
    let running = async {
        let until_quit = async { drop(quitted.await) };
        Ok(reactor.run(until_quit).await?)
    };
    let playing = async {
        let mode = reactor.started().await;
        report::stage("reactor", begun.elapsed(), &hears(mode));
        let producer = Producer::new(stage, Arc::clone(&ledger)).await?;
        producer.insert_all(args.rate, stop).await?;
        let summary = producer.wait_and_sum_up().await;
        drop(quit);
        summary
    };
    let ((), summary) = try_join(running, playing).await?;
    Ok(summary)
}

async fn migrate(stage: &Stage) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut client = stage.database("doorbell demo")?.client().await?;
    let applied = Migrator::new(stage.schema())?.up(&mut client).await?;
    let what = format!("{} migrations in schema {:?}", applied.len(), stage.schema());
    report::stage("schema", begun.elapsed(), &what);
    Ok(())
}

fn hears(mode: Mode) -> String {
    match mode {
        Mode::Polling { why } => format!("polling, since it cannot listen: {why}"),
        _ => format!("listening, channel {CHANNEL}"),
    }
}
