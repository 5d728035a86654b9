//! The producers' half, as the trigger of `migrations/0002_bell.up.sql` has it.

use super::Broken;
use super::reactor::Session;
use super::world::World;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Transaction {
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
pub(super) struct Producer {
    pub(super) left: u8,
    pub(super) now: Transaction,
}

impl Producer {
    pub(super) fn holds_in_flight(&self) -> bool {
        match self.now {
            Transaction::Holding => true,
            Transaction::Ready { holds, .. } | Transaction::Visible { holds, .. } => holds,
            _ => false,
        }
    }

    fn ends(&mut self) {
        (self.left, self.now) = (self.left - 1, Transaction::Idle);
    }
}

impl World {
    pub(super) fn producer_moves(&self, index: usize, next: &mut Vec<World>) {
        use Transaction::{Holding, Idle, Ready, SawNobody, Unlocked, Visible};
        let rings = Ready {
            holds: false,
            rings: true,
        };
        let mut to = |now: Transaction| next.push(self.but(|w| w.producers[index].now = now));
        match self.producers[index].now {
            Idle if self.producers[index].left == 0 => {}
            Idle => to(if self.somebody_asleep() { rings } else { SawNobody }),
            SawNobody => {
                to(Holding);
                // A reactor was testing it at that instant.
                to(rings);
            }
            Holding => {
                let rings = self.somebody_asleep() && self.broken != Broken::ProducerLooksOnlyOnce;
                to(Ready { holds: true, rings });
            }
            Ready { holds, rings } => {
                next.push(self.but(|w| {
                    w.waiting.within += 1;
                    w.producers[index].now = Visible { holds, rings };
                }));
                next.push(self.but(|w| w.producers[index].ends()));
            }
            Visible { rings, .. } => to(Unlocked { rings }),
            Unlocked { rings } => next.push(self.but(|w| {
                for reactor in w.reactors.iter_mut().filter(|_| rings) {
                    reactor.rung |= reactor.alive && matches!(reactor.session, Session::Up | Session::New);
                }
                w.producers[index].ends();
            })),
        }
    }
}
