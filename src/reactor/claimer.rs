//! Claims: which rows are taken for which free slots, from which session; and the sends that begin with them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::Error;
use crate::config::OnUnknown;
use crate::reactor::listener::Session;
use crate::reactor::releases::release_if_due;
use crate::reactor::send::Send;
use crate::reactor::settler::Settle;
use crate::reactor::state::{Shared, count};
use crate::store::{Ask, Claims, NextDue, Wanted};

/// At most so many rows of one channel are claimed at once while another has free slots too: a lone alert comes with the
/// next look, and that takes as long as its rows are many.
const FAIR_SHARE: u32 = 250;

/// A channel that has free slots.
#[derive(Clone, Copy)]
pub(crate) struct FreeChannel {
    pub(crate) index: usize,
    pub(crate) slots: u32,
    /// How long a row may have been due to be seen. `None`: for ever.
    pub(crate) reach: Option<Duration>,
}

/// What a look found.
pub(crate) struct Looked {
    pub(crate) found: usize,
    /// The channels that gave fewer rows than they were asked for.
    pub(crate) short: Vec<usize>,
    /// When the next row is due; unknown if nobody asked, or not every channel was short.
    pub(crate) next: Option<NextDue>,
}

pub(crate) struct Claimer {
    shared: Arc<Shared>,
    settler: mpsc::Sender<Settle>,
    channel_index: HashMap<Arc<str>, usize>,
    /// A claim has failed, perhaps over what some row holds, so the next one leaves what they hold in the table; by itself
    /// for channels that do not hold, and for those that do.
    bare: [AtomicBool; 2],
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
            bare: Default::default(),
        }
    }

    /// Claims and starts what is due now, at most `limit` rows, without a bell. Each channel is asked by itself, since the
    /// limit may be smaller than their free slots together, until it gives fewer rows than asked for.
    pub(crate) async fn drain(self, mut limit: u32) -> Result<(), Error> {
        let mut open: Vec<usize> = (0..self.shared.channels.len()).collect();
        while limit > 0 && !open.is_empty() {
            // Before the slots are counted, so that one freed later ends the wait below.
            self.shared.wake.clear();
            let mut free = self.free_channels(|_| None);
            free.retain(|channel| open.contains(&channel.index));
            if free.is_empty() {
                self.shared.wake.set().await;
            }
            for mut channel in free {
                channel.slots = channel.slots.min(limit);
                if channel.slots == 0 {
                    break;
                }
                release_if_due(&self.shared).await;
                let looked = match self.claim_and_start(None, &[channel]).await {
                    // The next claim is made in another way.
                    Err(_) if self.is_bare(&channel) => break,
                    looked => looked?,
                };
                limit = limit.saturating_sub(u32::try_from(looked.found).unwrap_or(u32::MAX));
                open.retain(|index| !looked.short.contains(index));
            }
        }
        Ok(())
    }

    /// The channels with free slots; `reach` says how far back to look on each.
    pub(crate) fn free_channels(&self, reach: impl Fn(usize) -> Option<Duration>) -> Vec<FreeChannel> {
        let channels = (0..self.shared.channels.len()).map(|index| FreeChannel {
            index,
            slots: self.shared.free_slots(index),
            reach: reach(index),
        });
        channels.filter(|channel| channel.slots > 0).collect()
    }

    /// Claims for these slots, on the listening session if there is one, and starts the sends. If `wants_next_due` and every
    /// channel is short it also learns when the next row is due: in the same round trip where answers come in order, and
    /// otherwise afterwards, since before the claim it would not hear of a row that the claim finds locked.
    pub(crate) async fn look(
        &self,
        session: Option<&Arc<Session>>,
        free: &[FreeChannel],
        wants_next_due: bool,
    ) -> Result<Looked, Error> {
        let in_order = |session: &Arc<Session>| {
            free.iter().all(|channel| !self.holds(channel.index)) && self.shared.store.keeps_order(session.lookout())
        };
        let (mut looked, next) = if wants_next_due && session.is_some_and(in_order) {
            let (looked, next) = futures::join!(self.claim_and_start(session, free), self.next_due(session, free));
            (looked?, Some(next))
        } else {
            (self.claim_and_start(session, free).await?, None)
        };
        if wants_next_due && looked.short.len() == free.len() {
            looked.next = Some(match next {
                Some(next) => next?,
                None => self.next_due(session, free).await?,
            });
        }
        Ok(looked)
    }

    async fn next_due(&self, session: Option<&Arc<Session>>, free: &[FreeChannel]) -> Result<NextDue, Error> {
        let wanted: Vec<Wanted<'_>> = free.iter().map(|channel| self.wanted(channel)).collect();
        let lookout = session.map(|session| session.lookout());
        let (store, instance) = (&self.shared.store, self.shared.instance.id());
        store.next_due(lookout, &wanted, instance).await
    }

    fn wanted(&self, channel: &FreeChannel) -> Wanted<'_> {
        Wanted {
            index: channel.index,
            channel: &self.shared.channels[channel.index].name,
            slots: channel.slots,
            reach: channel.reach,
        }
    }

    fn is_bare(&self, channel: &FreeChannel) -> bool {
        self.bare(self.holds(channel.index)).load(Ordering::Relaxed)
    }

    fn bare(&self, hold: bool) -> &AtomicBool {
        &self.bare[usize::from(hold)]
    }

    fn holds(&self, channel: usize) -> bool {
        self.shared.channels[channel].config.on_unknown == OnUnknown::Hold
    }

    async fn claim_and_start(&self, session: Option<&Arc<Session>>, free: &[FreeChannel]) -> Result<Looked, Error> {
        let most = if free.len() > 1 { FAIR_SHARE } else { u32::MAX };
        let wanted = free.iter().map(|channel| Wanted {
            slots: channel.slots.min(most),
            ..self.wanted(channel)
        });
        let (hold, plain): (Vec<_>, Vec<_>) = wanted.partition(|wanted| self.holds(wanted.index));
        // Both at once; and each answer counts, whatever becomes of the other.
        let (plain, hold) = futures::join!(self.claim(session, &plain, false), self.claim(session, &hold, true));
        let claimed_at = Instant::now();
        let mut looked = Looked {
            found: 0,
            short: vec![],
            next: None,
        };
        let mut failure = None;
        for claims in [plain, hold] {
            match claims {
                Ok(claims) => {
                    looked.found += claims.rows.len() + claims.failed.len() + claims.expired.len();
                    looked.short.extend(&claims.short);
                    self.start(claims, claimed_at);
                }
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(looked), Err)
    }

    async fn claim(&self, session: Option<&Arc<Session>>, wanted: &[Wanted<'_>], hold: bool) -> Result<Claims, Error> {
        if wanted.is_empty() {
            return Ok(Claims::default());
        }
        // On `hold` a claim waits for its flush, and would keep the listening session from hearing the next ring.
        let session = session.filter(|_| !hold);
        let lookout = session.map(|session| session.lookout());
        let (reactor, lease) = (self.shared.instance.id(), self.shared.lease);
        let claim = |bare| {
            let ask = Ask {
                wanted,
                hold,
                bare,
                reactor,
                lease,
            };
            self.shared.store.claim(lookout, ask)
        };
        let bare = self.bare(hold).swap(false, Ordering::Relaxed);
        let mut claims = claim(bare).await;
        if let Err(error) = &claims
            && !bare
            && error.may_be_over_a_row()
        {
            if error.is_refusal() {
                tracing::warn!(error = %error.chain(), "a claim failed over what some row holds; reading each row by itself");
                claims = claim(true).await;
            } else {
                // What it took, if anything, is given back first.
                self.bare(hold).store(true, Ordering::Relaxed);
            }
        }
        if let Err(error) = &claims
            && !error.is_refusal()
        {
            self.shared.releases.unanswered(Instant::now());
        }
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
            let Some(cut) = self.shared.leases.take(claimed.held, claimed_at) else {
                tracing::warn!(id = %claimed.held.id, "due again while it is still being sent; that send goes on");
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
