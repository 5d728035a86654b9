//! A reactor: its session, and the loop of its dispatcher, which follows the real [`Posture`].

use std::time::{Duration, Instant};

use super::Broken;
use super::look::{Findings, Rearguard, Stage};
use super::world::World;
use crate::reactor::bell::{Phase, Posture, Step};
use crate::reactor::reach::{Inquiry, Reach};

pub(super) const SLOTS: u8 = 2;
/// Past every limit of the posture but the naps.
const LEAP: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Session {
    Up,
    /// Died on the server; the dispatcher does not know.
    Dead,
    /// The dispatcher knows.
    Gone,
    /// LISTEN was acknowledged on a new one; the dispatcher does not know.
    New,
}

#[derive(Clone)]
pub(super) struct Reactor {
    pub(super) posture: Posture,
    pub(super) reach: Reach,
    pub(super) inquiry: Inquiry,
    pub(super) rearguard: Rearguard,
    pub(super) alive: bool,
    pub(super) session: Session,
    pub(super) holds_asleep: bool,
    pub(super) rung: bool,
    pub(super) slot_freed: bool,
    /// The rearguard has found something.
    pub(super) news: bool,
    pub(super) busy: u8,
    pub(super) deaths_left: u8,
    pub(super) stage: Stage,
    /// For a broken order: what a look before the test had found.
    pub(super) early: Option<Findings>,
}

impl Reactor {
    pub(super) fn new(deaths: u8, now: Instant) -> Self {
        Reactor {
            posture: Posture::new(now),
            reach: Reach::default(),
            inquiry: Inquiry::default(),
            rearguard: Rearguard::Resting,
            alive: true,
            session: Session::New,
            holds_asleep: false,
            rung: false,
            slot_freed: false,
            news: false,
            busy: 0,
            deaths_left: deaths,
            stage: Stage::Between,
            early: None,
        }
    }

    /// Forgets why it is awake; answers whether it was by a ring.
    pub(super) fn clear_flags(&mut self) -> bool {
        self.slot_freed = false;
        self.news = false;
        std::mem::take(&mut self.rung)
    }

    /// False if nothing ends the wait.
    fn wait(&mut self, limit: Option<Duration>, broken: Broken, now: Instant) -> bool {
        if limit.is_none() && !(self.rung || self.slot_freed || self.news) {
            return false;
        }
        let by_ring = self.clear_flags();
        self.posture.woken(by_ring, now);
        if by_ring && broken == Broken::TakesARingForATest && self.posture.phase == Phase::Testing {
            self.posture.tested(true, now);
        }
        true
    }

    fn lose_session(&mut self, broken: Broken, now: Instant) {
        self.session = Session::Gone;
        if !(broken == Broken::SleepsOnAfterAReconnect && self.posture.is_armed()) {
            self.posture.lost(now);
        }
    }

    fn take_session(&mut self, broken: Broken, now: Instant) {
        self.session = Session::Up;
        if !(broken == Broken::SleepsOnAfterAReconnect && self.posture.is_armed()) {
            self.posture.connected(now);
        }
    }

    fn end_a_send(&mut self, broken: Broken) {
        self.slot_freed |= self.busy == SLOTS && broken != Broken::ForgetsAFreedSlot;
        self.busy -= 1;
    }
}

impl World {
    /// Sessions that die and come back, reactors that die, sends that end.
    pub(super) fn session_moves(&self, index: usize, next: &mut Vec<World>) {
        let reactor = &self.reactors[index];
        let (broken, now) = (self.broken, self.now);
        let mut with = |change: &dyn Fn(&mut Reactor)| next.push(self.but(|w| change(&mut w.reactors[index])));
        if reactor.busy > 0 {
            with(&|reactor| reactor.end_a_send(broken));
        }
        if reactor.deaths_left > 0 && reactor.session == Session::Up {
            with(&|reactor| {
                (reactor.session, reactor.holds_asleep) = (Session::Dead, false);
                reactor.deaths_left -= 1;
            });
            if self.reactors.iter().filter(|other| other.alive).count() > 1 {
                with(&|reactor| (reactor.alive, reactor.holds_asleep) = (false, false));
            }
        }
        if matches!(reactor.session, Session::Dead | Session::Gone) {
            with(&|reactor| reactor.session = Session::New);
        }
        match (reactor.stage, reactor.session) {
            (Stage::Between, Session::Dead) => with(&|reactor| reactor.lose_session(broken, now)),
            (Stage::Between, Session::New) => with(&|reactor| reactor.take_session(broken, now)),
            _ => {}
        }
    }

    /// What the dispatcher's loop does next, now or after a long time.
    pub(super) fn dispatcher_moves(&self, index: usize, next: &mut Vec<World>) {
        if self.reactors[index].stage != Stage::Between {
            return next.push(self.but(|w| w.look_on(index)));
        }
        for leap in [Duration::ZERO, LEAP] {
            let mut world = self.clone();
            world.now += leap;
            if world.dispatcher_steps(index) {
                next.push(world);
            }
        }
    }

    /// One step of the loop; false if it waits for something.
    fn dispatcher_steps(&mut self, index: usize) -> bool {
        let (now, broken) = (self.now, self.broken);
        let reactor = &mut self.reactors[index];
        match reactor.posture.step(now) {
            // A statement for a session that is not there fails, if the dispatcher thought it was.
            Step::Arm | Step::Disarm | Step::Test if reactor.session != Session::Up => {
                let thought_it_was = reactor.session == Session::Dead;
                if thought_it_was {
                    reactor.lose_session(broken, now);
                }
                return thought_it_was;
            }
            Step::Arm => {
                reactor.holds_asleep = broken != Broken::SleepsWithoutArming;
                reactor.posture.armed(true, now);
            }
            Step::Disarm => {
                reactor.holds_asleep = false;
                reactor.posture.disarmed();
            }
            Step::Test => self.test(index),
            Step::Look => self.look(index),
            Step::Wait(limit) => return reactor.wait(limit, broken, now),
        }
        true
    }

    fn test(&mut self, index: usize) {
        let (now, broken) = (self.now, self.broken);
        let clean = !self.in_flight() || broken == Broken::SleepsWithoutTheTest;
        let reactor = &mut self.reactors[index];
        if broken == Broken::LooksBeforeTheTest && reactor.posture.phase == Phase::Testing {
            self.look_early(index);
        } else {
            reactor.posture.tested(clean, now);
        }
    }

    fn look(&mut self, index: usize) {
        let (now, clean) = (self.now, !self.in_flight());
        match self.reactors[index].early.take() {
            Some(findings) => {
                self.reactors[index].posture.tested(clean, now);
                self.looked(index, findings);
            }
            None => self.begin_look(index),
        }
    }
}
