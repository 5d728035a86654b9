//! A backlog of jobs that do nothing: from the start of the worker until the last is completed.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio_postgres::Client;

use crate::arena::connect;
use crate::queue::{Load, Queue};
use crate::report::Figure;
use crate::working::Working;

/// Between two looks at whether all are completed, once all are entered.
const PACE: Duration = Duration::from_millis(2);
/// How long the last outcome may take to be written.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn measure<Q: Queue>(queue: &Q, url: &str, jobs: u64) -> Result<Vec<Figure>> {
    let client = connect(url).await?;
    queue.fill(jobs).await?;
    // As autovacuum would have done a minute later.
    client.batch_execute("VACUUM ANALYZE").await?;

    let mut working = Working::start(queue, Load::Backlog).await?;
    working.expect(0..jobs);
    working.finish().await?;
    completed(&client, Q::UNFINISHED).await?;
    let took = working.begun().elapsed();
    working.stop().await?;
    Ok(vec![
        Figure::median("jobs_per_s", (jobs as f64 / took.as_secs_f64()) as u64),
        Figure::sum("jobs", jobs),
    ])
}

async fn completed(client: &Client, unfinished: &str) -> Result<()> {
    let begun = Instant::now();
    while client.query_one(unfinished, &[]).await?.try_get(0)? {
        ensure!(
            begun.elapsed() < PATIENCE,
            "jobs were handled and not completed within {PATIENCE:?}"
        );
        tokio::time::sleep(PACE).await;
    }
    Ok(())
}
