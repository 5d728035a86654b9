//! What tells two worlds apart; instants only as far as they steer the posture.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

use super::reactor::Reactor;
use super::world::World;
use crate::reactor::bell::evidence::{LONGEST_LINGER, QUIET};
use crate::reactor::bell::{LINGER, Phase, Posture};

impl World {
    /// A hash: of ten million worlds, one in a few million runs would take two for the same.
    pub(super) fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for reactor in &self.reactors {
            hash_reactor(reactor, self, &mut hasher);
        }
        self.producers.hash(&mut hasher);
        (self.waiting, self.locked, self.locks_left, self.slips_left).hash(&mut hasher);
        hasher.finish()
    }
}

fn hash_reactor(reactor: &Reactor, world: &World, hasher: &mut DefaultHasher) {
    let r = reactor;
    hash_posture(&r.posture, world.now, hasher);
    (r.alive, r.session, r.holds_asleep, r.deaths_left).hash(hasher);
    (r.rung, r.slot_freed, r.news, r.busy).hash(hasher);
    (r.stage, r.early).hash(hasher);
    // Where no row can be late it makes no difference how far looks reach.
    if world.may_be_late() {
        let mut inquiry = r.inquiry;
        let (found, asked) = (inquiry.take_found(), inquiry.take_question().is_some());
        (r.reach.duration(world.now).is_some(), found, asked, r.rearguard).hash(hasher);
    }
}

fn hash_posture(posture: &Posture, now: Instant, hasher: &mut DefaultHasher) {
    let (phase, more) = match posture.phase {
        Phase::Looking { until } => (0_u8, now < until),
        Phase::Lingering { until, .. } => (1, now < until),
        Phase::Saturated => (2, false),
        Phase::Polling => (3, false),
        Phase::Arming => (4, false),
        Phase::Testing => (5, false),
        Phase::LastLook { clean } => (6, clean),
        Phase::Drowsy => (7, false),
        Phase::Asleep => (8, false),
        Phase::Roused => (9, false),
        Phase::Sounding => (10, false),
    };
    let past = |since: Option<Instant>, limit| since.is_none_or(|since| now.saturating_duration_since(since) > limit);
    let roused = posture.roused.map(|roused| (roused.by_ring, roused.lone));
    let until = |instant: Option<Instant>| instant.is_some_and(|until| now < until);
    (posture.listening, posture.armed, posture.jammed, phase, more, roused).hash(hasher);
    (
        past(posture.rested_at, LINGER),
        past(posture.evidence.last_empty, QUIET),
    )
        .hash(hasher);
    let young = now - posture.evidence.awake_since < LINGER;
    (young, posture.evidence.crowded, until(posture.evidence.trickle_until)).hash(hasher);
    let bustles = posture.evidence.bustle_since.is_some() && past(posture.evidence.bustle_since, LONGEST_LINGER);
    bustles.hash(hasher);
}
