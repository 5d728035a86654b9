//! The loop that looks, claims and starts sends. It owns the bell's posture and every instant it waits for.
//!
//! Only the waiting may be cut short. A claim whose future is dropped has claimed rows that nobody would send, so a look
//! always runs to its end.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};

use crate::Error;
use crate::config::OnUnknown;
use crate::reactor::bell::{Look, Posture, Step};
use crate::reactor::listener::{Link, Session};
use crate::reactor::reach::Reach;
use crate::reactor::send::Send;
use crate::reactor::settler::Settle;
use crate::reactor::state::{Shared, count};
use crate::reactor::wake::Reasons;
use crate::retry::{RetryPolicy, random};
use crate::store::{Claims, Held};

/// When, after a claim whose answer never came, rows that we do not know are given back: at once, and again because the
/// old backend may still commit.
const RELEASES: [Duration; 3] = [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(5)];

pub(crate) struct Dispatcher {
    shared: Arc<Shared>,
    settler: mpsc::Sender<Settle>,
    channel_index: HashMap<Arc<str>, usize>,
    scan_interval: Duration,
    posture: Posture,
    reach: Reach,
    session: Option<Arc<Session>>,
    /// What the last look that asked for it knows of the next due row.
    next_due: Option<Instant>,
    scan_at: Instant,
    releases: Vec<Instant>,
    failures: u32,
}

impl Dispatcher {
    pub(crate) fn new(shared: Arc<Shared>, settler: mpsc::Sender<Settle>, scan_interval: Duration) -> Self {
        let now = Instant::now();
        let names = shared.channels.iter().enumerate();
        Dispatcher {
            channel_index: names
                .map(|(index, channel)| (Arc::clone(&channel.name), index))
                .collect(),
            shared,
            settler,
            scan_interval,
            posture: Posture::new(now),
            reach: Reach::default(),
            session: None,
            next_due: None,
            scan_at: now,
            releases: Vec::new(),
            failures: 0,
        }
    }

    /// Dispatches until the reactor stops; then gives up `ASLEEP`, so that producers fall silent.
    pub(crate) async fn run(mut self, mut links: watch::Receiver<Link>) {
        links.mark_changed();
        while !self.shared.is_stopping() {
            self.follow(&mut links);
            match (self.posture.step(Instant::now()), &self.session) {
                (Step::Arm, Some(session)) => match session.arm().await {
                    Ok(held) => self.armed(held),
                    Err(error) => self.lost(&error),
                },
                (Step::Disarm, Some(session)) => match session.disarm().await {
                    Ok(()) => self.posture.disarmed(),
                    Err(error) => self.lost(&error),
                },
                (Step::Test, Some(session)) => match session.test().await {
                    Ok(free) => self.posture.tested(free, Instant::now()),
                    Err(error) => self.lost(&error),
                },
                (Step::Arm | Step::Disarm | Step::Test, None) => self.posture.lost(Instant::now()),
                (Step::Look, _) => self.look().await,
                (Step::Wait(limit), _) => self.wait(limit).await,
            }
        }
        if let Some(session) = &self.session
            && self.posture.is_armed()
            && let Err(error) = session.disarm().await
        {
            tracing::debug!(error = %error.chain(), "the listening session went before it was disarmed");
        }
    }

    /// Claims and starts what is due now, at most `limit` rows, without a bell. Each channel is asked by itself, since the
    /// limit may be smaller than their free slots together, until it gives fewer rows than asked for.
    pub(crate) async fn drain(self, mut limit: u32) -> Result<(), Error> {
        let mut open: Vec<usize> = (0..self.shared.channels.len()).collect();
        while limit > 0 && !open.is_empty() {
            // Before the slots are counted, so that one freed later ends the wait below.
            self.shared.wake.clear();
            let mut free = self.free_channels();
            free.retain(|(channel, _)| open.contains(channel));
            if free.is_empty() {
                self.shared.wake.set().await;
            }
            for channel in free {
                let looked = self.claim_and_start(&[channel], limit, None).await?;
                limit = limit.saturating_sub(u32::try_from(looked.found).unwrap_or(u32::MAX));
                if looked.short {
                    open.retain(|index| *index != channel.0);
                }
            }
        }
        Ok(())
    }

    /// Takes note of a listening session that came or went.
    fn follow(&mut self, links: &mut watch::Receiver<Link>) {
        if !links.has_changed().unwrap_or(false) {
            return;
        }
        self.session = match &*links.borrow_and_update() {
            Link::Listening(session) => Some(Arc::clone(session)),
            Link::Connecting | Link::Polling { .. } => None,
        };
        match self.session {
            Some(_) => self.posture.connected(Instant::now()),
            None => self.posture.lost(Instant::now()),
        }
    }

    fn armed(&mut self, held: bool) {
        if !held {
            tracing::warn!("the bell cannot be armed: somebody holds its lock; looking at an interval");
        }
        self.posture.armed(held, Instant::now());
    }

    fn lost(&mut self, error: &Error) {
        tracing::warn!(error = %error.chain(), "the listening session failed");
        self.session = None;
        self.posture.lost(Instant::now());
    }

    /// One look: forget the ring, count free slots, claim, start the sends, and ask when the next row is due.
    async fn look(&mut self) {
        if !self.shared.may_claim() {
            return self.hold_back(Duration::from_secs(1)).await;
        }
        self.release_unknown().await;
        // In this order: a ring or a freed slot that comes after this line is seen after this look.
        self.shared.wake.clear();
        let free = self.free_channels();
        if free.is_empty() {
            self.next_due = None;
            self.put_off_scan();
            return self.posture.looked(
                Look {
                    free: false,
                    short: true,
                    found: 0,
                    locked: false,
                },
                Instant::now(),
            );
        }
        if self.shared.beyond.take_found() {
            self.reach.forget();
        }
        let begun = Instant::now();
        let reach = self.reach.duration(begun);
        let wants_next_due = self.posture.wants_next_due();
        self.forget_retries(&free, wants_next_due);
        let (looked, next_due) = self.ask(&free, wants_next_due, reach).await;
        let looked = match looked {
            Ok(looked) => looked,
            Err(error) => return self.failed(&error).await,
        };
        let mut locked = false;
        if looked.short && wants_next_due {
            let next_due = match next_due {
                Some(next_due) => next_due,
                None => self.ask_next_due(&free, reach).await,
            };
            match next_due {
                Ok(next_due) => {
                    locked = next_due == Some(Duration::ZERO);
                    self.next_due = next_due.filter(|_| !locked).map(|due| Instant::now() + due);
                }
                Err(error) => return self.failed(&error).await,
            }
            // Of a channel without a free slot nothing is known.
            if !locked && free.len() == self.shared.channels.len() {
                self.reach.covered(begun);
            }
        }
        if let Some(reach) = reach {
            self.shared.beyond.ask(reach, Instant::now());
        }
        if std::mem::take(&mut self.failures) > 0 {
            tracing::info!("the database answers again");
        }
        self.put_off_scan();
        self.posture.looked(
            Look {
                free: true,
                short: looked.short,
                found: looked.found,
                locked,
            },
            Instant::now(),
        );
    }

    /// Claims, and asks for the next due instant in the same round trip where the answers come in order. Otherwise that
    /// is still to be asked: before the claim it would not tell of a row that the claim finds locked.
    async fn ask(
        &self,
        free: &[(usize, u32)],
        wants_next_due: bool,
        reach: Option<Duration>,
    ) -> (Result<Looked, Error>, Option<Result<Option<Duration>, Error>>) {
        let in_order = |session: &Arc<Session>| {
            let plain = |&(index, _): &(usize, u32)| self.shared.channels[index].config.on_unknown != OnUnknown::Hold;
            free.iter().all(plain) && self.shared.store.keeps_order(session.lookout())
        };
        if wants_next_due && self.looks_from().is_some_and(in_order) {
            let (claimed, next_due) = futures::join!(
                self.claim_and_start(free, u32::MAX, reach),
                self.ask_next_due(free, reach)
            );
            (claimed, Some(next_due))
        } else {
            (self.claim_and_start(free, u32::MAX, reach).await, None)
        }
    }

    async fn ask_next_due(&self, free: &[(usize, u32)], reach: Option<Duration>) -> Result<Option<Duration>, Error> {
        let name = |&(index, _): &(usize, u32)| &*self.shared.channels[index].name;
        let names: Vec<&str> = free.iter().map(name).collect();
        let lookout = self.looks_from().map(|session| session.lookout());
        self.shared
            .store
            .next_due(lookout, &names, self.shared.instance, reach)
            .await
    }

    /// The session that looks are made from, if not from the pool.
    fn looks_from(&self) -> Option<&Arc<Session>> {
        self.session.as_ref().filter(|_| self.shared.store.is_direct())
    }

    /// Every look is a scan. The next is due an interval later, give or take a tenth, so that reactors do not keep step.
    fn put_off_scan(&mut self) {
        self.scan_at = Instant::now() + self.scan_interval.mul_f64(0.9 + 0.2 * random());
    }

    fn free_channels(&self) -> Vec<(usize, u32)> {
        let slots = (0..self.shared.channels.len()).map(|index| (index, self.shared.free_slots(index)));
        slots.filter(|&(_, slots)| slots > 0).collect()
    }

    /// Retries of our own that this look will find, or that the next due instant will cover.
    fn forget_retries(&mut self, free: &[(usize, u32)], covers_all: bool) {
        let now = Instant::now();
        let is_free = |channel| free.iter().any(|&(index, _)| index == channel);
        self.shared.wake.forget_retries(now, covers_all, is_free);
        if self.next_due.is_some_and(|at| at <= now) {
            self.next_due = None;
        }
    }

    /// Claims at most as many rows as there are free slots (and `limit`), and starts their sends.
    async fn claim_and_start(
        &self,
        free: &[(usize, u32)],
        limit: u32,
        reach: Option<Duration>,
    ) -> Result<Looked, Error> {
        let mut limit = limit;
        let mut wanted: [Vec<(&str, u32)>; 2] = [vec![], vec![]];
        for &(index, slots) in free {
            let channel = &self.shared.channels[index];
            let slots = slots.min(limit);
            limit -= slots;
            if slots > 0 {
                wanted[usize::from(channel.config.on_unknown == OnUnknown::Hold)].push((&channel.name, slots));
            }
        }
        // Both at once; and each answer counts, whatever becomes of the other.
        let (plain, hold) = futures::join!(
            self.claim(&wanted[0], false, reach),
            self.claim(&wanted[1], true, reach)
        );
        let claimed_at = Instant::now();
        let mut looked = Looked { found: 0, short: true };
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

    async fn claim(&self, wanted: &[(&str, u32)], hold: bool, reach: Option<Duration>) -> Result<Claims, Error> {
        if wanted.is_empty() {
            return Ok(Claims {
                rows: vec![],
                failed: vec![],
                expired: vec![],
                short: true,
            });
        }
        // On `hold` a claim waits for its flush, and would keep the listening session from hearing the next ring.
        let session = self.looks_from().filter(|_| !hold);
        let lookout = session.map(|session| session.lookout());
        let claim = self
            .shared
            .store
            .claim(lookout, wanted, hold, self.shared.instance, self.shared.lease, reach);
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
                claimed_by: self.shared.instance,
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

    /// A look could not be made. Try again after a pause that grows to 2 s.
    async fn failed(&mut self, error: &Error) {
        self.failures += 1;
        if !error.is_refusal() {
            let now = Instant::now();
            self.releases = RELEASES.map(|after| now + after).into();
        }
        if self.failures == 1 {
            tracing::warn!(error = %error.chain(), "cannot look for due rows; trying until it works");
        } else {
            tracing::debug!(error = %error.chain(), failures = self.failures, "cannot look for due rows");
        }
        self.reach.forget();
        self.posture.failed(Instant::now());
        let pauses = RetryPolicy::exponential(Duration::from_millis(50), Duration::from_millis(1300)).jitter(0.5);
        self.hold_back(pauses.delay(self.failures, random())).await;
    }

    /// Waits for news, at most this long; rings do not count.
    async fn hold_back(&self, limit: Duration) {
        let until = Instant::now() + limit;
        while !self.shared.is_stopping() && !self.shared.wake.clear().contains(Reasons::NEWS) {
            if tokio::time::timeout_at(until.into(), self.shared.wake.set())
                .await
                .is_err()
            {
                return;
            }
        }
    }

    /// Gives back rows that an unanswered claim may have taken. Between claims, so that none is in flight.
    async fn release_unknown(&mut self) {
        let now = Instant::now();
        if !self.releases.iter().any(|at| *at <= now) {
            return;
        }
        let names: Vec<&str> = self.shared.channels.iter().map(|channel| &*channel.name).collect();
        let known = self.shared.leases.all();
        match self
            .shared
            .store
            .release_unknown(&names, self.shared.instance, &known)
            .await
        {
            Ok(released) => {
                self.releases.retain(|at| *at > now);
                count(&self.shared.counts.released, released);
                if released > 0 {
                    tracing::info!(released, "gave back rows of a claim whose answer never came");
                }
            }
            Err(error) => {
                tracing::debug!(error = %error.chain(), "rows of a lost claim cannot be given back yet");
                self.releases = vec![now + Duration::from_secs(1)];
            }
        }
    }

    /// Waits for a wake, the next due row, the safety scan, or the limit.
    async fn wait(&mut self, limit: Option<Duration>) {
        let limit = limit.map(|limit| Instant::now() + limit);
        let release = self.releases.iter().min().copied();
        let reasons = loop {
            let instants = [limit, release, self.next_due, self.shared.wake.next_retry()];
            let until = instants.into_iter().flatten().fold(self.scan_at, Instant::min);
            if tokio::time::timeout_at(until.into(), self.shared.wake.set())
                .await
                .is_err()
            {
                break Reasons::default();
            }
            // After a retry was written only the instant to wait for is another; the limit stays, or a stream of
            // retries would put off every look.
            let reasons = self.shared.wake.clear();
            if reasons != Reasons::DUE {
                break reasons;
            }
        };
        self.ring_for_others().await;
        self.posture.woken(reasons.contains(Reasons::RING), Instant::now());
    }

    /// A retry of ours is due on a channel that has no free slot here: others do not know of it, so ring, once.
    async fn ring_for_others(&self) {
        let saturated = |channel| self.shared.free_slots(channel) == 0;
        if self.shared.wake.forget_retries(Instant::now(), false, saturated)
            && let Err(error) = self.shared.store.ring().await
        {
            tracing::debug!(error = %error.chain(), "could not ring for the other reactors");
        }
    }
}

/// What one claim found.
struct Looked {
    found: usize,
    short: bool,
}
