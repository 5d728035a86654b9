//! What the looks and rings of the last moments have shown: is there load, do rows come one at a time, are producers at
//! work? It decides whether producers ring or the reactor looks by itself, never whether a row is found. Pure.

use std::time::{Duration, Instant};

use super::{LINGER, PACE};

/// The longest linger after empty rings, and for how long one puts off arming while silent producers are at work.
pub(super) const LONGEST_LINGER: Duration = Duration::from_secs(1);
/// For how long a reactor stays armed that has seen rows come one at a time.
pub(super) const TRICKLE: Duration = Duration::from_secs(1);
/// Empty rings count as one upon the other within this.
pub(super) const QUIET: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(super) struct Evidence {
    /// When it got up, or when it was last concluded how rows come.
    pub(super) awake_since: Instant,
    /// A look since then found more than one row.
    pub(super) crowded: bool,
    /// Until then rows are taken to come one at a time, each ringing for itself.
    pub(super) trickle_until: Option<Instant>,
    /// The last ring that found nothing, or the end of the linger that it caused.
    pub(super) last_empty: Option<Instant>,
    /// The next such linger.
    empty_linger: Duration,
    /// Since when silent producers have been at work each time that it would have armed, and no row was for us.
    pub(super) bustle_since: Option<Instant>,
}

impl Evidence {
    pub(super) fn new(now: Instant) -> Self {
        Evidence {
            awake_since: now,
            crowded: false,
            trickle_until: None,
            last_empty: None,
            empty_linger: LINGER,
            bustle_since: None,
        }
    }

    /// A time awake begins. What an earlier one showed says nothing about it.
    pub(super) fn got_up(&mut self, now: Instant) {
        self.awake_since = now;
        self.crowded = false;
    }

    pub(super) fn armed(&mut self) {
        self.bustle_since = None;
    }

    /// A look while awake found so many rows.
    pub(super) fn note_found(&mut self, rows: usize) {
        self.crowded |= rows > 1;
        if rows > 0 {
            self.bustle_since = None;
        }
    }

    /// A look found as many rows as there were slots.
    pub(super) fn note_backlog(&mut self) {
        self.crowded = true;
    }

    /// Is it for us to look, rather than for producers to ring? Rows that come one at a time, each when the last one is
    /// done with, ring for nobody else to wait, and a ring is sooner than the next look at an interval would be.
    pub(super) fn is_load(&self, found: usize, now: Instant) -> bool {
        found > 1 || (found == 1 && self.trickle_until.is_none_or(|until| now >= until))
    }

    /// Concludes whether rows come one at a time: no look of a whole linger has found more than one row, although nobody
    /// had to ring. Asked anew every so often: what rings one at a time may be many producers that wait for each other's
    /// bell, which only silence can tell.
    pub(super) fn conclude_trickle(&mut self, now: Instant) -> bool {
        if now - self.awake_since < LINGER {
            return false;
        }
        let trickles = !self.crowded;
        self.got_up(now);
        self.trickle_until = trickles.then_some(now + TRICKLE);
        trickles
    }

    /// Notes a ring for a row that another reactor was quicker to take. True: the first in a while, an accident. One upon
    /// the other is load, and then it is for us to look, not for every producer to ring.
    pub(super) fn note_empty_ring(&mut self, now: Instant) -> bool {
        let accident = self
            .last_empty
            .is_none_or(|before| now.saturating_duration_since(before) > QUIET);
        if accident {
            self.empty_linger = LINGER;
            self.last_empty = Some(now);
        }
        accident
    }

    /// Until when to linger after an empty ring that was no accident: longer each time.
    pub(super) fn linger_longer(&mut self, now: Instant) -> Instant {
        let until = now + self.empty_linger;
        self.empty_linger = (self.empty_linger * 2).min(LONGEST_LINGER);
        self.last_empty = Some(until);
        self.trickle_until = None;
        until
    }

    /// Notes that silent producers are at work. Until when to put off arming, twice as long each time; `None`: it has been
    /// long enough, and may as well be one transaction that takes long.
    pub(super) fn note_bustle(&mut self, now: Instant) -> Option<Instant> {
        let since = *self.bustle_since.get_or_insert(now);
        let lasted = now - since;
        (lasted <= LONGEST_LINGER).then(|| now + lasted.max(LINGER))
    }

    /// How often to look while lingering. The longer the linger, the slower: a thousand looks in all at most.
    pub(super) fn pace(&self, now: Instant) -> Duration {
        let bustle = self.bustle_since.map_or(Duration::ZERO, |since| now - since);
        (self.empty_linger.max(bustle) / 100).clamp(PACE, 10 * PACE)
    }
}
