//! Every interleaving of the bell: the [`Posture`] and the [`Reach`] as they are, producers as the triggers make them, and
//! a small server between them, explored to the end.
//!
//! From each world one must come to be in which no row waits, without the safety scan. Each rule of the protocol is also
//! broken on purpose, and then a world must be found from which none comes.
//!
//! In it: transactions that commit, roll back, ring or stay silent; sessions that die at any moment, before or after the
//! dispatcher notices; a reactor that dies for good; rows whose lock somebody else holds for a while; rows that a bounded
//! look no longer reaches; slots that are all taken, and sends that end. Each statement is one step, and time either
//! stands still or leaps past every limit.
//!
//! [`Posture`]: super::Posture
//! [`Reach`]: crate::reactor::reach::Reach

mod key;
mod look;
mod producer;
mod reactor;
mod world;

use std::collections::HashMap;

use world::{Size, World};

/// One rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Broken {
    Nothing,
    ProducerLooksOnlyOnce,
    SleepsWithoutArming,
    SleepsWithoutTheTest,
    LooksBeforeTheTest,
    ClearsTheRingAfterTheLook,
    CountsSlotsBeforeClearingTheFlag,
    TakesARingForATest,
    SleepsOnAfterAReconnect,
    SleepsOverALockedRow,
    ForgetsAFreedSlot,
    NeverAsksBeyondTheReach,
    AsksBeyondTheReachBeforeTheLook,
    TakesTheQuestionWithItsAnswer,
    FoundBeyondTheReachDoesNotWake,
    FoundBeyondTheReachDoesNotWiden,
}

/// Every world that can come of this one; answers with how many there are, or with one that a row can wait in for ever.
fn explore(start: &World) -> Result<usize, String> {
    let (mut worlds, mut settled) = (0, Vec::new());
    let steps = walk(start, |number, world| {
        worlds += 1;
        if world.nothing_waits() {
            settled.push(number);
        }
    });
    let Some(stuck) = leads_nowhere(worlds, &steps, &settled) else {
        return Ok(worlds);
    };
    let mut description = String::new();
    walk(start, |number, world| {
        if number == stuck {
            description = world.to_string();
        }
    });
    Err(description)
}

/// Numbers the worlds, and visits each once; answers with which comes right after which.
fn walk(start: &World, mut visit: impl FnMut(usize, &World)) -> Vec<(usize, usize)> {
    let mut numbers = HashMap::from([(start.key(), 0)]);
    let mut todo = vec![(0, start.clone())];
    let mut steps = Vec::new();
    while let Some((from, world)) = todo.pop() {
        visit(from, &world);
        for next in world.successors() {
            let fresh = numbers.len();
            let to = *numbers.entry(next.key()).or_insert(fresh);
            if to == fresh {
                todo.push((to, next));
            }
            steps.push((from, to));
        }
    }
    steps
}

/// A world from which no step leads towards one of these.
fn leads_nowhere(worlds: usize, steps: &[(usize, usize)], settled: &[usize]) -> Option<usize> {
    let mut leads = vec![false; worlds];
    for &world in settled {
        leads[world] = true;
    }
    let mut changed = true;
    while changed {
        changed = false;
        for &(from, to) in steps.iter().rev() {
            if leads[to] && !leads[from] {
                leads[from] = true;
                changed = true;
            }
        }
    }
    leads.iter().position(|leads| !leads)
}

const ONE_OF_EACH: Size = Size {
    reactors: 1,
    producers: 1,
    transactions: 1,
    deaths: 0,
    locks: 1,
    slips: 0,
};

#[test]
fn no_interleaving_leaves_a_row_waiting() {
    let sizes = [
        Size {
            transactions: 2,
            deaths: 1,
            ..ONE_OF_EACH
        },
        Size {
            producers: 2,
            ..ONE_OF_EACH
        },
        Size {
            reactors: 2,
            ..ONE_OF_EACH
        },
        Size {
            transactions: 3,
            ..ONE_OF_EACH
        },
        Size {
            transactions: 2,
            locks: 0,
            slips: 1,
            ..ONE_OF_EACH
        },
        Size {
            deaths: 1,
            locks: 0,
            slips: 1,
            ..ONE_OF_EACH
        },
    ];
    for size in sizes {
        let worlds = explore(&World::new(Broken::Nothing, size)).unwrap();
        println!("{size:?}: {worlds} worlds");
        assert!(worlds > 1_000, "only {worlds}: the model no longer moves");
    }
}

#[test]
fn each_broken_rule_leaves_a_row_waiting_somewhere() {
    let one = Size {
        locks: 0,
        ..ONE_OF_EACH
    };
    let late = Size { slips: 1, ..one };
    // In the smallest world that shows it.
    for (broken, size) in [
        (Broken::ProducerLooksOnlyOnce, one),
        (Broken::SleepsWithoutArming, one),
        (Broken::SleepsWithoutTheTest, one),
        (Broken::LooksBeforeTheTest, one),
        (Broken::ClearsTheRingAfterTheLook, Size { producers: 2, ..one }),
        (
            Broken::CountsSlotsBeforeClearingTheFlag,
            Size { transactions: 3, ..one },
        ),
        (Broken::TakesARingForATest, Size { producers: 2, ..one }),
        (Broken::SleepsOnAfterAReconnect, Size { deaths: 1, ..one }),
        (Broken::SleepsOverALockedRow, ONE_OF_EACH),
        (Broken::ForgetsAFreedSlot, Size { transactions: 3, ..one }),
        (Broken::NeverAsksBeyondTheReach, late),
        (Broken::AsksBeyondTheReachBeforeTheLook, late),
        (Broken::TakesTheQuestionWithItsAnswer, late),
        (Broken::FoundBeyondTheReachDoesNotWake, late),
        (Broken::FoundBeyondTheReachDoesNotWiden, late),
    ] {
        let explored = explore(&World::new(broken, size));
        println!("{broken:?}: {explored:?}");
        assert!(explored.is_err(), "{broken:?} does no harm in {explored:?} worlds");
    }
}
