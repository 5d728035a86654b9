//! The order of stopping: no further claims; the grace; what still runs is cut off; the last outcomes are written; goodbye.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::reactor::Reactor;
use crate::reactor::releases::release_unknown;
use crate::reactor::settler::Settle;
use crate::reactor::state::Shared;
use crate::reactor::task::Task;

/// How long the last writes may take when the grace is used up.
const LAST_WRITES: Duration = Duration::from_secs(2);

/// The tasks of one run. Dropped, they end at once.
pub(super) struct Parts {
    /// Those that go on until the end: listener, anchor, renewals, watch, rescuer, rearguard.
    pub(super) helpers: JoinSet<()>,
    pub(super) dispatcher: Task<()>,
    pub(super) settler: Task<()>,
    pub(super) _sends: Sends,
}

/// The running sends, which end when this is dropped.
pub(super) struct Sends(pub(super) Arc<Shared>);

impl Drop for Sends {
    fn drop(&mut self) {
        self.0.leases.abandon();
    }
}

impl Reactor {
    pub(super) async fn stop(
        &self,
        shared: &Arc<Shared>,
        mut parts: Parts,
        give_up: watch::Sender<Option<Instant>>,
        outcomes: mpsc::Sender<Settle>,
    ) {
        let begun = Instant::now();
        let grace_ends = begun + self.config.shutdown_grace;
        tracing::info!(running = shared.running(), grace = ?self.config.shutdown_grace, "stopping");
        shared.stop();
        let last_look = tokio::time::timeout_at((grace_ends.max(begun + LAST_WRITES)).into(), parts.dispatcher.ended());
        if last_look.await.is_err() {
            parts.dispatcher.0.abort();
        }
        if tokio::time::timeout_at(grace_ends.into(), shared.all_slots_free())
            .await
            .is_err()
        {
            tracing::warn!(
                running = shared.running(),
                "the grace is over; cutting off what still runs"
            );
            shared.leases.cut_all();
        }
        let last_write = grace_ends.max(Instant::now() + LAST_WRITES);
        give_up.send_replace(Some(last_write));
        drop(outcomes);
        // A sender that blocks its thread cannot be cut off, and would keep the settler waiting.
        let written = tokio::time::timeout_at((last_write + LAST_WRITES / 10).into(), parts.settler.ended()).await;
        let goodbye = tokio::time::timeout(LAST_WRITES / 2, self.say_goodbye(shared)).await;
        if written.is_err() || goodbye.is_err() {
            tracing::warn!("stopped before everything was written; leases will end by themselves");
        }
        tracing::info!(after = ?begun.elapsed(), "stopped");
    }

    /// Gives back what an unanswered claim may have taken, leaves the list, and makes the others ask when the next row is
    /// due: they may not know of our retries.
    async fn say_goodbye(&self, shared: &Shared) {
        let goodbye = async {
            release_unknown(shared).await?;
            shared.store.unregister(shared.instance.id()).await?;
            shared.store.ring().await
        };
        if let Err(error) = goodbye.await {
            tracing::warn!(error = %error.chain(), "could not leave the list of reactors");
        }
    }
}
