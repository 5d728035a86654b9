//! `graphile_worker`, on its default driver, sqlx.
//!
//! Urgent: as its quick start shows, with notifications (on by default) and without its local queue, which its guide
//! recommends for many small jobs and not for rare ones. Four jobs at once, as its examples have it; sixteen were no
//! faster here.
//!
//! Backlog: as its own throughput benchmark (`benches/perf_test.rs`) sets it up: a local queue of 5,000 jobs, 500 at
//! once, completed in batches.

use std::time::Duration;

use anyhow::Result;
use futures::FutureExt;
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, WorkerContext, WorkerOptions,
    WorkerUtils,
};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio_util::sync::CancellationToken;

use crate::queue::{Load, Producer, Queue, Work};
use crate::working::Entries;

const SCHEMA: &str = "graphile_worker";
/// Its own default for a pool that it makes itself.
const CONNECTIONS: u32 = 20;
/// How many jobs go into one statement of a fill.
const CHUNK: usize = 5_000;

pub(crate) struct Graphile {
    url: String,
    pool: PgPool,
}

impl Queue for Graphile {
    type Producer = Utils;

    // What is completed is deleted.
    const UNFINISHED: &str = "SELECT EXISTS (SELECT FROM graphile_worker._private_jobs)";

    async fn install(url: &str) -> Result<Self> {
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(url).await?;
        utils(pool.clone()).migrate().await?;
        Ok(Graphile {
            url: url.to_owned(),
            pool,
        })
    }

    async fn producer(&self) -> Result<Utils> {
        Ok(Utils(utils(
            PgPoolOptions::new().max_connections(1).connect(&self.url).await?,
        )))
    }

    async fn fill(&self, jobs: u64) -> Result<()> {
        let jobs: Vec<u64> = (0..jobs).collect();
        for chunk in jobs.chunks(CHUNK) {
            let specs: Result<Vec<_>> = chunk.iter().map(|&job| raw(Job { job })).collect();
            utils(self.pool.clone()).add_raw_jobs(&specs?).await?;
        }
        Ok(())
    }

    async fn worker(&self, load: Load, entries: Entries, stop: CancellationToken) -> Result<Work> {
        let options = WorkerOptions::default()
            .pg_pool(self.pool.clone())
            .schema(SCHEMA)
            .listen_os_shutdown_signals(false)
            .add_extension(entries)
            .define_job::<Job>();
        let options = match load {
            Load::Urgent => options.concurrency(4),
            Load::Backlog => options
                .concurrency(500)
                .poll_interval(Duration::from_millis(5))
                .complete_job_batch_delay(Duration::from_millis(5))
                .local_queue(LocalQueueConfig::default().with_size(5_000)),
        };
        let worker = options.init().await?;
        Ok(async move {
            let run = worker.run();
            let asked = async {
                stop.cancelled().await;
                worker.request_shutdown();
            };
            Ok(tokio::join!(run, asked).0?)
        }
        .boxed())
    }
}

fn utils(pool: PgPool) -> WorkerUtils {
    WorkerUtils::new(pool, SCHEMA)
}

fn raw(job: Job) -> Result<RawJobSpec> {
    Ok(RawJobSpec {
        identifier: Job::IDENTIFIER.to_owned(),
        payload: serde_json::to_value(job)?,
        spec: JobSpec::default(),
    })
}

/// Its way to add a job from anywhere, with a pool of one connection.
pub(crate) struct Utils(WorkerUtils);

impl Producer for Utils {
    async fn enqueue(&mut self, job: u64) -> Result<()> {
        self.0.add_job(Job { job }, JobSpec::default()).await?;
        Ok(())
    }
}

#[derive(Deserialize, Serialize)]
struct Job {
    job: u64,
}

impl TaskHandler for Job {
    const IDENTIFIER: &'static str = "bench";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        match context.get_ext::<Entries>() {
            Some(entries) => Ok(entries.enter(self.job)),
            None => Err("the worker has nothing to say its entries to"),
        }
    }
}
