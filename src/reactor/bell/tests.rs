//! When it stays armed, and when it gives up sleeping: what costs producers rings, but never a row.

use super::evidence::{LONGEST_LINGER, QUIET, TRICKLE};
use super::*;

const NOTHING: Look = Look {
    free: true,
    short: true,
    found: 0,
    locked: false,
};
const FOUND: Look = Look { found: 1, ..NOTHING };

/// Armed and asleep, as after a quiet start.
fn asleep(now: Instant) -> Posture {
    let mut posture = Posture::new(now);
    posture.connected(now);
    posture.looked(NOTHING, now);
    posture.armed(true, now);
    posture.tested(true, now);
    posture.looked(NOTHING, now);
    assert_eq!(posture.step(now), Step::Wait(None));
    posture
}

/// A ring, and what the look after it found, `later` after the ring.
fn ring(posture: &mut Posture, now: &mut Instant, look: Look, later: Duration) {
    posture.woken(true, *now);
    assert_eq!(posture.step(*now), Step::Look);
    *now += later;
    posture.looked(look, *now);
}

#[test]
fn a_lone_alert_leaves_it_asleep_and_armed() {
    let mut now = Instant::now();
    let mut posture = asleep(now);
    for _ in 0..3 {
        now += Duration::from_millis(100);
        ring(&mut posture, &mut now, FOUND, PACE);
        assert_eq!(posture.step(now), Step::Wait(None));
    }
}

#[test]
fn alerts_one_upon_the_other_wake_it_up_however_slow_its_looks_are() {
    for look in [PACE, 5 * LINGER] {
        let mut now = Instant::now();
        let mut posture = asleep(now);
        now += QUIET;
        ring(&mut posture, &mut now, FOUND, look);
        now += PACE;
        ring(&mut posture, &mut now, FOUND, look);
        assert_eq!(posture.step(now), Step::Disarm, "looks take {look:?}");
    }
}

/// Awake for a linger, in which each look finds one row.
fn linger(posture: &mut Posture, now: &mut Instant) {
    assert_eq!(posture.step(*now), Step::Disarm);
    posture.disarmed();
    for _ in 0..100 {
        match posture.step(*now) {
            Step::Look => {
                *now += PACE;
                posture.looked(FOUND, *now);
            }
            Step::Wait(Some(pace)) => {
                *now += pace;
                posture.woken(false, *now);
            }
            _ => return,
        }
    }
}

#[test]
fn rows_that_come_one_at_a_time_are_rung_for() {
    let mut now = Instant::now();
    let mut posture = asleep(now);
    now += PACE;
    ring(&mut posture, &mut now, FOUND, PACE);
    linger(&mut posture, &mut now);
    assert_eq!(posture.step(now), Step::Arm);
    posture.armed(true, now);
    posture.tested(true, now);
    posture.looked(NOTHING, now);
    let until = now + TRICKLE;
    while now + 2 * PACE < until {
        now += PACE;
        ring(&mut posture, &mut now, FOUND, PACE);
        assert_eq!(posture.step(now), Step::Wait(None));
    }
    // And then it is asked anew, in silence.
    now = until;
    ring(&mut posture, &mut now, FOUND, PACE);
    assert_eq!(posture.step(now), Step::Disarm);
}

#[test]
fn rows_that_come_together_are_looked_for_even_if_one_at_a_time_came_before() {
    let mut now = Instant::now();
    let mut posture = asleep(now);
    posture.evidence.trickle_until = Some(now + TRICKLE);
    let two = Look { found: 2, ..NOTHING };
    let (mut one_at_a_time, mut together) = (posture.clone(), posture);
    now += PACE;
    ring(&mut one_at_a_time, &mut now, FOUND, PACE);
    assert_eq!(one_at_a_time.step(now), Step::Wait(None));
    ring(&mut together, &mut now, two, PACE);
    assert_eq!(together.step(now), Step::Disarm);
}

#[test]
fn rings_for_what_others_took_wake_it_up_for_ever_longer() {
    let locked = Look {
        locked: true,
        ..NOTHING
    };
    for look in [NOTHING, locked] {
        let mut now = Instant::now();
        let mut posture = asleep(now);
        ring(&mut posture, &mut now, look, PACE);
        assert!(posture.is_armed(), "the first may be an accident");
        posture = Posture {
            phase: Phase::Asleep,
            ..posture
        };
        let mut last = Duration::ZERO;
        for _ in 0..5 {
            now += 2 * LINGER;
            ring(&mut posture, &mut now, look, PACE);
            assert_eq!(posture.step(now), Step::Disarm, "{look:?}");
            let Phase::Looking { until } = posture.phase else {
                unreachable!()
            };
            assert!(until - now > last);
            (last, now) = (until - now, until);
            posture = Posture {
                phase: Phase::Asleep,
                ..posture
            };
        }
    }
}

#[test]
fn a_ring_that_ends_a_nap_and_finds_nothing_is_load_too() {
    let mut now = Instant::now();
    let mut posture = Posture {
        phase: Phase::Drowsy,
        ..asleep(now)
    };
    posture.evidence.last_empty = Some(now);
    now += PACE;
    posture.woken(true, now);
    assert_eq!(posture.step(now), Step::Test);
    posture.tested(false, now);
    posture.looked(NOTHING, now);
    assert_eq!(posture.step(now), Step::Disarm);
}

/// Awake, until it would arm or has looked for this long; every test finds producers at work.
fn lingers(posture: &mut Posture, now: &mut Instant, at_most: Duration) -> usize {
    let (begun, mut looks) = (*now, 0);
    while *now - begun < at_most {
        match posture.step(*now) {
            Step::Look => {
                looks += 1;
                posture.looked(NOTHING, *now);
            }
            Step::Wait(Some(pace)) => {
                *now += pace;
                posture.woken(false, *now);
            }
            Step::Test => posture.tested(false, *now),
            _ => break,
        }
    }
    looks
}

#[test]
fn while_silent_producers_are_at_work_it_does_not_arm_for_a_while() {
    let mut now = Instant::now();
    let mut posture = Posture::new(now);
    posture.connected(now);
    let (begun, most) = (now, 10 * LONGEST_LINGER);
    let looks = lingers(&mut posture, &mut now, most);
    assert_eq!(
        posture.step(now),
        Step::Arm,
        "one long transaction does not keep it awake"
    );
    assert!(now - begun > LONGEST_LINGER && now - begun < 3 * LONGEST_LINGER);
    assert!(looks < 1000, "{looks} looks");
}

#[test]
fn where_no_producer_is_at_work_it_arms_at_once() {
    let now = Instant::now();
    let mut posture = Posture::new(now);
    posture.connected(now);
    posture.looked(NOTHING, now);
    assert_eq!(posture.step(now), Step::Test);
    posture.tested(true, now);
    assert_eq!(posture.step(now), Step::Arm);
}

#[test]
fn a_single_row_right_after_it_got_up_is_no_trickle() {
    let mut now = Instant::now();
    let mut posture = asleep(now);
    now += QUIET;
    ring(&mut posture, &mut now, NOTHING, PACE);
    now += LINGER;
    ring(&mut posture, &mut now, NOTHING, PACE);
    assert_eq!(posture.step(now), Step::Disarm, "a second ring for what others took");
    posture.disarmed();
    now += PACE;
    posture.looked(FOUND, now);
    assert_eq!(posture.step(now), Step::Look);
}

#[test]
fn one_that_is_kept_from_arming_looks_at_an_interval_and_tries_again() {
    let mut now = Instant::now();
    let mut posture = Posture::new(now);
    posture.connected(now);
    posture.looked(NOTHING, now);
    posture.tested(true, now);
    posture.armed(false, now);
    assert!(posture.is_jammed());
    let begun = now;
    let looks = lingers(&mut posture, &mut now, 2 * JAMMED);
    assert_eq!(posture.step(now), Step::Arm);
    assert!(now - begun >= JAMMED && now - begun <= JAMMED + JAMMED_PACE);
    assert!((15..=20).contains(&looks), "{looks} looks");
}
