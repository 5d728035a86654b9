//! How fast one reactor empties a backlog, with a sender that does nothing: medians of interleaved rounds, beside a
//! procedure in the server that writes the same and waits for the same flush.
//!
//! `cargo bench --bench drain` takes about half a minute; with `-- --quick`, or `DOORBELL_BENCH_QUICK=1` in the
//! environment, a few seconds.
//! `DOORBELL_BENCH_URL` measures on another server than an embedded one.

use std::env;
use std::error::Error;
use std::num::NonZeroU32;

use doorbell::Error as DoorbellError;
use doorbell::embedded::Server;
use doorbell::measure::{Drain, DrainRound, Goal, Scratch, median};

const MAX_IN_FLIGHT: u32 = 2000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let quick = env::var_os("DOORBELL_BENCH_QUICK").is_some() || env::args().any(|arg| arg == "--quick");
    let (jobs, rounds) = if quick { (5_000, 3) } else { (20_000, 5) };
    let (server, url) = match env::var("DOORBELL_BENCH_URL") {
        Ok(url) => (None, url),
        Err(_) => {
            let server = Server::builder().start()?;
            let url = server.url("postgres");
            (Some(server), url)
        }
    };
    let scratch = Scratch::create(&url, &Scratch::new_name()).await?;
    let measured = measure(&scratch, NonZeroU32::try_from(jobs)?, rounds).await;
    scratch.remove().await?;
    drop(server);
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
