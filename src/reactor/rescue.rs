//! The reactor's place on the list of reactors, and what it does for those on it that have died.
//!
//! A lease that ends brings the row of a dead reactor back by itself. This is quicker: a second or two after the reactor's end.
//!
//! - A reactor shows the key of its lock on the list while it holds it, and while the others would see that (`present`).
//!   One that cannot hold it, having no session that is its alone, is left to the leases.
//! - Each tries the locks of the others, every second as long as there are others. One whose lock is free twice, 0.7 s apart,
//!   is dead. Whoever finds that out marks it on the list, still holding the lock.
//! - Everybody then makes the rows of the dead due again on the channels that it serves, and rings.
//! - Who has been gone for so long that its leases are over is taken off the list without that (`forget`).
//! - A reactor that is no longer listed, or listed as dead, goes on under a new id. It never rescues what it claimed under
//!   an old one: it is alive, and sending.
//!
//! When the server restarts everybody's lock is gone, and comes back within 2 s. So who has not held its own for 5 s yet
//! judges nobody.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::Error;
use crate::config::OnUnknown;
use crate::reactor::state::{Channel, Shared, count};
use crate::retry::random;
use crate::store::{Entry, Peer, Presence};

/// How often a reactor says that it is alive, and whether it is alone. Who joins it says so (`announce`).
const PRESENT_INTERVAL: Duration = Duration::from_secs(10);
/// How often it looks after the others.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long after the first look a lock must still be free.
const SECOND_LOOK: Duration = Duration::from_millis(700);
/// How long we must have held our own lock before we judge.
const PROBATION: Duration = Duration::from_secs(5);

/// Keeps the reactor listed, and rescues.
pub(crate) struct Rescuer {
    shared: Arc<Shared>,
    entry: Entry,
    /// When it was last written that we live.
    presented: Option<Instant>,
    peers: bool,
    /// Dead reactors on the list whose rows were rescued.
    rescued: HashSet<Uuid>,
    /// Rounds that failed, one upon the other.
    failures: u32,
}

impl Rescuer {
    pub(crate) fn new(shared: Arc<Shared>, entry: Entry) -> Self {
        Rescuer {
            shared,
            entry,
            presented: None,
            peers: false,
            rescued: HashSet::new(),
            failures: 0,
        }
    }

    /// Goes on for as long as it is polled.
    pub(crate) async fn run(mut self) {
        loop {
            match self.round().await {
                Ok(()) => self.failures = 0,
                Err(error) => self.failed(&error),
            }
            let interval = if self.peers {
                LOOK_INTERVAL
            } else {
                self.present_interval()
            };
            // Spread by a tenth, so that reactors do not keep step and take each other's tries for life.
            let pause = interval.mul_f64(0.9 + 0.2 * random());
            let changed = tokio::time::timeout(pause, self.shared.instance.changed()).await;
            if changed.is_ok() {
                self.presented = None;
            }
        }
    }

    fn failed(&mut self, error: &Error) {
        self.failures += 1;
        if self.failures == 1 {
            tracing::warn!(error = %error.chain(), "cannot look after the other reactors; trying until it works");
        } else {
            tracing::debug!(error = %error.chain(), failures = self.failures, "cannot look after the other reactors");
        }
    }

    async fn round(&mut self) -> Result<(), Error> {
        let due = self
            .presented
            .is_none_or(|at| at.elapsed() >= self.present_interval().mul_f64(0.9));
        let presented = if due { self.present().await } else { Ok(()) };
        // Whoever holds our entry is not to keep the rows of others from being rescued. A look finds out, too, whether there
        // are others.
        let looked = if self.peers || presented.is_err() {
            self.look_after(due).await
        } else {
            Ok(())
        };
        presented.and(looked)
    }

    fn present_interval(&self) -> Duration {
        PRESENT_INTERVAL.min(self.shared.lease)
    }

    /// Says that we live. Who is taken for dead, or was taken off the list, lists itself under a new id: what was claimed
    /// under the old one may have been given to others.
    async fn present(&mut self) -> Result<(), Error> {
        let (store, instance) = (&self.shared.store, &self.shared.instance);
        let mut presence = store.present(instance.id(), instance.held_key()).await?;
        if presence.is_none() && !self.shared.is_stopping() {
            let (old, new) = (instance.id(), instance.rename());
            tracing::warn!(%old, %new, "this reactor was given up for dead; going on under a new id");
            store.register(new, &self.entry).await?;
            presence = store.present(new, instance.held_key()).await?;
        }
        match presence {
            Some(presence) => self.note(presence).await,
            None => Ok(()),
        }
    }

    async fn note(&mut self, presence: Presence) -> Result<(), Error> {
        let was_shown = self.shared.instance.show(presence.shown);
        self.peers = presence.peers;
        self.presented = Some(Instant::now());
        if presence.shown && !was_shown {
            tracing::debug!("the others see that this reactor lives");
            if presence.peers {
                self.shared.store.announce().await?;
            }
        } else if was_shown && !presence.shown {
            tracing::info!(
                "the others cannot see that this reactor lives; if it dies now, its rows wait for their lease"
            );
        }
        Ok(())
    }

    /// Looks after the others. `again`: also at rows that an earlier rescue found locked, and after those that nobody
    /// had the time to judge.
    async fn look_after(&mut self, again: bool) -> Result<(), Error> {
        let (store, me) = (&self.shared.store, self.shared.instance.id());
        while again && store.forget(me).await? > 0 {}
        let peers = store.peers(me).await?;
        self.peers = !peers.is_empty();
        let ids = |which: fn(&Peer) -> bool| peers.iter().filter(move |peer| which(peer)).map(|peer| peer.id);
        let mut dead: Vec<Uuid> = ids(|peer| peer.dead).collect();
        dead.extend(self.judge(&ids(|peer| peer.free).collect::<Vec<_>>()).await?);
        self.rescued.retain(|id| dead.contains(id));
        if !again {
            dead.retain(|id| !self.rescued.contains(id));
        }
        for &id in &dead {
            // Our own sends under an id that we bore before go on, and are settled under it.
            if !self.shared.instance.bears(id) {
                self.rescue(id).await?;
            }
            self.rescued.insert(id);
            self.shared.store.bury(id).await?;
        }
        Ok(())
    }

    /// Takes a second look at those whose lock was free, if we may, and answers with the dead.
    async fn judge(&self, suspects: &[Uuid]) -> Result<Vec<Uuid>, Error> {
        if suspects.is_empty() || !self.may_judge() {
            return Ok(vec![]);
        }
        tokio::time::sleep(SECOND_LOOK).await;
        match self.shared.instance.held_key() {
            Some(own_key) if self.may_judge() => self.shared.store.condemn(suspects, own_key).await,
            _ => Ok(vec![]),
        }
    }

    fn may_judge(&self) -> bool {
        let held_since = self.shared.instance.held_since();
        self.shared.instance.is_shown() && held_since.is_some_and(|since| since.elapsed() >= PROBATION)
    }

    async fn rescue(&self, dead: Uuid) -> Result<(), Error> {
        let names = |which: fn(&Channel) -> bool| -> Vec<&str> {
            let channels = self.shared.channels.iter().filter(|channel| which(channel));
            channels.map(|channel| &*channel.name).collect()
        };
        let hold = names(|channel| channel.config.on_unknown == OnUnknown::Hold);
        let rescued = self.shared.store.rescue(dead, &names(|_| true), &hold).await?;
        count(&self.shared.counts.failed, rescued.failed);
        if rescued.pending + rescued.failed > 0 {
            let (pending, failed) = (rescued.pending, rescued.failed);
            tracing::warn!(reactor = %dead, pending, failed, "a reactor died; its rows are due again, or held");
            // For rows that come back later no trigger rings, and nobody but us knows when they are due.
            self.shared.store.ring().await?;
        }
        Ok(())
    }
}
