//! From just before an INSERT until the sender is entered, over a bare NOTIFY and over the floor (a notification and one
//! claim), all three by turns: spaced, and back to back. Three rounds, of which the median ratios count.
//!
//! `cargo bench --bench latency` takes about two minutes; with `-- --quick` some seconds.

mod common;

use std::error::Error;
use std::time::Duration;

use clap::Parser;
use common::Options;
use doorbell::embedded::Server;
use doorbell::measure::{Comparison, Goal, Pauses, Scratch, compare, median};

const SPACED: Pauses = Pauses::between(Duration::from_millis(5), Duration::from_millis(20));
const BACK_TO_BACK: Pauses = Pauses::between(Duration::ZERO, Duration::ZERO);

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    options: Options,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Args { options } = Args::parse();
    let site = options.site(Server::builder())?;
    Ok(measure(&site.url, options.quick).await?)
}

async fn measure(url: &str, quick: bool) -> Result<(), doorbell::Error> {
    let (rounds, samples) = if quick { (1, 50) } else { (3, 500) };
    println!("from the INSERT, p50/p99 in µs      to the sender      floor  bare NOTIFY");
    let (mut spaced, mut back_to_back) = (vec![], vec![]);
    for _ in 0..rounds {
        spaced.push(compare_in_a_new_schema(url, samples, SPACED).await?);
        back_to_back.push(compare_in_a_new_schema(url, 4 * samples, BACK_TO_BACK).await?);
        print("a row every 5 to 20 ms", spaced.last());
        print("back to back", back_to_back.last());
    }
    let median = |of: &[Comparison], ratio: fn(&Comparison) -> f64| median(of.iter().map(ratio));
    let p50_of_notify = median(&spaced, |of| of.of_notify(0.5));
    let p50 = median(&spaced, |of| of.of_floor(0.5));
    let p99 = median(&spaced, |of| of.of_floor(0.99));
    let back_to_back = median(&back_to_back, |of| of.of_floor(0.5));
    println!("{}", Goal::at_most("spaced: p50 / bare NOTIFY's", p50_of_notify, 3.0));
    println!("{}", Goal::at_most("spaced: p50 / floor's", p50, 1.15));
    println!("{}", Goal::at_most("spaced: p99 / floor's", p99, 1.5));
    println!("{}", Goal::at_most("back to back: p50 / floor's", back_to_back, 1.3));
    Ok(())
}

async fn compare_in_a_new_schema(url: &str, samples: u32, pauses: Pauses) -> Result<Comparison, doorbell::Error> {
    let scratch = Scratch::create(url, &Scratch::new_name()).await?;
    let compared = compare(scratch.database(), samples, pauses, |_| {}).await;
    scratch.remove().await?;
    compared
}

fn print(what: &str, comparison: Option<&Comparison>) {
    let Some(Comparison { row, notify, floor }) = comparison else {
        return;
    };
    let [row, floor, notify] = [row, floor, notify].map(|of| format!("{}/{}", of.p50_us(), of.quantile_us(0.99)));
    println!("{what:<35} {row:>13} {floor:>10} {notify:>12}");
}
