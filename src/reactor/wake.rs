//! Why the dispatcher gets up: a flag that anybody may set, and one that waits for it.
//!
//! A wake is a hint and carries no data. Setting a flag that is set already changes nothing, so a listener under a storm
//! of notifications reads on without ever waiting for the dispatcher.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use tokio::sync::Notify;

/// Reasons, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reasons(u8);

impl Reasons {
    /// The bell rang.
    pub(crate) const RING: Reasons = Reasons(1);
    /// A slot is free on a channel that had none.
    pub(crate) const SLOT: Reasons = Reasons(2);
    /// A retry of our own was written: the next due instant may have moved.
    pub(crate) const DUE: Reasons = Reasons(4);
    /// Something about the reactor itself changed: listener gone or back, settling again, stopping;
    /// or a row was found that looks did not reach.
    pub(crate) const NEWS: Reasons = Reasons(8);

    pub(crate) fn contains(self, other: Reasons) -> bool {
        self.0 & other.0 != 0
    }
}

/// The flag.
pub(crate) struct Wake {
    reasons: AtomicU8,
    notify: Notify,
    /// When the soonest retry written by ourselves falls due, a place for each channel.
    retries: Mutex<Vec<Option<Instant>>>,
}

impl Wake {
    pub(crate) fn new(channels: usize) -> Self {
        Wake {
            reasons: AtomicU8::new(0),
            notify: Notify::new(),
            retries: Mutex::new(vec![None; channels]),
        }
    }

    /// Sets the flag.
    pub(crate) fn poke(&self, reason: Reasons) {
        self.reasons.fetch_or(reason.0, Ordering::AcqRel);
        self.notify.notify_one();
    }

    /// Clears the flag and says what it was set for.
    pub(crate) fn clear(&self) -> Reasons {
        Reasons(self.reasons.swap(0, Ordering::AcqRel))
    }

    /// Waits until the flag is set, and leaves it set. Safe to drop at any time. For one waiter.
    pub(crate) async fn set(&self) {
        while self.reasons.load(Ordering::Acquire) == 0 {
            self.notify.notified().await;
        }
    }

    /// A retry of ours on this channel falls due at `at`.
    pub(crate) fn retry_due(&self, channel: usize, at: Instant) {
        let mut retries = self.retries.lock().unwrap_or_else(PoisonError::into_inner);
        let soonest = &mut retries[channel];
        *soonest = Some(soonest.map_or(at, |known| known.min(at)));
        drop(retries);
        self.poke(Reasons::DUE);
    }

    /// When the soonest of our retries falls due.
    pub(crate) fn next_retry(&self) -> Option<Instant> {
        self.retries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .flatten()
            .min()
            .copied()
    }

    /// Forgets retries on the channels that `which` picks: those due by `now`, or `all`. True if any was due.
    pub(crate) fn forget_retries(&self, now: Instant, all: bool, which: impl Fn(usize) -> bool) -> bool {
        let mut retries = self.retries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut any_due = false;
        for (channel, soonest) in retries.iter_mut().enumerate() {
            let due = soonest.is_some_and(|at| at <= now);
            if soonest.is_some() && (all || due) && which(channel) {
                any_due |= due;
                *soonest = None;
            }
        }
        any_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn a_poke_before_the_wait_is_not_lost_and_clearing_forgets_it() {
        let wake = Wake::new(1);
        wake.poke(Reasons::RING);
        wake.poke(Reasons::SLOT);
        wake.set().await;
        let reasons = wake.clear();
        assert!(reasons.contains(Reasons::RING) && reasons.contains(Reasons::SLOT) && !reasons.contains(Reasons::DUE));
        assert!(
            tokio::time::timeout(Duration::from_millis(5), wake.set())
                .await
                .is_err()
        );
    }

    #[test]
    fn the_soonest_retry_counts_and_is_forgotten_by_channel() {
        let (wake, now) = (Wake::new(2), Instant::now());
        wake.retry_due(0, now + Duration::from_secs(2));
        wake.retry_due(0, now + Duration::from_secs(1));
        wake.retry_due(1, now);
        assert_eq!(wake.next_retry(), Some(now));
        assert!(wake.forget_retries(now, false, |channel| channel == 1));
        assert_eq!(wake.next_retry(), Some(now + Duration::from_secs(1)));
        assert!(!wake.forget_retries(now, false, |_| true) && wake.next_retry().is_some());
        assert!(!wake.forget_retries(now, true, |_| true) && wake.next_retry().is_none());
    }
}
