//! What is measured, and for how long.

use std::time::Duration;

use anyhow::Result;
use doorbell::measure::Pauses;

use crate::arena::Arena;
use crate::queue::Queue;
use crate::report::Figure;
use crate::{drain, enqueue, latency};

/// How much of each.
pub(crate) struct Plan {
    pub(crate) rounds: usize,
    /// One at a time.
    pub(crate) jobs: u64,
    /// No further job is begun after this.
    pub(crate) jobs_within: Duration,
    pub(crate) backlog: u64,
    pub(crate) enqueue_for: Duration,
}

impl Plan {
    pub(crate) fn full() -> Self {
        Plan {
            rounds: 3,
            jobs: 500,
            jobs_within: Duration::from_secs(20),
            backlog: 20_000,
            enqueue_for: Duration::from_secs(5),
        }
    }

    pub(crate) fn quick() -> Self {
        Plan {
            rounds: 1,
            jobs: 50,
            jobs_within: Duration::from_secs(5),
            backlog: 2_000,
            enqueue_for: Duration::from_secs(1),
        }
    }
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    Spaced,
    BackToBack,
    Drain,
    Enqueue,
}

impl Measure {
    pub(crate) const ALL: [Measure; 4] = [Measure::Spaced, Measure::BackToBack, Measure::Drain, Measure::Enqueue];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Measure::Spaced => "spaced",
            Measure::BackToBack => "back to back",
            Measure::Drain => "drain",
            Measure::Enqueue => "enqueue",
        }
    }

    /// Measures in a new database.
    pub(crate) async fn take<Q: Queue>(self, arena: &mut Arena, plan: &Plan) -> Result<Vec<Figure>> {
        let url = arena.clear().await?;
        let queue = Q::install(&url).await?;
        let spaced = Pauses::between(Duration::from_millis(5), Duration::from_millis(20));
        match self {
            Measure::Spaced => latency::measure(&queue, plan, Some(spaced)).await,
            Measure::BackToBack => latency::measure(&queue, plan, None).await,
            Measure::Drain => drain::measure(&queue, &url, plan.backlog).await,
            Measure::Enqueue => enqueue::measure(&queue, plan.enqueue_for).await,
        }
    }
}
