//! The reactor's half of the quiet bell: who sleeps, who rings, and why no wake-up is lost.
//!
//! A plain NOTIFY at every insert takes a lock on the whole cluster at commit, so producers commit one behind the other.
//! So producers ring only when somebody sleeps. Two advisory locks carry that:
//!
//! - `ASLEEP`, held in share mode by the listening session of each reactor that sleeps or is about to;
//! - `IN_FLIGHT`, held in share mode, to the end of its transaction, by each transaction that inserted *silently*.
//!
//! The producer (the trigger functions in `migrations/0002_bell.up.sql`) looks whether somebody is asleep, takes
//! `IN_FLIGHT`, and looks again; if it sees a sleeper either time, or `IN_FLIGHT` is refused, it rings.
//!
//! The reactor's states and the steps between them:
//!
//! ```text
//!            a look that is not short, or rings one upon the other
//!      ┌───────────────────────────────────────────────────────────────┐
//!      ▼                                                               │
//!    AWAKE ──nothing new for a linger──▶ arm ─▶ test ─▶ look ─▶ ASLEEP ─ring, due, slot, scan─▶ look
//!      ▲ ▲     │ producers at work        ▲        │ IN_FLIGHT taken, or a row is locked   │
//!      │ └─────┘ (sounding)               └─ nap ◀─┘ DROWSY                                 └─ short and alone: ASLEEP
//!      └── no slot free anywhere: neither armed nor looking, until a slot is
//! ```
//!
//! Before it arms it sounds: it tests `IN_FLIGHT` once. Taken, that shows producers at work, who would all have to ring,
//! and it lingers on for a while. This proves nothing; the test after arming is still owed.
//!
//! Rings one upon the other do not wake it if they are for rows one at a time: then a ring costs nobody a wait, and a look
//! at an interval would come later. That they are is seen while awake, in silence, and believed for a second.
//!
//! The rules, each of which breaks something when it is left out:
//!
//! 1. **Arm, then test, then look**: three statements, three transactions, in this order, each sent when the answer of
//!    the one before has come. A silent producer held `IN_FLIGHT` when it last saw nobody asleep. If that was before we
//!    armed, the test finds `IN_FLIGHT` taken until the producer's rows are visible (locks go after visibility); if it
//!    was later, the producer would have seen us. So a look that follows a test that found it free sees every row whose
//!    producer stayed silent.
//! 2. **The ring is forgotten before the look is sent**, never after its answer: a ring that comes while the look runs
//!    may be for a row that the look did not see.
//! 3. **A ring that ends a nap proves nothing**: the test is still owed.
//! 4. **While the same session stays armed no new test is owed**: every silent transaction has ended, none can begin.
//! 5. **A session that connects knows nothing**: its locks are gone, so it starts awake.
//!
//! Advisory locks do not depend on snapshots, so this holds at every isolation level; they go with their session, so a
//! reactor that dies never leaves producers silent for nobody.
//!
//! The state here does no I/O: [`Posture::step`] says what to do next, the dispatcher does it and reports what came of it.

use std::time::{Duration, Instant};

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

/// How long a reactor keeps looking after it found something, before it arms.
const LINGER: Duration = Duration::from_millis(10);
/// The longest linger after rings that found nothing.
const LONGEST_LINGER: Duration = Duration::from_secs(1);
/// For how long a reactor stays armed that has seen rows come one at a time.
const TRICKLE: Duration = Duration::from_secs(1);
/// How often a lingering reactor looks.
const PACE: Duration = Duration::from_millis(1);
/// Rings that found nothing count as one upon the other within this.
const QUIET: Duration = Duration::from_secs(1);
/// Naps of a drowsy reactor: the first, and the longest while a producer is at work.
const FIRST_NAP: Duration = Duration::from_millis(1);
const LONGEST_NAP: Duration = Duration::from_millis(50);
/// From this time on a nap may grow to a hundredth of the time spent drowsy, at most [`LONGEST_LATE_NAP`].
const LATE: Duration = Duration::from_secs(5);
const LONGEST_LATE_NAP: Duration = Duration::from_secs(1);
/// How often a reactor looks that has just lost its listener, and for how long it does so.
const BEREFT_PACE: Duration = Duration::from_millis(50);
const BEREFT: Duration = Duration::from_secs(30);

/// What the dispatcher is to do next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Step {
    /// Take `ASLEEP` in share mode, on the listening session; then [`Posture::armed`].
    Arm,
    /// Give it up; then [`Posture::disarmed`].
    Disarm,
    /// Try `IN_FLIGHT` exclusively and release it, on the listening session; then [`Posture::tested`].
    Test,
    /// Forget the ring, count free slots, claim; then [`Posture::looked`].
    Look,
    /// Until a wake, the next due instant or the safety scan, and at most this long; then [`Posture::woken`].
    Wait(Option<Duration>),
}

/// What a look found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// Some channel had a free slot, so there was a claim at all.
    pub(crate) free: bool,
    /// Every channel that had a free slot gave fewer rows than it has slots.
    pub(crate) short: bool,
    /// How many rows were found.
    pub(crate) found: usize,
    /// The next due instant is past although the claim was short: somebody else holds a row's lock.
    pub(crate) locked: bool,
}

/// Where a reactor stands between awake and asleep.
#[derive(Clone, Debug)]
pub(crate) struct Posture {
    listening: bool,
    armed: bool,
    phase: Phase,
    /// The drowsy time since the last arming.
    drowsy: Drowsy,
    /// The wake that a look follows, if it ended a sleep or a nap.
    roused: Option<Roused>,
    /// When the last sleep or nap began.
    rested_at: Option<Instant>,
    /// What the looks since it got up have shown.
    awake: Awake,
    /// Until then rows are taken to come one at a time, each ringing for itself.
    trickle_until: Option<Instant>,
    /// Since when silent producers have been at work, each time that it would have armed, and no row was for us.
    bustle_since: Option<Instant>,
    /// The last ring that found nothing (or the end of the linger it caused), and the next such linger.
    last_empty: Option<Instant>,
    empty_linger: Duration,
    lost_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Awake: look now.
    Looking {
        until: Instant,
    },
    /// Awake: look again after a pause, until then.
    Lingering {
        until: Instant,
        pace: Duration,
    },
    /// No channel has a free slot.
    Saturated,
    /// Not listening: look at an interval.
    Polling,
    /// Awake, and nothing was new for a linger: are silent producers at work, who would all have to ring?
    Sounding,
    Arming,
    Testing,
    /// Armed; the test found `IN_FLIGHT` free or not; look.
    LastLook {
        clean: bool,
    },
    /// Armed, and not to sleep yet: nap, then test again.
    Drowsy,
    Asleep,
    /// Armed and woken: look.
    Roused,
}

#[derive(Clone, Copy, Debug)]
struct Drowsy {
    since: Instant,
    nap: Duration,
}

impl Drowsy {
    fn begin(now: Instant) -> Self {
        Drowsy {
            since: now,
            nap: Duration::ZERO,
        }
    }
}

/// A time awake, from the look that got it up.
#[derive(Clone, Copy, Debug)]
struct Awake {
    since: Instant,
    /// A look found more than one row.
    crowded: bool,
}

#[derive(Clone, Copy, Debug)]
struct Roused {
    by_ring: bool,
    /// It had slept for more than a moment.
    lone: bool,
}

impl Posture {
    /// A reactor that has just started: awake, not listening.
    pub(crate) fn new(now: Instant) -> Self {
        Posture {
            listening: false,
            armed: false,
            phase: Phase::Looking { until: now },
            drowsy: Drowsy::begin(now),
            roused: None,
            rested_at: None,
            awake: Awake {
                since: now,
                crowded: false,
            },
            trickle_until: None,
            bustle_since: None,
            last_empty: None,
            empty_linger: LINGER,
            lost_at: None,
        }
    }

    /// What to do next.
    pub(crate) fn step(&self, now: Instant) -> Step {
        match self.phase {
            // Awake or saturated, and so no longer waiting for a ring.
            Phase::Looking { .. } | Phase::Lingering { .. } | Phase::Saturated if self.armed => Step::Disarm,
            Phase::Looking { .. } | Phase::LastLook { .. } | Phase::Roused => Step::Look,
            Phase::Lingering { pace, .. } => Step::Wait(Some(pace)),
            Phase::Polling => Step::Wait(self.bereft(now).then_some(BEREFT_PACE)),
            Phase::Saturated | Phase::Asleep => Step::Wait(None),
            Phase::Arming => Step::Arm,
            Phase::Sounding | Phase::Testing => Step::Test,
            Phase::Drowsy => Step::Wait(Some(self.drowsy.nap)),
        }
    }

    /// Is the next due instant needed with the next look? Not while awake, when the next look is close anyway.
    pub(crate) fn wants_next_due(&self) -> bool {
        !self.listening || matches!(self.phase, Phase::LastLook { .. } | Phase::Roused)
    }

    /// LISTEN was acknowledged on a new session: nothing is armed.
    pub(crate) fn connected(&mut self, now: Instant) {
        self.listening = true;
        self.armed = false;
        self.phase = Phase::Looking { until: now };
    }

    /// The listening session is gone, and its locks with it.
    pub(crate) fn lost(&mut self, now: Instant) {
        if self.listening {
            self.lost_at = Some(now);
        }
        self.listening = false;
        self.armed = false;
        self.phase = Phase::Looking { until: now };
    }

    /// `ASLEEP` is held, or was refused within the lock time-out.
    pub(crate) fn armed(&mut self, held: bool, now: Instant) {
        self.armed = held;
        self.roused = None;
        self.bustle_since = None;
        self.drowsy = Drowsy::begin(now);
        self.phase = if held {
            Phase::Testing
        } else {
            Phase::Lingering {
                until: now + QUIET,
                pace: BEREFT_PACE,
            }
        };
    }

    /// Is `ASLEEP` held?
    pub(crate) fn is_armed(&self) -> bool {
        self.armed
    }

    /// `ASLEEP` is given up.
    pub(crate) fn disarmed(&mut self) {
        self.armed = false;
    }

    /// `IN_FLIGHT` was free, or not.
    pub(crate) fn tested(&mut self, clean: bool, now: Instant) {
        self.phase = match self.phase {
            Phase::Sounding => self.after_sounding(clean, now),
            _ => Phase::LastLook { clean },
        };
    }

    /// A look could not be made. It proves nothing, so start again awake.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.phase = Phase::Looking { until: now };
    }

    /// A look came back.
    pub(crate) fn looked(&mut self, look: Look, now: Instant) {
        let roused = self.roused.take();
        self.phase = if !look.free {
            Phase::Saturated
        } else if !look.short {
            self.awake.crowded = true;
            Phase::Looking { until: now + LINGER }
        } else {
            match self.phase {
                Phase::LastLook { clean } => self.after_last_look(look, clean, roused, now),
                Phase::Roused => self.after_rouse(look, roused, now),
                Phase::Looking { until } => self.after_awake_look(look, until, now),
                other => other,
            }
        };
    }

    /// The wait is over: by a wake, by time, or by the safety scan.
    pub(crate) fn woken(&mut self, by_ring: bool, now: Instant) {
        self.phase = match self.phase {
            Phase::Lingering { until, .. } => Phase::Looking { until },
            Phase::Saturated => Phase::Looking { until: now + LINGER },
            Phase::Polling => Phase::Looking { until: now },
            Phase::Drowsy => {
                self.rouse(by_ring, now);
                Phase::Testing
            }
            Phase::Asleep => {
                self.rouse(by_ring, now);
                Phase::Roused
            }
            other => other,
        };
    }

    fn rouse(&mut self, by_ring: bool, now: Instant) {
        // Counted from the end of the look before, not from its beginning: where looks are slow, each wake under load would
        // seem to be a lone one, and every producer would ring.
        let lone = self.rested_at.is_none_or(|at| now - at > LINGER);
        self.roused = Some(Roused { by_ring, lone });
    }

    fn after_awake_look(&mut self, look: Look, until: Instant, now: Instant) -> Phase {
        let until = if look.found > 0 { until.max(now + LINGER) } else { until };
        self.awake.crowded |= look.found > 1;
        if look.found > 0 {
            self.bustle_since = None;
        }
        if !self.listening {
            Phase::Polling
        } else if look.found == 1 && self.trickles(now) {
            Phase::Arming
        } else if look.found > 0 {
            // Where one was, more may be by now; the pause is for looks that find nothing.
            Phase::Looking { until }
        } else if now < until {
            // The longer the linger, the slower its looks: a thousand of them in all at most.
            let lasts = self.empty_linger.max(self.bustle(now));
            Phase::Lingering {
                until,
                pace: (lasts / 100).clamp(PACE, 10 * PACE),
            }
        } else {
            Phase::Sounding
        }
    }

    /// Where producers commit one upon the other and the rows are not for us, or others are quicker, to arm would make all
    /// of them ring, and sleep would not come of it. So it lingers on, for ever longer. But not for more than a moment: it
    /// may as well be one transaction that takes long.
    fn after_sounding(&mut self, clean: bool, now: Instant) -> Phase {
        self.bustle_since.get_or_insert(now);
        let lasted = self.bustle(now);
        if clean || lasted > LONGEST_LINGER {
            return Phase::Arming;
        }
        Phase::Looking {
            until: now + lasted.max(LINGER),
        }
    }

    fn bustle(&self, now: Instant) -> Duration {
        self.bustle_since.map_or(Duration::ZERO, |since| now - since)
    }

    fn after_last_look(&mut self, look: Look, clean: bool, roused: Option<Roused>, now: Instant) -> Phase {
        if roused.is_some_and(|roused| roused.by_ring && !roused.lone) {
            if self.is_load(look, now) {
                return self.get_up(now);
            }
            if look.found == 0 && !self.is_accident(now) {
                return self.linger_longer(now);
            }
        }
        if clean && !look.locked {
            self.sleep(now)
        } else {
            self.doze(look.locked, now)
        }
    }

    fn after_rouse(&mut self, look: Look, roused: Option<Roused>, now: Instant) -> Phase {
        let roused = roused.unwrap_or(Roused {
            by_ring: false,
            lone: true,
        });
        if !roused.lone && self.is_load(look, now) {
            return self.get_up(now);
        }
        if roused.by_ring && look.found == 0 && !self.is_accident(now) {
            return self.linger_longer(now);
        }
        self.rest(look.locked, now)
    }

    /// Is it for us to look, rather than for producers to ring? Rows that come one at a time, each when the last one is
    /// done with, ring for nobody else to wait, and a ring is sooner than the next look at an interval would be.
    fn is_load(&self, look: Look, now: Instant) -> bool {
        look.found > 1 || (look.found == 1 && self.trickle_until.is_none_or(|until| now >= until))
    }

    fn get_up(&mut self, now: Instant) -> Phase {
        self.awake = Awake {
            since: now,
            crowded: false,
        };
        Phase::Looking { until: now + LINGER }
    }

    /// Has no look of a whole linger found more than one row, although nobody had to ring? Asked anew every so often: what
    /// rings one at a time may be many producers that wait for each other's bell, which only silence can tell.
    fn trickles(&mut self, now: Instant) -> bool {
        if now - self.awake.since < LINGER {
            return false;
        }
        let crowded = std::mem::replace(&mut self.awake.crowded, false);
        self.awake.since = now;
        self.trickle_until = (!crowded).then_some(now + TRICKLE);
        !crowded
    }

    /// A ring for a row that another reactor was quicker to take. One is an accident; one upon the other is load, and
    /// then it is for us to look, not for every producer to ring.
    fn is_accident(&mut self, now: Instant) -> bool {
        let quiet = self
            .last_empty
            .is_none_or(|before| now.saturating_duration_since(before) > QUIET);
        if quiet {
            self.empty_linger = LINGER;
            self.last_empty = Some(now);
        }
        quiet
    }

    fn linger_longer(&mut self, now: Instant) -> Phase {
        self.trickle_until = None;
        let until = now + self.empty_linger;
        self.empty_linger = (self.empty_linger * 2).min(LONGEST_LINGER);
        self.last_empty = Some(until);
        Phase::Looking { until }
    }

    /// Asleep, unless a due row is locked.
    fn rest(&mut self, locked: bool, now: Instant) -> Phase {
        if locked { self.doze(true, now) } else { self.sleep(now) }
    }

    fn sleep(&mut self, now: Instant) -> Phase {
        self.drowsy = Drowsy::begin(now);
        self.rested_at = Some(now);
        Phase::Asleep
    }

    /// Armed, but asleep would be too soon: a producer has not finished, or a due row is locked.
    fn doze(&mut self, locked: bool, now: Instant) -> Phase {
        let drowsy_for = now - self.drowsy.since;
        let longest = if locked {
            LONGEST_LATE_NAP
        } else if drowsy_for > LATE {
            (drowsy_for / 100).clamp(LONGEST_NAP, LONGEST_LATE_NAP)
        } else {
            LONGEST_NAP
        };
        self.drowsy.nap = (self.drowsy.nap * 2).clamp(FIRST_NAP, longest);
        self.rested_at = Some(now);
        Phase::Drowsy
    }

    fn bereft(&self, now: Instant) -> bool {
        self.lost_at.is_some_and(|at| now - at < BEREFT)
    }
}
