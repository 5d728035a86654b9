//! What a job queue must offer to be measured.

use anyhow::Result;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::working::Entries;

/// A job queue, in a database of its own. A job is a number, and does nothing but say that its handler is entered.
pub(crate) trait Queue: Sized {
    type Producer: Producer;

    /// A question to the database: is any job not completed?
    const UNFINISHED: &str;

    /// Makes the queue's tables in an empty database.
    async fn install(url: &str) -> Result<Self>;

    /// One that enqueues on a connection of its own.
    async fn producer(&self) -> Result<Self::Producer>;

    /// Enqueues the jobs from 0 up to this number, by the queue's own way for many.
    async fn fill(&self, jobs: u64) -> Result<()>;

    /// All that can be done before the work begins; the future then works until it is told to stop.
    async fn worker(&self, load: Load, entries: Entries, stop: CancellationToken) -> Result<Work>;
}

/// A worker at work.
pub(crate) type Work = BoxFuture<'static, Result<()>>;

/// A client that enqueues one job at a time, each in a transaction of its own.
pub(crate) trait Producer: Send + 'static {
    /// Returns when the job is committed.
    fn enqueue(&mut self, job: u64) -> impl Future<Output = Result<()>> + Send;
}

/// What a worker is set up for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// Jobs that come one by one, and are urgent.
    Urgent,
    /// A great many that wait already.
    Backlog,
}

/// Those who are measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contender {
    Doorbell,
    Graphile,
    Apalis,
}

impl Contender {
    pub(crate) const ALL: [Contender; 3] = [Contender::Doorbell, Contender::Graphile, Contender::Apalis];

    /// The name of its crate.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Contender::Doorbell => "doorbell",
            Contender::Graphile => "graphile_worker",
            Contender::Apalis => "apalis-postgres",
        }
    }
}
