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
//! Before it arms it sounds, unless rows come one at a time: it tests `IN_FLIGHT` once. Taken, that shows producers at
//! work, who would all have to ring, and it lingers on for a while. This proves nothing; the test after arming is still
//! owed.
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

use evidence::Evidence;

mod evidence;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

/// How long a reactor keeps looking after it found something, before it arms.
const LINGER: Duration = Duration::from_millis(10);
/// How often a lingering reactor looks.
const PACE: Duration = Duration::from_millis(1);
/// How often a reactor looks that somebody keeps from arming, and how long after it tries again.
const JAMMED_PACE: Duration = Duration::from_millis(50);
const JAMMED: Duration = Duration::from_secs(1);
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
    /// Every channel that had a free slot gave fewer rows than it was asked for.
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
    evidence: Evidence,
    /// Somebody kept it from arming at the last try.
    jammed: bool,
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
            evidence: Evidence::new(now),
            jammed: false,
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

    /// Is the next due instant needed with the next look? Always where nobody listens; otherwise not while awake, when the
    /// next look is close anyway.
    pub(crate) fn wants_next_due(&self) -> bool {
        !self.listening || matches!(self.phase, Phase::LastLook { .. } | Phase::Roused)
    }

    /// LISTEN was acknowledged on a new session: nothing is armed.
    pub(crate) fn connected(&mut self, now: Instant) {
        self.listening = true;
        self.armed = false;
        self.jammed = false;
        self.phase = self.get_up(now, now);
    }

    /// The listening session is gone, and its locks with it.
    pub(crate) fn lost(&mut self, now: Instant) {
        if self.listening {
            self.lost_at = Some(now);
        }
        self.listening = false;
        self.armed = false;
        self.jammed = false;
        self.phase = self.get_up(now, now);
    }

    /// `ASLEEP` is held, or was refused within the lock time-out: then look at an interval, and try again.
    pub(crate) fn armed(&mut self, held: bool, now: Instant) {
        self.armed = held;
        self.jammed = !held;
        self.roused = None;
        self.evidence.armed();
        self.drowsy = Drowsy::begin(now);
        self.phase = if held {
            Phase::Testing
        } else {
            Phase::Lingering {
                until: now + JAMMED,
                pace: JAMMED_PACE,
            }
        };
    }

    /// Was the last try to arm refused?
    pub(crate) fn is_jammed(&self) -> bool {
        self.jammed
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
        self.phase = self.get_up(now, now);
    }

    /// A look came back.
    pub(crate) fn looked(&mut self, look: Look, now: Instant) {
        let roused = self.roused.take();
        self.phase = if !look.free {
            Phase::Saturated
        } else if !look.short {
            self.evidence.note_backlog();
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
            Phase::Saturated => self.get_up(now + LINGER, now),
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
        self.evidence.note_found(look.found);
        if !self.listening {
            Phase::Polling
        } else if look.found == 1 && self.evidence.conclude_trickle(now) {
            Phase::Arming
        } else if look.found > 0 {
            // Where one was, more may be by now; the pause is for looks that find nothing.
            Phase::Looking { until }
        } else if now < until {
            let pace = if self.jammed {
                JAMMED_PACE
            } else {
                self.evidence.pace(now)
            };
            Phase::Lingering { until, pace }
        } else if self.jammed {
            Phase::Arming
        } else {
            Phase::Sounding
        }
    }

    /// Where producers commit one upon the other and the rows are not for us, or others are quicker, to arm would make all
    /// of them ring, and sleep would not come of it. So it lingers on, for a moment.
    fn after_sounding(&mut self, clean: bool, now: Instant) -> Phase {
        let put_off = if clean { None } else { self.evidence.note_bustle(now) };
        put_off.map_or(Phase::Arming, |until| Phase::Looking { until })
    }

    fn after_last_look(&mut self, look: Look, clean: bool, roused: Option<Roused>, now: Instant) -> Phase {
        if let Some(roused) = roused.filter(|roused| roused.by_ring)
            && let Some(up) = self.after_ring(look, roused, now)
        {
            return up;
        }
        if clean && !look.locked {
            self.sleep(now)
        } else {
            self.doze(look.locked, now)
        }
    }

    fn after_rouse(&mut self, look: Look, roused: Option<Roused>, now: Instant) -> Phase {
        let up = match roused {
            Some(roused) if roused.by_ring => self.after_ring(look, roused, now),
            Some(roused) if !roused.lone && self.evidence.is_load(look.found, now) => {
                Some(self.get_up(now + LINGER, now))
            }
            _ => None,
        };
        up.unwrap_or_else(|| self.rest(look.locked, now))
    }

    /// Whether a ring, and what the look after it found, are load; then it gets up.
    fn after_ring(&mut self, look: Look, roused: Roused, now: Instant) -> Option<Phase> {
        if !roused.lone && self.evidence.is_load(look.found, now) {
            return Some(self.get_up(now + LINGER, now));
        }
        if look.found == 0 && !self.evidence.note_empty_ring(now) {
            let until = self.evidence.linger_longer(now);
            return Some(self.get_up(until, now));
        }
        None
    }

    fn get_up(&mut self, until: Instant, now: Instant) -> Phase {
        self.evidence.got_up(now);
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
