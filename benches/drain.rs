//! How fast one reactor empties a backlog, with a sender that does nothing: medians of interleaved rounds, beside a
//! procedure in the server that writes the same and waits for the same flush.
//!
//! `cargo bench --bench drain` takes about half a minute; with `-- --quick` a few seconds.

mod common;

use std::error::Error;
use std::num::NonZeroU32;

use clap::Parser;
use common::Options;
use doorbell::Error as DoorbellError;
use doorbell::embedded::Server;
use doorbell::measure::{Drain, DrainRound, Goal, Scratch, median};

const MAX_IN_FLIGHT: u32 = 2000;

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    options: Options,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Args { options } = Args::parse();
    let (jobs, rounds) = if options.quick { (5_000, 3) } else { (20_000, 5) };
    let site = options.site(Server::builder())?;
    let scratch = Scratch::create(&site.url, &Scratch::new_name()).await?;
    let measured = measure(&scratch, NonZeroU32::try_from(jobs)?, rounds).await;
    scratch.remove().await?;
    print_medians(jobs, &measured?);
    Ok(())
}

/// The first round, which meets cold caches, does not count.
async fn measure(scratch: &Scratch, jobs: NonZeroU32, rounds: usize) -> Result<Vec<DrainRound>, DoorbellError> {
    let mut drain = Drain::new(scratch.database(), jobs, MAX_IN_FLIGHT).await?;
    drain.round().await?;
    let mut measured = Vec::new();
    for _ in 0..rounds {
        measured.push(drain.round().await?);
    }
    Ok(measured)
}

fn print_medians(jobs: u32, rounds: &[DrainRound]) {
    let of = |value: fn(&DrainRound) -> f64| median(rounds.iter().map(value));
    println!("{jobs} due rows, medians of {} rounds, in rows/s:", rounds.len());
    println!("  {:>7.0}  one reactor", of(|round| round.jobs_per_s));
    println!("  {:>7.0}  a procedure in the server", of(|round| round.limit_per_s));
    println!(
        "{}",
        Goal::at_least("one reactor / a procedure in the server", of(DrainRound::ratio), 0.8)
    );
}
