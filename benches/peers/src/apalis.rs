//! `apalis-postgres`, as the example of LISTEN/NOTIFY in its README shows: a listener of its own, and a look every 5 s in
//! case a notification is missed. Tasks run in the worker's own task, as there: spawning them gained nothing here.
//!
//! Urgent: batches of 10, its default. Backlog: larger ones, which its documentation recommends for throughput; with 2,000
//! it drained faster than with 500.

use std::time::Duration;

use anyhow::Result;
use apalis::prelude::{BackendExt, BoxDynError, Data, Strategy, TaskBuilder, WorkerBuilder};
use apalis_postgres::queries::push_tasks;
use apalis_postgres::{Config, PostgresStorage};
use futures::FutureExt;
use sqlx::{PgConnection, PgPool};
use tokio_util::sync::CancellationToken;

use crate::queue::{Load, Producer, Queue, Work};
use crate::working::Entries;

const QUEUE: &str = "bench";
const LOOK_EVERY: Duration = Duration::from_secs(5);
const BATCH: usize = 10;
const LARGE_BATCH: usize = 2_000;
/// How many jobs go into one statement of a fill.
const CHUNK: usize = 5_000;

pub(crate) struct Apalis(PgPool);

impl Queue for Apalis {
    type Producer = Pusher;

    const UNFINISHED: &str = "SELECT EXISTS (SELECT FROM apalis.jobs WHERE status <> 'Done')";

    async fn install(url: &str) -> Result<Self> {
        let pool = PgPool::connect(url).await?;
        PostgresStorage::setup(&pool).await?;
        Ok(Apalis(pool))
    }

    async fn producer(&self) -> Result<Pusher> {
        Ok(Pusher(self.0.acquire().await?.detach()))
    }

    async fn fill(&self, jobs: u64) -> Result<()> {
        let jobs: Vec<u64> = (0..jobs).collect();
        let mut producer = self.producer().await?;
        for chunk in jobs.chunks(CHUNK) {
            producer.push(chunk).await?;
        }
        Ok(())
    }

    async fn worker(&self, load: Load, entries: Entries, stop: CancellationToken) -> Result<Work> {
        let batch = match load {
            Load::Urgent => BATCH,
            Load::Backlog => LARGE_BATCH,
        };
        let backend = PostgresStorage::<u64>::new(&self.0)
            .with_config(Config::default().queue(QUEUE).batch_size(batch))
            .with_pubsub()
            .poll_with_strategy(Strategy::new().interval(LOOK_EVERY));
        let worker = WorkerBuilder::new("bench").backend(backend).data(entries).build(handle);
        let asked = stop.cancelled_owned().map(Ok::<(), std::io::Error>);
        Ok(worker.run_until(asked).map(|ended| Ok(ended?)).boxed())
    }
}

async fn handle(job: u64, entries: Data<Entries>) -> Result<(), BoxDynError> {
    entries.enter(job);
    Ok(())
}

/// Pushes on a connection of its own, as its example of LISTEN/NOTIFY does.
pub(crate) struct Pusher(PgConnection);

impl Pusher {
    async fn push(&mut self, jobs: &[u64]) -> Result<()> {
        let tasks: Result<Vec<_>> = jobs
            .iter()
            .map(|job| Ok(TaskBuilder::new(serde_json::to_vec(job)?).build()))
            .collect();
        Ok(push_tasks(&mut self.0, QUEUE, tasks?).await?)
    }
}

impl Producer for Pusher {
    async fn enqueue(&mut self, job: u64) -> Result<()> {
        self.push(&[job]).await
    }
}
