//! The claims that this reactor holds: what guards their writes, and how long they are good for.
//!
//! An entry lives from the claim until its outcome is written or it turns out to be no longer ours. It outlives the send:
//! an outcome that waits for the database to come back keeps its lease.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use uuid::Uuid;

use crate::store::Held;

/// Why a running send is cut off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cut {
    /// The reactor stops, and its patience is at an end.
    Shutdown,
    /// The row is no longer ours.
    FenceLost,
}

struct Lease {
    held: Held,
    renewed: Instant,
    /// Gone once the send has ended.
    cut: Option<oneshot::Sender<Cut>>,
}

/// All leases of one reactor.
#[derive(Default)]
pub(crate) struct Leases(Mutex<HashMap<Uuid, Lease>>);

impl Leases {
    /// Notes a claim. `None`: this id is still being sent or settled here, and that send takes over the newer claim;
    /// no second one may be started. Otherwise what tells the send that it is cut off.
    pub(crate) fn take(&self, held: Held, now: Instant) -> Option<oneshot::Receiver<Cut>> {
        match self.lock().entry(held.id) {
            Entry::Occupied(mut running) => {
                let lease = running.get_mut();
                lease.held = held;
                lease.renewed = now;
                None
            }
            Entry::Vacant(free) => {
                let (cut, when_cut) = oneshot::channel();
                free.insert(Lease {
                    held,
                    renewed: now,
                    cut: Some(cut),
                });
                Some(when_cut)
            }
        }
    }

    /// The claim as it is known now: the one to settle with.
    pub(crate) fn held(&self, id: Uuid) -> Option<Held> {
        self.lock().get(&id).map(|lease| lease.held)
    }

    /// Every claim that is held.
    pub(crate) fn all(&self) -> Vec<Held> {
        self.lock().values().map(|lease| lease.held).collect()
    }

    /// The send has ended; the lease goes on until the outcome is written.
    pub(crate) fn sent(&self, id: Uuid) {
        if let Some(lease) = self.lock().get_mut(&id) {
            lease.cut = None;
        }
    }

    /// The outcome of this claim is written, or its row is no longer ours. False: a newer claim was noted meanwhile, and
    /// that one is still held.
    pub(crate) fn end(&self, held: Held) -> bool {
        let mut leases = self.lock();
        let newer = leases.get(&held.id).is_some_and(|lease| lease.held != held);
        if !newer {
            leases.remove(&held.id);
        }
        !newer
    }

    /// Leases that were taken or renewed before `before`.
    pub(crate) fn older_than(&self, before: Instant) -> Vec<Held> {
        self.lock()
            .values()
            .filter(|lease| lease.renewed < before)
            .map(|lease| lease.held)
            .collect()
    }

    /// The database renewed what it was `asked` for, except what is not among `kept`: those rows are no longer ours, and
    /// their sends are cut off. One that is kept but could not be renewed is asked for again soon. A claim that changed
    /// meanwhile is left alone. Answers with the ids that were lost.
    pub(crate) fn renewed(&self, asked: &[Held], kept: &HashMap<Uuid, bool>, now: Instant) -> Vec<Uuid> {
        let mut leases = self.lock();
        let mut lost = Vec::new();
        for held in asked {
            let Entry::Occupied(mut entry) = leases.entry(held.id) else {
                continue;
            };
            if entry.get().held != *held {
                continue;
            }
            if let Some(renewed) = kept.get(&held.id) {
                if *renewed {
                    entry.get_mut().renewed = now;
                }
            } else if let Some(cut) = entry.get_mut().cut.take() {
                // A send that has ended is settled just now, and the settle finds out by itself.
                let _ = cut.send(Cut::FenceLost);
                entry.remove();
                lost.push(held.id);
            }
        }
        lost
    }

    /// Cuts off every send that still runs.
    pub(crate) fn cut_all(&self) {
        for lease in self.lock().values_mut() {
            if let Some(cut) = lease.cut.take() {
                let _ = cut.send(Cut::Shutdown);
            }
        }
    }

    /// Forgets every claim, which ends the sends that still run.
    pub(crate) fn abandon(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Lease>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often leases are looked through, and from which age on one is renewed: a third of its length.
pub(crate) fn renewal_pace(lease: Duration) -> (Duration, Duration) {
    (lease / 6, lease / 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(id: Uuid, claim: i64) -> Held {
        Held {
            id,
            claim,
            claimed_by: Uuid::nil(),
            attempt: 1,
        }
    }

    #[test]
    fn a_running_send_takes_over_a_newer_claim() {
        let (leases, id, now) = (Leases::default(), Uuid::now_v7(), Instant::now());
        assert!(leases.take(held(id, 1), now).is_some());
        assert!(
            leases.take(held(id, 2), now).is_none(),
            "no second send for the same id"
        );
        assert_eq!(leases.held(id).unwrap().claim, 2);
        assert!(!leases.end(held(id, 1)), "the newer claim is still held");
        assert!(leases.end(held(id, 2)) && leases.held(id).is_none());
    }

    #[test]
    fn a_renewal_that_finds_nothing_cuts_the_send_off_unless_the_claim_is_newer() {
        let (leases, now) = (Leases::default(), Instant::now());
        let [kept, lost, taken_over, ended, locked] = [(); 5].map(|()| Uuid::now_v7());
        let mut cuts: Vec<_> = [kept, lost, taken_over, ended, locked]
            .map(|id| leases.take(held(id, 1), now))
            .into();
        let later = now + Duration::from_secs(1);
        let asked = leases.older_than(later);
        assert_eq!(asked.len(), 5);
        leases.take(held(taken_over, 2), now);
        leases.sent(ended);
        let answer = HashMap::from([(kept, true), (locked, false)]);
        assert_eq!(leases.renewed(&asked, &answer, later), [lost]);
        assert!(leases.older_than(later).iter().any(|held| held.id == locked));
        assert!(leases.older_than(later).iter().all(|held| held.id != kept));
        assert_eq!(cuts[1].as_mut().unwrap().try_recv(), Ok(Cut::FenceLost));
        assert!(cuts[0].as_mut().unwrap().try_recv().is_err() && cuts[2].as_mut().unwrap().try_recv().is_err());
        assert!(leases.held(ended).is_some(), "its outcome is still to be written");
        leases.cut_all();
        assert_eq!(cuts[0].as_mut().unwrap().try_recv(), Ok(Cut::Shutdown));
    }
}
