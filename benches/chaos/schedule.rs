//! Which fault is next, how long it lasts and whom it hits: by the dice alone, so that a seed repeats it.

use std::time::Duration;

use crate::dice::Dice;
use crate::fleet::REACTORS;

/// What is done to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// `kill -9`, and started again after so long.
    Kill,
    /// `kill -STOP`, and `-CONT` after so long.
    Stop,
    /// One of the reactors' backends is terminated.
    Backend,
    /// What goes through the proxy is held back for so long.
    Freeze,
    /// The proxy's connections are cut, and no new ones made for so long.
    Cut,
    /// The server cuts everybody off and starts again.
    Restart,
    /// The server crashes, is away for so long, and recovers.
    Crash,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    pub(crate) lasts: Duration,
    /// A number that chooses among those who can be hit.
    pub(crate) whom: usize,
}

impl Kind {
    const ALL: [Kind; 7] = [
        Kind::Kill,
        Kind::Stop,
        Kind::Backend,
        Kind::Freeze,
        Kind::Cut,
        Kind::Restart,
        Kind::Crash,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::Kill => "kill -9",
            Kind::Stop => "kill -STOP",
            Kind::Backend => "backend killed",
            Kind::Freeze => "network frozen",
            Kind::Cut => "network cut",
            Kind::Restart => "server restarted",
            Kind::Crash => "server crashed",
        }
    }

    /// Shorter and longer than a lease, where that matters.
    fn longest(self) -> u64 {
        match self {
            Kind::Stop | Kind::Freeze => 2 * crate::fleet::LEASE.as_millis() as u64,
            Kind::Kill | Kind::Cut | Kind::Crash => 3000,
            Kind::Backend | Kind::Restart => 0,
        }
    }
}

pub(crate) fn next(dice: &mut Dice) -> Plan {
    let kind = dice.one_of(Kind::ALL);
    Plan {
        kind,
        lasts: Duration::from_millis(dice.below(kind.longest() + 1)),
        whom: dice.below(1000 * REACTORS as u64) as usize,
    }
}

/// Between two faults: sometimes too short to recover from the first.
pub(crate) fn calm(dice: &mut Dice) -> Duration {
    Duration::from_millis(dice.below(3000))
}
