//! Every interleaving of the bell: the [`Posture`] as it is, producers as the triggers make them, and a small server
//! between the two, explored to the end.
//!
//! A world in which nothing can move any more, no timer but the short naps included, must hold no row that waits. Each
//! rule of the protocol is also broken on purpose, and then such a world must be found.
//!
//! In it: transactions that commit, roll back, ring or stay silent; sessions that die at any moment, before or after the
//! dispatcher notices; a reactor that dies for good; rows whose lock somebody else holds for a while; slots that are all
//! taken, and sends that end. Each statement is one step, and time either stands still or leaps past every limit.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::{Duration, Instant};

use super::{Look, Phase, Posture, Step};

const SLOTS: u8 = 2;

/// One rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Broken {
    Nothing,
    ProducerLooksOnlyOnce,
    SleepsWithoutArming,
    LooksBeforeTheTest,
    ClearsTheRingAfterTheLook,
    TakesARingForATest,
    SleepsOnAfterAReconnect,
    SleepsOverALockedRow,
    ForgetsAFreedSlot,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Transaction {
    Idle,
    SawNobody,
    /// Holds `IN_FLIGHT`, has not looked again.
    Holding,
    Ready {
        holds: bool,
        rings: bool,
    },
    /// The row is visible, the lock not yet released.
    Visible {
        holds: bool,
        rings: bool,
    },
    /// The lock is released, the notification not yet delivered.
    Unlocked {
        rings: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Producer {
    left: u8,
    now: Transaction,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Session {
    Up,
    /// Died on the server; the dispatcher does not know.
    Dead,
    /// The dispatcher knows.
    Gone,
    /// LISTEN was acknowledged on a new one; the dispatcher does not know.
    New,
}

/// Where a look is between its statements.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    Between,
    Cleared,
    Claimed {
        found: u8,
        short: bool,
    },
    /// For a broken order: all is looked at, and only now is the ring forgotten.
    ToClear,
}

#[derive(Clone)]
struct Reactor {
    posture: Posture,
    alive: bool,
    session: Session,
    holds_asleep: bool,
    rung: bool,
    slot_freed: bool,
    busy: u8,
    deaths_left: u8,
    stage: Stage,
    /// For a broken order: what a look before the test had found, short, and whether more was due.
    early: Option<(u8, bool, bool)>,
}

#[derive(Clone)]
struct World {
    broken: Broken,
    now: Instant,
    reactors: Vec<Reactor>,
    producers: Vec<Producer>,
    rows: u8,
    locked: u8,
    locks_left: u8,
}

/// What tells two worlds apart; instants only as far as they steer the posture.
type Key = (Vec<ReactorKey>, Vec<Producer>, u8, u8, u8);
type ReactorKey = (
    PostureKey,
    bool,
    Session,
    bool,
    bool,
    bool,
    u8,
    u8,
    Stage,
    Option<(u8, bool, bool)>,
);
type PostureKey = (bool, bool, u8, bool, bool, bool, Option<(bool, bool)>, [bool; 4]);

impl World {
    fn new(broken: Broken, reactors: usize, producers: usize, transactions: u8, deaths: u8) -> Self {
        let now = Instant::now();
        let reactor = Reactor {
            posture: Posture::new(now),
            alive: true,
            session: Session::New,
            holds_asleep: false,
            rung: false,
            slot_freed: false,
            busy: 0,
            deaths_left: deaths,
            stage: Stage::Between,
            early: None,
        };
        World {
            broken,
            now,
            reactors: vec![reactor; reactors],
            producers: vec![
                Producer {
                    left: transactions,
                    now: Transaction::Idle
                };
                producers
            ],
            rows: 0,
            locked: 0,
            locks_left: 1,
        }
    }

    fn key(&self) -> Key {
        let reactors = self.reactors.iter().map(|r| {
            let posture = posture_key(&r.posture, self.now);
            let (alive, session, holds) = (r.alive, r.session, r.holds_asleep);
            (
                posture,
                alive,
                session,
                holds,
                r.rung,
                r.slot_freed,
                r.busy,
                r.deaths_left,
                r.stage,
                r.early,
            )
        });
        (
            reactors.collect(),
            self.producers.clone(),
            self.rows,
            self.locked,
            self.locks_left,
        )
    }

    /// Every world that can come next.
    fn successors(&self) -> Vec<World> {
        let mut next = Vec::new();
        for index in 0..self.producers.len() {
            self.producer_moves(index, &mut next);
        }
        for index in (0..self.reactors.len()).filter(|&index| self.reactors[index].alive) {
            self.session_moves(index, &mut next);
            self.dispatcher_moves(index, &mut next);
        }
        if self.rows > 0 && self.locks_left > 0 {
            next.push(self.but(|w| (w.rows, w.locked, w.locks_left) = (w.rows - 1, w.locked + 1, w.locks_left - 1)));
        }
        if self.locked > 0 {
            next.push(self.but(|w| (w.rows, w.locked) = (w.rows + 1, w.locked - 1)));
        }
        next
    }

    fn but(&self, change: impl FnOnce(&mut World)) -> World {
        let mut world = self.clone();
        change(&mut world);
        world
    }

    fn somebody_asleep(&self) -> bool {
        self.reactors.iter().any(|reactor| reactor.holds_asleep)
    }

    fn in_flight(&self) -> bool {
        self.producers.iter().any(|producer| match producer.now {
            Transaction::Holding => true,
            Transaction::Ready { holds, .. } | Transaction::Visible { holds, .. } => holds,
            _ => false,
        })
    }

    fn producer_moves(&self, index: usize, next: &mut Vec<World>) {
        use Transaction::{Holding, Idle, Ready, SawNobody, Unlocked, Visible};
        let mut to = |now: Transaction| next.push(self.but(|w| w.producers[index].now = now));
        match self.producers[index].now {
            Idle if self.producers[index].left == 0 => {}
            Idle => to(if self.somebody_asleep() {
                Ready {
                    holds: false,
                    rings: true,
                }
            } else {
                SawNobody
            }),
            SawNobody => {
                to(Holding);
                // A reactor was testing it at that instant.
                to(Ready {
                    holds: false,
                    rings: true,
                });
            }
            Holding => {
                let rings = self.somebody_asleep() && self.broken != Broken::ProducerLooksOnlyOnce;
                to(Ready { holds: true, rings });
            }
            Ready { holds, rings } => {
                next.push(self.but(|w| {
                    w.rows += 1;
                    w.producers[index].now = Visible { holds, rings };
                }));
                next.push(self.but(|w| w.ends(index)));
            }
            Visible { rings, .. } => to(Unlocked { rings }),
            Unlocked { rings } => next.push(self.but(|w| {
                for reactor in w.reactors.iter_mut().filter(|_| rings) {
                    reactor.rung |= reactor.alive && matches!(reactor.session, Session::Up | Session::New);
                }
                w.ends(index);
            })),
        }
    }

    fn ends(&mut self, producer: usize) {
        let producer = &mut self.producers[producer];
        (producer.left, producer.now) = (producer.left - 1, Transaction::Idle);
    }

    /// Sessions that die and come back, reactors that die, sends that end.
    fn session_moves(&self, index: usize, next: &mut Vec<World>) {
        let reactor = &self.reactors[index];
        if reactor.busy > 0 {
            next.push(self.but(|w| {
                let broken = w.broken;
                let reactor = &mut w.reactors[index];
                reactor.slot_freed |= reactor.busy == SLOTS && broken != Broken::ForgetsAFreedSlot;
                reactor.busy -= 1;
            }));
        }
        if reactor.deaths_left > 0 && reactor.session == Session::Up {
            next.push(self.but(|w| {
                let reactor = &mut w.reactors[index];
                (reactor.session, reactor.holds_asleep) = (Session::Dead, false);
                reactor.deaths_left -= 1;
            }));
            if self.reactors.iter().filter(|other| other.alive).count() > 1 {
                next.push(self.but(|w| {
                    let reactor = &mut w.reactors[index];
                    (reactor.alive, reactor.holds_asleep) = (false, false);
                }));
            }
        }
        if matches!(reactor.session, Session::Dead | Session::Gone) {
            next.push(self.but(|w| w.reactors[index].session = Session::New));
        }
        if reactor.stage == Stage::Between {
            match reactor.session {
                Session::Dead => next.push(self.but(|w| w.loses_session(index))),
                Session::New => next.push(self.but(|w| {
                    let sleeps_on = w.broken == Broken::SleepsOnAfterAReconnect && w.reactors[index].posture.is_armed();
                    let now = w.now;
                    let reactor = &mut w.reactors[index];
                    reactor.session = Session::Up;
                    if !sleeps_on {
                        reactor.posture.connected(now);
                    }
                })),
                Session::Up | Session::Gone => {}
            }
        }
    }

    fn loses_session(&mut self, index: usize) {
        let sleeps_on = self.broken == Broken::SleepsOnAfterAReconnect && self.reactors[index].posture.is_armed();
        let now = self.now;
        let reactor = &mut self.reactors[index];
        reactor.session = Session::Gone;
        if !sleeps_on {
            reactor.posture.lost(now);
        }
    }

    /// What the dispatcher's loop does next, now or after a long time.
    fn dispatcher_moves(&self, index: usize, next: &mut Vec<World>) {
        for leap in [Duration::ZERO, Duration::from_secs(2)] {
            let mut world = self.clone();
            world.now += leap;
            match world.reactors[index].stage {
                Stage::Between => world.dispatcher_steps(index, next),
                Stage::Cleared => {
                    let (found, short) = world.claims(index);
                    world.reactors[index].stage = Stage::Claimed { found, short };
                    next.push(world);
                }
                Stage::Claimed { found, short } => {
                    // Asked after the claim, in a statement of its own.
                    let due_already = world.rows + world.locked > 0;
                    world.looked(index, found, short, due_already);
                    next.push(world);
                }
                Stage::ToClear => {
                    let reactor = &mut world.reactors[index];
                    (reactor.rung, reactor.slot_freed, reactor.stage) = (false, false, Stage::Between);
                    next.push(world);
                }
            }
        }
    }

    fn dispatcher_steps(mut self, index: usize, next: &mut Vec<World>) {
        let (now, broken) = (self.now, self.broken);
        let in_flight = self.in_flight();
        let usable = self.reactors[index].session == Session::Up;
        let reactor = &mut self.reactors[index];
        match reactor.posture.step(now) {
            Step::Arm | Step::Disarm | Step::Test if !usable => return self.without_session(index, next),
            Step::Arm => {
                reactor.holds_asleep = broken != Broken::SleepsWithoutArming;
                reactor.posture.armed(true, now);
            }
            Step::Disarm => {
                reactor.holds_asleep = false;
                reactor.posture.disarmed();
            }
            Step::Test => {
                if broken == Broken::LooksBeforeTheTest && reactor.posture.phase == Phase::Testing {
                    (reactor.rung, reactor.slot_freed) = (false, false);
                    let (found, short) = self.claims(index);
                    // The test comes as a statement of its own: let others move before it.
                    self.reactors[index].early = Some((found, short, self.rows + self.locked > 0));
                    self.reactors[index].posture.tested(true, now);
                    next.push(self);
                    return;
                }
                reactor.posture.tested(!in_flight, now);
            }
            Step::Look if reactor.early.is_some() => {
                let (found, short, due_already) = reactor.early.take().unwrap();
                reactor.posture.tested(!in_flight, now);
                self.looked(index, found, short, due_already);
            }
            Step::Look => {
                if broken != Broken::ClearsTheRingAfterTheLook {
                    (reactor.rung, reactor.slot_freed) = (false, false);
                }
                reactor.stage = Stage::Cleared;
            }
            Step::Wait(limit) if reactor.rung || reactor.slot_freed || limit.is_some() => {
                let by_ring = reactor.rung;
                (reactor.rung, reactor.slot_freed) = (false, false);
                reactor.posture.woken(by_ring, now);
                if by_ring && broken == Broken::TakesARingForATest && reactor.posture.phase == Phase::Testing {
                    reactor.posture.tested(true, now);
                }
            }
            Step::Wait(_) => return,
        }
        next.push(self);
    }

    /// A statement for a session that is not there: it fails, if the dispatcher thought it was.
    fn without_session(mut self, index: usize, next: &mut Vec<World>) {
        if self.reactors[index].session == Session::Dead {
            self.loses_session(index);
            next.push(self);
        }
    }

    /// Takes what is visible and not locked, as far as there are slots.
    fn claims(&mut self, index: usize) -> (u8, bool) {
        let free = SLOTS - self.reactors[index].busy;
        let taken = free.min(self.rows);
        self.rows -= taken;
        self.reactors[index].busy += taken;
        (taken, taken < free)
    }

    fn looked(&mut self, index: usize, found: u8, short: bool, due_already: bool) {
        let (now, broken) = (self.now, self.broken);
        let reactor = &mut self.reactors[index];
        // No slot free before the claim: it was not made.
        let free = found > 0 || short;
        let wanted = reactor.posture.wants_next_due();
        let locked = free && short && wanted && due_already && broken != Broken::SleepsOverALockedRow;
        reactor.posture.looked(
            Look {
                free,
                short: short || !free,
                found: found.into(),
                locked,
            },
            now,
        );
        let late = broken == Broken::ClearsTheRingAfterTheLook;
        reactor.stage = if late { Stage::ToClear } else { Stage::Between };
    }
}

fn posture_key(posture: &Posture, now: Instant) -> PostureKey {
    let (phase, more) = match posture.phase {
        Phase::Looking { until } => (0, now < until),
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
    let lone = posture.rested_at.is_none_or(|at| now - at > super::LINGER);
    let quiet = posture
        .last_empty
        .is_none_or(|before| now.saturating_duration_since(before) > super::QUIET);
    let roused = posture.roused.map(|roused| (roused.by_ring, roused.lone));
    let awake = [
        now - posture.awake.since < super::LINGER,
        posture.awake.crowded,
        posture.trickle_until.is_some_and(|until| now < until),
        posture
            .bustle_since
            .is_some_and(|since| now - since > super::LONGEST_LINGER),
    ];
    (
        posture.listening,
        posture.armed,
        phase,
        more,
        lone,
        quiet,
        roused,
        awake,
    )
}

/// Explores every world; answers with how many there are, or the first that is stuck with a row.
fn explore(start: World) -> Result<usize, String> {
    // Keys by their hash: of ten million worlds, one in a few million runs would take two for the same.
    let hash = |world: &World| BuildHasherDefault::<DefaultHasher>::default().hash_one(world.key());
    let mut seen = HashSet::from([hash(&start)]);
    let mut todo = vec![start];
    while let Some(world) = todo.pop() {
        let successors = world.successors();
        if successors.is_empty() && world.rows > 0 {
            let phases: Vec<_> = world
                .reactors
                .iter()
                .map(|reactor| (reactor.alive, reactor.posture.phase))
                .collect();
            return Err(format!("{} row(s) wait and nothing moves: {phases:?}", world.rows));
        }
        for next in successors {
            if seen.insert(hash(&next)) {
                todo.push(next);
            }
        }
    }
    Ok(seen.len())
}

#[test]
fn no_interleaving_leaves_a_row_waiting() {
    // One reactor and its death, two producers at once, two reactors, slots that run out.
    for (reactors, producers, transactions, deaths) in [(1, 1, 2, 1), (1, 2, 1, 0), (2, 1, 1, 0), (1, 1, 3, 0)] {
        let worlds = explore(World::new(Broken::Nothing, reactors, producers, transactions, deaths)).unwrap();
        println!("{reactors} reactor(s), {producers} producer(s) of {transactions}: {worlds} worlds");
        assert!(worlds > 1_000, "only {worlds}: the model no longer moves");
    }
}

#[test]
fn each_broken_rule_leaves_a_row_waiting_somewhere() {
    // Broken in the smallest world that shows it: producers, transactions of each, deaths.
    for (broken, producers, transactions, deaths) in [
        (Broken::ProducerLooksOnlyOnce, 1, 1, 0),
        (Broken::SleepsWithoutArming, 1, 1, 0),
        (Broken::LooksBeforeTheTest, 1, 1, 0),
        (Broken::ClearsTheRingAfterTheLook, 2, 1, 0),
        (Broken::TakesARingForATest, 2, 1, 0),
        (Broken::SleepsOnAfterAReconnect, 1, 1, 1),
        (Broken::SleepsOverALockedRow, 1, 1, 0),
        (Broken::ForgetsAFreedSlot, 1, 3, 0),
    ] {
        let explored = explore(World::new(broken, 1, producers, transactions, deaths));
        assert!(
            explored.is_err(),
            "{broken:?} does no harm in {} worlds",
            explored.unwrap()
        );
    }
}
