//! Writes outcomes, in batches made of whatever has queued up while the batch before was written, or within a moment: heavy
//! load batches itself, light load keeps its flushes out of the producers' way, and a slow database slows dispatch through
//! the bounded queue.
//!
//! An outcome is tried until it is written or the row is no longer ours, or until the database refuses it even without the
//! sender's words; then its lease ends and the row comes back. An outcome lost is a second send. One whose row
//! is locked by somebody else is set aside, so that it holds up no other.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use uuid::Uuid;

use crate::Error;
use crate::error::sqlstate::LOCK_NOT_AVAILABLE;
use crate::outcome::Outcome;
use crate::reactor::state::{Shared, count};
use crate::retry::{RetryPolicy, random};
use crate::status::Status;
use crate::store::Settlement;

/// How many outcomes one statement writes at most, and how many may wait. Nothing is settled while a batch waits for its
/// flush, so a backlog goes out the faster, the more of it one flush covers.
const BATCH: usize = 2000;
pub(crate) const QUEUE: usize = BATCH;

/// How long an outcome waits for others, unless so many have come: each write is a flush, and whoever commits a row
/// meanwhile waits for that flush before its own.
const LINGER: Duration = Duration::from_millis(2);
const ENOUGH: usize = 100;

/// How often to look whether rows that were locked are free.
const LOCKED_PAUSE: Duration = Duration::from_millis(100);

/// The outcome of one send.
pub(crate) struct Settle {
    pub(crate) id: Uuid,
    pub(crate) channel: usize,
    pub(crate) outcome: Outcome,
}

/// The loop that writes. Ends when every sender of outcomes is gone and all is written, or when `give_up` says that
/// the shutdown can wait no longer.
pub(crate) struct Settler {
    shared: Arc<Shared>,
    outcomes: mpsc::Receiver<Settle>,
    /// What waits for somebody else's row lock.
    aside: Vec<Settle>,
    give_up: watch::Receiver<Option<Instant>>,
    pauses: RetryPolicy,
}

impl Settler {
    pub(crate) fn new(
        shared: Arc<Shared>,
        outcomes: mpsc::Receiver<Settle>,
        give_up: watch::Receiver<Option<Instant>>,
    ) -> Self {
        let pauses = RetryPolicy::exponential(Duration::from_millis(50), Duration::from_secs(1)).jitter(0.5);
        Settler {
            shared,
            outcomes,
            aside: Vec::new(),
            give_up,
            pauses,
        }
    }

    pub(crate) async fn run(mut self) {
        let mut batch = Vec::new();
        while self.receive(&mut batch).await {
            self.linger(&mut batch).await;
            self.write(std::mem::take(&mut batch)).await;
        }
    }

    /// Waits for outcomes: new ones, and those set aside whose rows are free by now. False: there are none left.
    async fn receive(&mut self, batch: &mut Vec<Settle>) -> bool {
        while !self.aside.is_empty() {
            if !(self.outcomes.is_closed() && self.outcomes.is_empty()) {
                // An error would be the time-out: nothing new.
                let _ = tokio::time::timeout(LOCKED_PAUSE, self.outcomes.recv_many(batch, BATCH)).await;
            } else if !self.pause(1).await {
                abandon(self.aside.iter().map(|settle| settle.id));
                return false;
            }
            let aside = std::mem::take(&mut self.aside);
            batch.extend(self.unlocked(aside).await);
            if !batch.is_empty() {
                return true;
            }
        }
        self.outcomes.recv_many(batch, BATCH).await > 0
    }

    /// Waits for more, for a moment, or until enough has come or nothing more can.
    async fn linger(&mut self, batch: &mut Vec<Settle>) {
        let more =
            async { while batch.len() < ENOUGH && self.outcomes.recv_many(batch, BATCH - batch.len()).await > 0 {} };
        // An error would be the time-out: the moment is over.
        let _ = tokio::time::timeout(LINGER, more).await;
    }

    /// What of this can be written now. What cannot, since somebody holds its row, is set aside.
    async fn unlocked(&mut self, batch: Vec<Settle>) -> Vec<Settle> {
        let ids: Vec<Uuid> = batch.iter().map(|settle| settle.id).collect();
        let locked = match self.shared.store.locked(&ids).await {
            Ok(locked) => locked,
            // Writing meets the same error, and knows what to do about it.
            Err(_) => return batch,
        };
        let (aside, free) = batch.into_iter().partition(|settle| locked.contains(&settle.id));
        self.aside.extend::<Vec<_>>(aside);
        free
    }

    /// Writes a batch, however long it takes. If the server refuses what is in it, or does not come to its end, each half of
    /// it, so that one bad row does not hold up the others.
    async fn write(&mut self, batch: Vec<Settle>) {
        let mut todo = VecDeque::from([batch]);
        while let Some(mut batch) = todo.pop_front() {
            match (self.write_as_it_is(&batch).await, batch.len()) {
                (Ok(again), _) if again.is_empty() => {}
                (Ok(again), _) => todo.push_back(again),
                (Err(error), _) if is_locked(&error) => todo.push_back(self.unlocked(batch).await),
                (Err(_), many @ 2..) => {
                    let rest = batch.split_off(many / 2);
                    todo.extend([batch, rest]);
                }
                (Err(error), _) => {
                    let Some(settle) = batch.first_mut() else { continue };
                    tracing::error!(id = %settle.id, error = %error.chain(), "the database refused an outcome");
                    if settle.outcome.make_plain() {
                        todo.push_back(batch);
                    } else {
                        // Its lease will end, and the row comes back.
                        self.shared
                            .leases
                            .held(settle.id)
                            .map(|held| self.shared.leases.end(held));
                        count(&self.shared.counts.lost, 1);
                    }
                }
            }
        }
    }

    /// Tries until the batch is written, the shutdown can wait no longer, the server refuses what is in it, or it was no use
    /// to try all of it at once. Answers with what is to be written next.
    async fn write_as_it_is(&mut self, batch: &[Settle]) -> Result<Vec<Settle>, Error> {
        let mut failures = 0;
        loop {
            let settlements = self.still_held(batch);
            if settlements.is_empty() {
                return Ok(vec![]);
            }
            let error = match self.shared.store.settle(&settlements).await {
                Ok(written) => {
                    if self.shared.note_settling(Ok(())) {
                        tracing::info!("outcomes are written again");
                    }
                    let next = self.note(batch, settlements, &written);
                    if self.shared.is_stopping() {
                        self.shared.hand_over_retries().await;
                    }
                    return Ok(next);
                }
                Err(error) if error.is_over_content() || is_locked(&error) => return Err(error),
                Err(error) => error,
            };
            if self.shared.note_settling(Err(&error)) {
                let waiting = settlements.len();
                tracing::warn!(error = %error.chain(), waiting, "outcomes cannot be written; trying until they are");
            }
            failures += 1;
            if !self.pause(failures).await {
                abandon(settlements.iter().map(|settlement| settlement.held.id));
                return Ok(vec![]);
            }
            if error.is_unanswered() && batch.len() > 1 {
                // It may be too much at once, if somebody's trigger takes its time over each row.
                return Err(error);
            }
        }
    }

    /// The batch with the claims as they are known now: a running send may have taken over a newer one.
    fn still_held(&self, batch: &[Settle]) -> Vec<Settlement> {
        let held = |settle: &Settle| {
            let held = self.shared.leases.held(settle.id)?;
            Some(Settlement {
                held,
                outcome: settle.outcome.clone(),
            })
        };
        batch.iter().filter_map(held).collect()
    }

    /// Ends the leases of what was written or is no longer ours, and answers with what is to be written next: a newer
    /// claim of the same row may have been noted meanwhile. If the outcome was written before that claim, nothing was sent
    /// under it yet, and it is given back; otherwise the outcome is that of the newer claim.
    fn note(&self, batch: &[Settle], settlements: Vec<Settlement>, written: &[(Uuid, Status)]) -> Vec<Settle> {
        let written: HashMap<Uuid, Status> = written.iter().copied().collect();
        let channels: HashMap<Uuid, usize> = batch.iter().map(|settle| (settle.id, settle.channel)).collect();
        let mut again = Vec::new();
        for Settlement { held, outcome } in settlements {
            let (id, channel, status) = (held.id, channels[&held.id], written.get(&held.id));
            let ended = self.shared.leases.end(held);
            if ended || status.is_some() {
                self.count(id, channel, status, &outcome);
            }
            if !ended {
                let outcome = if status.is_some() { Outcome::Released } else { outcome };
                again.push(Settle { id, channel, outcome });
            }
        }
        again
    }

    /// Counts what became of a row, and tells the dispatcher when a retry falls due.
    fn count(&self, id: Uuid, channel: usize, status: Option<&Status>, outcome: &Outcome) {
        let counts = &self.shared.counts;
        match (status, outcome) {
            (None, _) => {
                tracing::info!(%id, "the row was changed or taken meanwhile; its outcome is not written");
                count(&counts.lost, 1);
            }
            (Some(Status::Sent), _) => count(&counts.sent, 1),
            (Some(Status::Pending), Outcome::Retry { delay, .. }) => {
                count(&counts.retried, 1);
                self.shared.wake.retry_due(channel, Instant::now() + *delay);
            }
            (Some(Status::Pending), _) => count(&counts.released, 1),
            (Some(_), _) => {
                tracing::warn!(%id, channel = %self.shared.channels[channel].name, "failed, and not tried again; see last_error");
                count(&counts.failed, 1);
            }
        }
    }

    /// Waits before the next try; false if there is no time for one.
    async fn pause(&mut self, failures: u32) -> bool {
        let pause = self.pauses.delay(failures, random());
        let give_up = async {
            match self.give_up.wait_for(Option::is_some).await.map(|at| *at) {
                Ok(Some(at)) => tokio::time::sleep_until(at.into()).await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = give_up => false,
            () = tokio::time::sleep(pause) => true,
        }
    }
}

/// Says which outcomes are given up.
fn abandon(ids: impl Iterator<Item = Uuid>) {
    let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
    tracing::error!(
        ids = ids.join(" "),
        "stopping with outcomes unwritten: these may be sent again"
    );
}

/// Does somebody hold one of the rows?
fn is_locked(error: &Error) -> bool {
    error.sqlstate() == Some(LOCK_NOT_AVAILABLE)
}
