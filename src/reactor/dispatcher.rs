//! The loop that looks and waits. It owns the bell's posture and every instant it waits for.
//!
//! Only the waiting may be cut short. A claim whose future is dropped has claimed rows that nobody would send, so a look
//! always runs to its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};

use crate::Error;
use crate::reactor::bell::{Look, Posture, Step};
use crate::reactor::claimer::{Claimer, FreeChannel, Looked};
use crate::reactor::listener::{Link, Session};
use crate::reactor::reach::Reach;
use crate::reactor::releases::release_if_due;
use crate::reactor::settler::Settle;
use crate::reactor::state::Shared;
use crate::reactor::wake::Reasons;
use crate::retry::{RetryPolicy, random};

/// How long the first look waits for the others to see that this reactor lives. It takes milliseconds.
const SEEN_WITHIN: Duration = Duration::from_secs(2);

pub(crate) struct Dispatcher {
    shared: Arc<Shared>,
    claimer: Claimer,
    scan_interval: Duration,
    posture: Posture,
    /// Of each channel.
    reaches: Vec<Reach>,
    session: Option<Arc<Session>>,
    /// What the last look that asked for it knows of the next due row.
    next_due: Option<Instant>,
    scan_at: Instant,
    failures: u32,
}

impl Dispatcher {
    pub(crate) fn new(shared: Arc<Shared>, settler: mpsc::Sender<Settle>, scan_interval: Duration) -> Self {
        let now = Instant::now();
        Dispatcher {
            claimer: Claimer::new(Arc::clone(&shared), settler),
            reaches: vec![Reach::default(); shared.channels.len()],
            shared,
            scan_interval,
            posture: Posture::new(now),
            session: None,
            next_due: None,
            scan_at: now,
            failures: 0,
        }
    }

    /// Dispatches until the reactor stops; then gives up `ASLEEP`, so that producers fall silent.
    pub(crate) async fn run(mut self, mut links: watch::Receiver<Link>) {
        self.wait_to_be_seen(&mut links).await;
        links.mark_changed();
        while !self.shared.is_stopping() {
            self.follow(&mut links);
            self.ring_for_others().await;
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
        self.shared.hand_over_retries().await;
    }

    /// Waits for a moment until the others see that this reactor lives. Killed before, it would leave its first rows, and
    /// what kills it may be one of those, to their leases. One that cannot be seen does not wait.
    async fn wait_to_be_seen(&self, links: &mut watch::Receiver<Link>) {
        let invisible = links.wait_for(|link| matches!(link, Link::Polling { .. }));
        tokio::select! {
            () = self.shared.instance.shown() => {}
            _ = invisible => {}
            () = tokio::time::sleep(SEEN_WITHIN) => {}
        }
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
        if !held && !self.posture.is_jammed() {
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
        release_if_due(&self.shared).await;
        // In this order: a ring or a freed slot that comes after this line is seen after this look.
        self.shared.wake.clear();
        for (channel, reach) in self.reaches.iter_mut().enumerate() {
            if self.shared.beyond.take_found(channel) {
                reach.forget();
            }
        }
        let begun = Instant::now();
        let free = self
            .claimer
            .free_channels(|channel| self.reaches[channel].duration(begun));
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
        let wants_next_due = self.posture.wants_next_due();
        self.forget_retries(&free, wants_next_due);
        let session = self.session.clone().filter(|_| !self.shared.store.may_be_pooled());
        match self.claimer.look(session.as_ref(), &free, wants_next_due).await {
            Ok(looked) => self.looked(&looked, &free, begun),
            Err(error) => self.failed(&error).await,
        }
    }

    /// Takes note of a look that began then.
    fn looked(&mut self, looked: &Looked, free: &[FreeChannel], begun: Instant) {
        self.shared.vitals.looked();
        let now = Instant::now();
        if let Some(next) = looked.next {
            self.next_due = next.after.map(|due| now + due);
        }
        let locked = looked.next.is_some_and(|next| next.already);
        for &channel in &looked.short {
            self.reaches[channel].came_back_short(begun, locked);
        }
        let reaches = free.iter().filter_map(|channel| Some((channel.index, channel.reach?)));
        self.shared.beyond.ask(reaches, now);
        if std::mem::take(&mut self.failures) > 0 {
            tracing::info!("the database answers again");
        }
        self.put_off_scan();
        let look = Look {
            free: true,
            short: looked.short.len() == free.len(),
            found: looked.found,
            locked,
        };
        self.posture.looked(look, now);
    }

    /// Every look is a scan. The next is due an interval later, give or take a tenth, so that reactors do not keep step.
    fn put_off_scan(&mut self) {
        self.scan_at = Instant::now() + self.scan_interval.mul_f64(0.9 + 0.2 * random());
    }

    /// Retries of our own that this look will find, or that the next due instant will cover.
    fn forget_retries(&mut self, free: &[FreeChannel], covers_all: bool) {
        let now = Instant::now();
        let is_free = |channel| free.iter().any(|free| free.index == channel);
        self.shared.wake.forget_retries(now, covers_all, is_free);
        if self.next_due.is_some_and(|at| at <= now) {
            self.next_due = None;
        }
    }

    /// A look could not be made. Try again after a pause that grows to 2 s.
    async fn failed(&mut self, error: &Error) {
        self.failures += 1;
        self.shared.vitals.cannot_look(error);
        if self.failures == 1 {
            tracing::warn!(error = %error.chain(), "cannot look for due rows; trying until it works");
        } else {
            tracing::debug!(error = %error.chain(), failures = self.failures, "cannot look for due rows");
        }
        self.reaches.iter_mut().for_each(Reach::forget);
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

    /// Waits for a wake, the next due row, the safety scan, or the limit.
    async fn wait(&mut self, limit: Option<Duration>) {
        let limit = limit.map(|limit| Instant::now() + limit);
        let release = self.shared.releases.next();
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
