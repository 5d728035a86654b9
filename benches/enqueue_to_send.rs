//! From just before a plain INSERT until `Sender::send` is entered: idle reactor, durable server. Beside it, in the same
//! run, a bare NOTIFY from INSERT to arrival, and a dispatcher that looks every 200 ms.
//!
//! `cargo bench --bench enqueue_to_send` takes about a minute; with `-- --quick` a quarter of that. Criterion's own options
//! are not taken: each of the three counts only beside the others.

mod common;

use std::error::Error;
use std::time::Duration;

use clap::Parser;
use common::Options;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, SamplingMode};
use doorbell::Error as DoorbellError;
use doorbell::embedded::Server;
use doorbell::measure::{Latencies, Pauses, Probe, Scratch};
use tokio::runtime::Runtime;

/// Between two rows: longer than a reactor stays awake after one, so that each finds it asleep.
const PAUSES: Pauses = Pauses::between(Duration::from_millis(10), Duration::from_millis(20));
/// How often the dispatcher without a bell looks.
const POLL: Duration = Duration::from_millis(200);
/// A row comes at any time between two of its looks.
const POLL_PAUSES: Pauses = Pauses::between(Duration::from_millis(10), Duration::from_millis(210));

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    options: Options,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Args { options } = Args::parse();
    let site = options.site(Server::builder())?;
    let runtime = Runtime::new()?;
    let scratch = runtime.block_on(Scratch::create(&site.url, &Scratch::new_name()))?;
    let measured = measure_all(&runtime, &scratch, options.quick);
    runtime.block_on(scratch.remove())?;
    Ok(measured?)
}

fn measure_all(runtime: &Runtime, scratch: &Scratch, quick: bool) -> Result<(), DoorbellError> {
    let database = scratch.database();
    let mut criterion = Criterion::default();
    let mut group = criterion.benchmark_group("insert_to_arrival");
    configure(&mut group, quick);
    let notify = measure(&mut group, "notify", runtime, Probe::notify(database), PAUSES)?;
    let send = measure(&mut group, "enqueue_to_send", runtime, Probe::enqueue(database), PAUSES)?;
    let poll = measure(
        &mut group,
        "poll_200ms",
        runtime,
        Probe::poll(database, POLL),
        POLL_PAUSES,
    )?;
    group.finish();
    criterion.final_summary();
    print_medians(&notify, &send, &poll);
    Ok(())
}

fn configure(group: &mut BenchmarkGroup<'_, WallTime>, quick: bool) {
    let (samples, seconds) = if quick { (10, 2) } else { (50, 15) };
    group
        .sampling_mode(SamplingMode::Flat)
        .sample_size(samples)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(seconds));
}

/// Times row after row for as long as criterion asks for more, warm-up included.
fn measure(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    runtime: &Runtime,
    probe: impl Future<Output = Result<Probe, DoorbellError>>,
    pauses: Pauses,
) -> Result<Latencies, DoorbellError> {
    let mut probe = runtime.block_on(probe)?;
    let mut latencies = Latencies::new();
    let mut failure = None;
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|rows| {
            let timed = runtime.block_on(time(&mut probe, rows, pauses, &mut latencies));
            timed.unwrap_or_else(|error| {
                failure = Some(error);
                Duration::from_secs(1)
            })
        });
    });
    failure.map_or(Ok(latencies), Err)
}

async fn time(
    probe: &mut Probe,
    rows: u64,
    pauses: Pauses,
    latencies: &mut Latencies,
) -> Result<Duration, DoorbellError> {
    let mut total = Duration::ZERO;
    for _ in 0..rows {
        pauses.next().await;
        let latency = probe.time_one().await?;
        probe.settled().await?;
        latencies.add(latency);
        total += latency;
    }
    Ok(total)
}

fn print_medians(notify: &Latencies, send: &Latencies, poll: &Latencies) {
    println!("medians from just before the INSERT, in µs:");
    for (what, latencies) in [
        ("bare NOTIFY to its arrival", notify),
        ("row to its sender", send),
        ("row to a 200 ms polling dispatcher", poll),
    ] {
        println!("  {:>7}  {what} ({} rows)", latencies.p50_us(), latencies.samples());
    }
    let ratio = send.p50_us() as f64 / notify.p50_us().max(1) as f64;
    println!("  {ratio:>7.2}  enqueue-to-send / bare NOTIFY");
}
