//! Clients that enqueue one job after the other, while a worker runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use crate::queue::{Load, Producer, Queue};
use crate::report::Figure;
use crate::working::Working;

const CLIENTS: usize = 8;

pub(crate) async fn measure<Q: Queue>(queue: &Q, length: Duration) -> Result<Vec<Figure>> {
    let mut producers = Vec::with_capacity(CLIENTS);
    for _ in 0..CLIENTS {
        producers.push(queue.producer().await?);
    }
    let mut working = Working::start(queue, Load::Urgent).await?;
    // One before the clock starts, so that the worker has started.
    producers[0].enqueue(0).await?;
    working.expect([0]);
    working.finish().await?;

    let next = Arc::new(AtomicU64::new(1));
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    for producer in producers {
        clients.spawn(keep_enqueueing(producer, Arc::clone(&next), begun + length));
    }
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    let took = begun.elapsed();
    let jobs = next.load(Ordering::Relaxed);
    working.expect(1..jobs);
    let backlog = working.outstanding();
    working.finish().await?;
    working.stop().await?;
    Ok(vec![
        Figure::median("jobs_per_s", ((jobs - 1) as f64 / took.as_secs_f64()) as u64),
        Figure::median("backlog", backlog as u64),
    ])
}

async fn keep_enqueueing(mut producer: impl Producer, next: Arc<AtomicU64>, until: Instant) -> Result<()> {
    while Instant::now() < until {
        producer.enqueue(next.fetch_add(1, Ordering::Relaxed)).await?;
    }
    Ok(())
}
