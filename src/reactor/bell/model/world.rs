//! The world: the server, and all who use it.

use std::fmt;
use std::time::Instant;

use super::Broken;
use super::producer::{Producer, Transaction};
use super::reactor::Reactor;

/// How large a world is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) reactors: usize,
    pub(super) producers: usize,
    /// Of each producer, one after the other, of one row each.
    pub(super) transactions: u8,
    /// How often each reactor's session may die.
    pub(super) deaths: u8,
    /// How often somebody may lock a row.
    pub(super) locks: u8,
    /// How many rows may slip out of the reach of looks.
    pub(super) slips: u8,
}

/// Rows that are due, told apart by whether a bounded look still reaches them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Rows {
    pub(super) within: u8,
    pub(super) beyond: u8,
}

impl Rows {
    pub(super) fn all(self) -> u8 {
        self.within + self.beyond
    }

    /// How many a statement sees.
    pub(super) fn seen(self, bounded: bool) -> u8 {
        if bounded { self.within } else { self.all() }
    }
}

#[derive(Clone)]
pub(super) struct World {
    pub(super) broken: Broken,
    pub(super) now: Instant,
    pub(super) reactors: Vec<Reactor>,
    pub(super) producers: Vec<Producer>,
    pub(super) waiting: Rows,
    /// Rows whose lock somebody holds who is no reactor.
    pub(super) locked: Rows,
    pub(super) locks_left: u8,
    pub(super) slips_left: u8,
}

impl World {
    pub(super) fn new(broken: Broken, size: Size) -> Self {
        let now = Instant::now();
        let producer = Producer {
            left: size.transactions,
            now: Transaction::Idle,
        };
        World {
            broken,
            now,
            reactors: vec![Reactor::new(size.deaths, now); size.reactors],
            producers: vec![producer; size.producers],
            waiting: Rows::default(),
            locked: Rows::default(),
            locks_left: size.locks,
            slips_left: size.slips,
        }
    }

    /// Every world that can come next.
    pub(super) fn successors(&self) -> Vec<World> {
        let mut next = Vec::new();
        for index in 0..self.producers.len() {
            self.producer_moves(index, &mut next);
        }
        for index in (0..self.reactors.len()).filter(|&index| self.reactors[index].alive) {
            self.session_moves(index, &mut next);
            self.dispatcher_moves(index, &mut next);
            self.rearguard_moves(index, &mut next);
        }
        self.lock_moves(&mut next);
        self.slip_moves(&mut next);
        next
    }

    pub(super) fn but(&self, change: impl FnOnce(&mut World)) -> World {
        let mut world = self.clone();
        change(&mut world);
        world
    }

    pub(super) fn nothing_waits(&self) -> bool {
        self.waiting.all() + self.locked.all() == 0
    }

    pub(super) fn somebody_asleep(&self) -> bool {
        self.reactors.iter().any(|reactor| reactor.holds_asleep)
    }

    pub(super) fn in_flight(&self) -> bool {
        self.producers.iter().any(Producer::holds_in_flight)
    }

    /// Is there a row beyond the reach of looks, or may there still be one?
    pub(super) fn may_be_late(&self) -> bool {
        self.slips_left + self.waiting.beyond + self.locked.beyond > 0
    }

    fn lock_moves(&self, next: &mut Vec<World>) {
        let places: [fn(&mut Rows) -> &mut u8; 2] = [|rows| &mut rows.within, |rows| &mut rows.beyond];
        for place in places {
            let (mut waiting, mut locked) = (self.waiting, self.locked);
            if *place(&mut waiting) > 0 && self.locks_left > 0 {
                next.push(self.but(|w| {
                    *place(&mut w.waiting) -= 1;
                    *place(&mut w.locked) += 1;
                    w.locks_left -= 1;
                }));
            }
            if *place(&mut locked) > 0 {
                next.push(self.but(|w| {
                    *place(&mut w.locked) -= 1;
                    *place(&mut w.waiting) += 1;
                }));
            }
        }
    }

    /// A row was due long before its commit, or a statement runs long after it was sent: at any moment a row may be one
    /// that no bounded look sees any more.
    fn slip_moves(&self, next: &mut Vec<World>) {
        let places: [fn(&mut World) -> &mut Rows; 2] = [|w| &mut w.waiting, |w| &mut w.locked];
        for place in places {
            let mut world = self.clone();
            let rows = place(&mut world);
            if rows.within > 0 && self.slips_left > 0 {
                (rows.within, rows.beyond) = (rows.within - 1, rows.beyond + 1);
                world.slips_left -= 1;
                next.push(world);
            }
        }
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a row waits for ever, {:?} and {:?} locked",
            self.waiting, self.locked
        )?;
        for reactor in self.reactors.iter().filter(|reactor| reactor.alive) {
            write!(f, "; {:?}, armed: {}", reactor.posture.phase, reactor.holds_asleep)?;
        }
        Ok(())
    }
}
