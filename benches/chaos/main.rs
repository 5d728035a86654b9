//! Chaos: producers, three reactors as processes, and faults by chance, while an HTTP server keeps a ledger of what arrives.
//! What was committed must arrive, and nothing may arrive twice that was not on its way when a fault began.
//!
//! `make chaos` takes ten minutes; `cargo bench --bench chaos -- --seconds 60 --seed 7` has it otherwise, and with
//! `-- --quick` it takes 40 s. The seed decides which faults there are, how long each lasts and whom it hits; when exactly
//! a process notices is decided by the machine. Exits with 1 if a row is lost or sent twice without an excuse (`verdict`).
//!
//! - `schedule`: which fault is next. `faults`: how each is made.
//! - `fleet`: the reactors. `proxy`: what one of them reaches the server through.
//! - `producers`, `provider`: where rows come from and where they arrive.
//! - `verdict`: what all of it adds up to.

#[path = "../../tests/it/bell_stress/dice.rs"]
mod dice;
mod faults;
mod fleet;
mod producers;
mod provider;
#[allow(dead_code)] // the modes that only the tests use
#[path = "../../tests/it/support/proxy.rs"]
mod proxy;
mod schedule;
mod verdict;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use dice::Dice;
use doorbell::Migrator;
use doorbell::embedded::Server;
use faults::{Fault, Field};
use fleet::Fleet;
use indicatif::{ProgressBar, ProgressStyle};
use producers::Producers;
use provider::Provider;
use tokio_postgres::{Client, NoTls};
use verdict::Verdict;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// How long after the last fault all must be through.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Parser)]
struct Args {
    /// Where the dice begin [default: another each time]
    #[arg(long)]
    seed: Option<u64>,

    /// How long there are faults [default: 600]
    #[arg(long)]
    seconds: Option<u64>,

    /// How many runs, one after the other, each with the seed after the last
    #[arg(long, default_value_t = 1)]
    runs: u64,

    /// Print a line of JSON a run
    #[arg(long)]
    json: bool,

    /// Keep what the reactors say in this directory
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,

    /// A short run
    #[arg(long)]
    quick: bool,

    /// What cargo says to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() -> Outcome<ExitCode> {
    let args = Args::parse();
    let lasts = Duration::from_secs(args.seconds.unwrap_or(if args.quick { 40 } else { 600 }));
    let seed = match args.seed {
        Some(seed) => seed,
        None => SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() % 1_000_000,
    };
    let mut all_well = true;
    for seed in seed..seed.saturating_add(args.runs) {
        eprintln!("seed {seed}, {} s", lasts.as_secs());
        let verdict = run(seed, lasts, &args).await?;
        println!(
            "{}",
            if args.json {
                verdict.to_json()
            } else {
                verdict.to_string()
            }
        );
        all_well &= verdict.is_well();
    }
    Ok(if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn run(seed: u64, lasts: Duration, args: &Args) -> Outcome<Verdict> {
    let server = tokio::task::block_in_place(|| Server::builder().start())?;
    let url = server.url("postgres");
    Migrator::new("public")?.up(&mut session(&url).await?).await?;
    let provider = Provider::start(seed).await?;
    let fleet = Fleet::start(&url, &provider.url, args.logs.as_deref()).await?;
    let producers = Producers::start(seed, &url);
    let mut field = Field { server, url, fleet };
    let faults = make_faults(&mut field, seed, lasts, args.json).await?;
    let rows = producers.stop().await;
    let rows = rows.committed(&session(&field.url).await?).await?;
    let unsent = drained(&session(&field.url).await?).await?;
    drop(field);
    Ok(Verdict::new(seed, lasts, &rows, &provider.arrivals(), &faults, unsent))
}

async fn make_faults(field: &mut Field, seed: u64, lasts: Duration, quietly: bool) -> Outcome<Vec<Fault>> {
    let progress = if quietly {
        ProgressBar::hidden()
    } else {
        ProgressBar::new(lasts.as_secs())
    };
    progress.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} s {msg}")?);
    let (begun, mut dice, mut faults) = (Instant::now(), Dice::new(seed, 0), vec![]);
    while begun.elapsed() < lasts {
        tokio::time::sleep(schedule::calm(&mut dice)).await;
        let plan = schedule::next(&mut dice);
        progress.set_position(begun.elapsed().as_secs());
        progress.set_message(plan.kind.as_str());
        faults.push(field.make(plan).await?);
    }
    progress.finish_and_clear();
    Ok(faults)
}

/// Waits until every row is through; answers with how many are not within the time.
async fn drained(client: &Client) -> Outcome<i64> {
    let begun = Instant::now();
    loop {
        let unsent = "SELECT count(*) FROM notification_jobs WHERE status <> 'sent'";
        let unsent: i64 = client.query_one(unsent, &[]).await?.try_get(0)?;
        if unsent == 0 || begun.elapsed() > PATIENCE {
            return Ok(unsent);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn session(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
