//! One job at a time, from just before it is enqueued until its handler is entered.

use std::time::{Duration, Instant};

use anyhow::Result;
use doorbell::measure::{Latencies, Pauses};

use crate::plan::Plan;
use crate::queue::{Load, Producer, Queue};
use crate::report::Figure;
use crate::working::Working;

/// A job that takes longer is late; the next one does not wait for it.
const LIMIT: Duration = Duration::from_secs(10);
/// The first jobs meet a worker that starts and caches that are cold.
const WARM_UP: u64 = 10;

pub(crate) async fn measure<Q: Queue>(queue: &Q, plan: &Plan, pauses: Option<Pauses>) -> Result<Vec<Figure>> {
    let mut producer = queue.producer().await?;
    let mut working = Working::start(queue, Load::Urgent).await?;
    for job in 0..WARM_UP {
        working.expect([job]);
        producer.enqueue(job).await?;
    }
    working.finish().await?;

    let (mut latencies, mut late) = (Latencies::new(), 0);
    let begun = Instant::now();
    for job in WARM_UP..WARM_UP + plan.jobs {
        if let Some(pauses) = pauses {
            pauses.next().await;
        }
        let latency = time_one(&mut producer, &mut working, job).await?;
        late += u64::from(latency.is_none());
        latencies.add(latency.unwrap_or(LIMIT));
        if begun.elapsed() > plan.jobs_within {
            break;
        }
    }
    // What is late must come all the same.
    working.finish().await?;
    working.stop().await?;
    Ok(vec![
        Figure::median("p50_us", latencies.p50_us()),
        Figure::median("p99_us", latencies.quantile_us(0.99)),
        Figure::worst("max_us", latencies.quantile_us(1.0)),
        Figure::sum("jobs", latencies.samples()),
        Figure::sum("late", late),
    ])
}

/// None if it is late.
async fn time_one(producer: &mut impl Producer, working: &mut Working, job: u64) -> Result<Option<Duration>> {
    working.expect([job]);
    let begun = Instant::now();
    producer.enqueue(job).await?;
    let entered = working.entry_of(job, LIMIT).await?;
    Ok(entered.map(|entered| entered - begun))
}
