//! A worker that runs, and the jobs that it has not entered yet.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::queue::{Load, Queue};

/// Jobs are lost when none has arrived for this long: each queue here also looks by itself, every 5 s at the latest.
const SILENCE: Duration = Duration::from_secs(30);
/// How long a worker may take to stop before it is cut off.
const GRACE: Duration = Duration::from_secs(10);

/// Where a handler says that it is entered.
#[derive(Clone, Debug)]
pub(crate) struct Entries(mpsc::UnboundedSender<(u64, Instant)>);

impl Entries {
    pub(crate) fn enter(&self, job: u64) {
        let now = Instant::now();
        // Nobody waits any more when the measurement is over.
        let _ = self.0.send((job, now));
    }
}

/// A worker on a task of its own.
pub(crate) struct Working {
    begun: Instant,
    task: JoinHandle<Result<()>>,
    stop: CancellationToken,
    entries: mpsc::UnboundedReceiver<(u64, Instant)>,
    /// Enqueued, and not yet seen to be entered.
    outstanding: HashSet<u64>,
}

impl Working {
    pub(crate) async fn start<Q: Queue>(queue: &Q, load: Load) -> Result<Self> {
        let (sender, entries) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let work = queue.worker(load, Entries(sender), stop.clone()).await?;
        Ok(Working {
            begun: Instant::now(),
            task: tokio::spawn(work),
            stop,
            entries,
            outstanding: HashSet::new(),
        })
    }

    /// When the work began: not before all was prepared for it.
    pub(crate) fn begun(&self) -> Instant {
        self.begun
    }

    /// These are enqueued, or about to be.
    pub(crate) fn expect(&mut self, jobs: impl IntoIterator<Item = u64>) {
        self.outstanding.extend(jobs);
    }

    /// How many are not yet seen to be entered, after a look at what is there.
    pub(crate) fn outstanding(&mut self) -> usize {
        while let Ok((job, _)) = self.entries.try_recv() {
            self.outstanding.remove(&job);
        }
        self.outstanding.len()
    }

    /// When this job was entered; none if that takes longer than the limit.
    pub(crate) async fn entry_of(&mut self, job: u64, limit: Duration) -> Result<Option<Instant>> {
        let entered = timeout(limit, async {
            loop {
                let (entered, at) = self.next().await?;
                if entered == job {
                    return Ok(at);
                }
            }
        });
        entered.await.ok().transpose()
    }

    /// Returns when every job is entered.
    pub(crate) async fn finish(&mut self) -> Result<()> {
        while !self.outstanding.is_empty() {
            match timeout(SILENCE, self.next()).await {
                Ok(entered) => entered?,
                Err(_) => bail!("lost: {} jobs were enqueued and never came", self.outstanding.len()),
            };
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<(u64, Instant)> {
        let Some((job, at)) = self.entries.recv().await else {
            (&mut self.task).await??;
            bail!("the worker ended by itself");
        };
        self.outstanding.remove(&job);
        Ok((job, at))
    }

    /// Lets what runs finish.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.stop.cancel();
        match timeout(GRACE, &mut self.task).await {
            Ok(ended) => ended?,
            Err(_) => {
                self.task.abort();
                Ok(())
            }
        }
    }
}
