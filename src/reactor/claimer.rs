//! Claims: which rows are taken for which free slots, from which session; and the sends that begin with them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::Error;
use crate::config::OnUnknown;
use crate::reactor::listener::Session;
use crate::reactor::send::Send;
use crate::reactor::settler::Settle;
use crate::reactor::state::{Shared, count};
use crate::store::{Claims, Held};

/// At most so many rows of one channel are claimed at once while another has free slots too: a lone alert comes with the
/// next look, and that takes as long as its rows are many.
const FAIR_SHARE: u32 = 250;

/// Channels with free slots, and how many of these each has.
pub(crate) type Free = [(usize, u32)];

/// From where a look is made, and how far back.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    /// The listening session; without one, the pool.
    pub(crate) session: Option<&'a Arc<Session>>,
    /// How long a row may have been due to be seen. `None`: for ever.
    pub(crate) reach: Option<Duration>,
}

/// What a look found.
pub(crate) struct Looked {
    pub(crate) found: usize,
    /// Every channel gave fewer rows than it was asked for.
    pub(crate) short: bool,
    pub(crate) next: Next,
}

/// When the next row of the channels that were looked at is due.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Next {
    /// Nobody asked, or the look was not short.
    Unknown,
    Never,
    In(Duration),
    /// One is due, but somebody holds its lock.
    Locked,
}

pub(crate) struct Claimer {
    shared: Arc<Shared>,
    settler: mpsc::Sender<Settle>,
    channel_index: HashMap<Arc<str>, usize>,
}

impl Claimer {
    pub(crate) fn new(shared: Arc<Shared>, settler: mpsc::Sender<Settle>) -> Self {
        let names = shared.channels.iter().enumerate();
        Claimer {
            channel_index: names
                .map(|(index, channel)| (Arc::clone(&channel.name), index))
                .collect(),
            shared,
            settler,
        }
    }

    /// Claims and starts what is due now, at most `limit` rows, without a bell. Each channel is asked by itself, since the
    /// limit may be smaller than their free slots together, until it gives fewer rows than asked for.
    pub(crate) async fn drain(self, mut limit: u32) -> Result<(), Error> {
        let pool = View {
            session: None,
            reach: None,
        };
        let mut open: Vec<usize> = (0..self.shared.channels.len()).collect();
        while limit > 0 && !open.is_empty() {
            // Before the slots are counted, so that one freed later ends the wait below.
            self.shared.wake.clear();
            let mut free = self.free_channels();
            free.retain(|(channel, _)| open.contains(channel));
            if free.is_empty() {
                self.shared.wake.set().await;
            }
            for (channel, slots) in free {
                let slots = slots.min(limit);
                if slots == 0 {
                    break;
                }
                let looked = self.claim_and_start(pool, &[(channel, slots)]).await?;
                limit = limit.saturating_sub(u32::try_from(looked.found).unwrap_or(u32::MAX));
                if looked.short {
                    open.retain(|index| *index != channel);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn free_channels(&self) -> Vec<(usize, u32)> {
        let slots = (0..self.shared.channels.len()).map(|index| (index, self.shared.free_slots(index)));
        slots.filter(|&(_, slots)| slots > 0).collect()
    }

    /// Claims for these slots and starts the sends. If `wants_next_due` and the claim is short it also learns when the next
    /// row is due: in the same round trip where answers come in order, and otherwise afterwards, since before the claim it
    /// would not hear of a row that the claim finds locked.
    pub(crate) async fn look(&self, view: View<'_>, free: &Free, wants_next_due: bool) -> Result<Looked, Error> {
        let in_order = |session: &Arc<Session>| {
            let plain = |&(index, _): &(usize, u32)| self.shared.channels[index].config.on_unknown != OnUnknown::Hold;
            free.iter().all(plain) && self.shared.store.keeps_order(session.lookout())
        };
        let (mut looked, next) = if wants_next_due && view.session.is_some_and(in_order) {
            let (looked, next) = futures::join!(self.claim_and_start(view, free), self.next_due(view, free));
            (looked?, Some(next))
        } else {
            (self.claim_and_start(view, free).await?, None)
        };
        if wants_next_due && looked.short {
            looked.next = match next {
                Some(next) => next?,
                None => self.next_due(view, free).await?,
            };
        }
        Ok(looked)
    }

    async fn next_due(&self, view: View<'_>, free: &Free) -> Result<Next, Error> {
        let name = |&(index, _): &(usize, u32)| &*self.shared.channels[index].name;
        let names: Vec<&str> = free.iter().map(name).collect();
        let lookout = view.session.map(|session| session.lookout());
        let store = &self.shared.store;
        let due = store
            .next_due(lookout, &names, self.shared.instance.id(), view.reach)
            .await?;
        Ok(match due {
            None => Next::Never,
            Some(Duration::ZERO) => Next::Locked,
            Some(due) => Next::In(due),
        })
    }

    async fn claim_and_start(&self, view: View<'_>, free: &Free) -> Result<Looked, Error> {
        let most = if free.len() > 1 { FAIR_SHARE } else { u32::MAX };
        let (mut plain, mut hold) = (vec![], vec![]);
        for &(index, slots) in free {
            let channel = &self.shared.channels[index];
            let wanted = match channel.config.on_unknown {
                OnUnknown::Hold => &mut hold,
                OnUnknown::Retry => &mut plain,
            };
            wanted.push((&*channel.name, slots.min(most)));
        }
        // Both at once; and each answer counts, whatever becomes of the other.
        let (plain, hold) = futures::join!(self.claim(view, &plain, false), self.claim(view, &hold, true));
        let claimed_at = Instant::now();
        let mut looked = Looked {
            found: 0,
            short: true,
            next: Next::Unknown,
        };
        let mut failure = None;
        for claims in [plain, hold] {
            match claims {
                Ok(claims) => {
                    looked.found += claims.rows.len() + claims.failed.len() + claims.expired.len();
                    looked.short &= claims.short;
                    self.start(claims, claimed_at);
                }
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(looked), Err)
    }

    async fn claim(&self, view: View<'_>, wanted: &[(&str, u32)], hold: bool) -> Result<Claims, Error> {
        if wanted.is_empty() {
            return Ok(Claims {
                rows: vec![],
                failed: vec![],
                expired: vec![],
                short: true,
            });
        }
        // On `hold` a claim waits for its flush, and would keep the listening session from hearing the next ring.
        let session = view.session.filter(|_| !hold);
        let lookout = session.map(|session| session.lookout());
        let (instance, lease) = (self.shared.instance.id(), self.shared.lease);
        let claim = self
            .shared
            .store
            .claim(lookout, wanted, hold, instance, lease, view.reach);
        let claims = claim.await;
        if let (Some(session), Err(error)) = (session, &claims) {
            session.doubt(error);
        }
        claims
    }

    fn start(&self, claims: Claims, claimed_at: Instant) {
        count(&self.shared.counts.failed, claims.failed.len());
        count(&self.shared.counts.expired, claims.expired.len());
        for id in &claims.failed {
            tracing::warn!(%id, "failed without a further try; see last_error");
        }
        for claimed in claims.rows {
            let Some(&channel) = self.channel_index.get(&*claimed.channel) else {
                continue;
            };
            let held = Held {
                id: claimed.id,
                claim: claimed.claim,
                claimed_by: claimed.claimed_by,
                attempt: claimed.attempt,
            };
            let Some(cut) = self.shared.leases.take(held, claimed_at) else {
                tracing::warn!(id = %held.id, "due again while it is still being sent; that send goes on");
                continue;
            };
            let send = Send {
                claimed,
                claimed_at,
                slot: self.shared.take_slot(channel),
                cut,
            };
            tokio::spawn(send.run(Arc::clone(&self.shared), self.settler.clone()));
        }
    }
}
