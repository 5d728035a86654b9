//! A look and its statements, and the rearguard that asks for what lies beyond its reach.

use super::Broken;
use super::reactor::SLOTS;
use super::world::World;
use crate::reactor::bell::Look;

/// Where a look is between its statements.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Between,
    /// For a broken order: slots are counted, and the flag is still set.
    Counted {
        free: u8,
    },
    /// The flag is cleared, and so many slots are free.
    Cleared {
        free: u8,
    },
    Claimed(Findings),
    /// For a broken order: all is looked at, and only now is the flag cleared.
    ToClear,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rearguard {
    Resting,
    /// The question is asked, and its answer on the way.
    Asked {
        late: bool,
    },
}

/// What a look has found.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Findings {
    found: u8,
    short: bool,
    /// A row is due although the claim is over.
    due_already: bool,
}

impl Findings {
    const NOTHING: Findings = Findings {
        found: 0,
        short: true,
        due_already: false,
    };
}

impl World {
    /// Forgets the ring, and counts the free slots.
    pub(super) fn begin_look(&mut self, index: usize) {
        let broken = self.broken;
        let reactor = &mut self.reactors[index];
        let free = SLOTS - reactor.busy;
        match broken {
            Broken::ClearsTheRingAfterTheLook => {}
            Broken::CountsSlotsBeforeClearingTheFlag => return reactor.stage = Stage::Counted { free },
            _ => drop(reactor.clear_flags()),
        }
        self.prepare(index, free);
    }

    /// What comes after that, one statement at a time.
    pub(super) fn look_on(&mut self, index: usize) {
        match self.reactors[index].stage {
            Stage::Between => {}
            Stage::Counted { free } => {
                self.reactors[index].clear_flags();
                self.prepare(index, free);
            }
            Stage::Cleared { free } => {
                let findings = self.claim(index, free);
                self.reactors[index].stage = Stage::Claimed(findings);
            }
            // Asked after the claim, in a statement of its own.
            Stage::Claimed(findings) => self.looked(index, self.with_next_due(index, findings)),
            Stage::ToClear => {
                self.reactors[index].clear_flags();
                self.reactors[index].stage = Stage::Between;
            }
        }
    }

    /// For a broken order. The test comes as a statement of its own: others may move before it.
    pub(super) fn look_early(&mut self, index: usize) {
        let now = self.now;
        self.reactors[index].clear_flags();
        let findings = self.claim(index, SLOTS - self.reactors[index].busy);
        let findings = self.with_next_due(index, findings);
        let reactor = &mut self.reactors[index];
        reactor.early = Some(findings);
        reactor.posture.tested(true, now);
    }

    /// Without a free slot there is no claim.
    fn prepare(&mut self, index: usize, free: u8) {
        let broken = self.broken;
        if free == 0 {
            return self.report(index, false, Findings::NOTHING);
        }
        if broken == Broken::AsksBeyondTheReachBeforeTheLook {
            self.ask_beyond(index);
        }
        let reactor = &mut self.reactors[index];
        if reactor.inquiry.take_found() && broken != Broken::FoundBeyondTheReachDoesNotWiden {
            reactor.reach.forget();
        }
        reactor.stage = Stage::Cleared { free };
    }

    /// Takes what is visible, within reach and not locked, as far as there are slots.
    fn claim(&mut self, index: usize, free: u8) -> Findings {
        let bounded = self.is_bounded(index);
        let taken = free.min(self.waiting.seen(bounded));
        // The row that was due first comes first.
        let beyond = if bounded { 0 } else { taken.min(self.waiting.beyond) };
        self.waiting.beyond -= beyond;
        self.waiting.within -= taken - beyond;
        self.reactors[index].busy += taken;
        Findings {
            found: taken,
            short: taken < free,
            due_already: false,
        }
    }

    /// What the question for the next due instant adds, where it is asked.
    fn with_next_due(&self, index: usize, findings: Findings) -> Findings {
        let bounded = self.is_bounded(index);
        let asked = findings.short && self.reactors[index].posture.wants_next_due();
        Findings {
            due_already: asked && self.waiting.seen(bounded) + self.locked.seen(bounded) > 0,
            ..findings
        }
    }

    pub(super) fn looked(&mut self, index: usize, findings: Findings) {
        let now = self.now;
        if self.broken != Broken::AsksBeyondTheReachBeforeTheLook {
            self.ask_beyond(index);
        }
        let reactor = &mut self.reactors[index];
        if findings.short {
            reactor.reach.came_back_short(now, findings.due_already);
        }
        self.report(index, true, findings);
    }

    fn report(&mut self, index: usize, free: bool, findings: Findings) {
        let (now, broken) = (self.now, self.broken);
        let reactor = &mut self.reactors[index];
        let look = Look {
            free,
            short: findings.short,
            found: findings.found.into(),
            locked: findings.due_already && broken != Broken::SleepsOverALockedRow,
        };
        reactor.posture.looked(look, now);
        let late = broken == Broken::ClearsTheRingAfterTheLook;
        reactor.stage = if late { Stage::ToClear } else { Stage::Between };
    }

    fn is_bounded(&self, index: usize) -> bool {
        self.reactors[index].reach.duration(self.now).is_some()
    }

    /// Where no row can be late the answer is known, and the question is left out.
    fn ask_beyond(&mut self, index: usize) {
        let now = self.now;
        let asks = self.broken != Broken::NeverAsksBeyondTheReach && self.may_be_late();
        let reactor = &mut self.reactors[index];
        if let Some(reach) = reactor.reach.duration(now)
            && asks
        {
            reactor.inquiry.ask(reach, now);
        }
    }

    pub(super) fn rearguard_moves(&self, index: usize, next: &mut Vec<World>) {
        let keeps_question = self.broken == Broken::TakesTheQuestionWithItsAnswer;
        let mut world = self.clone();
        let reactor = &mut world.reactors[index];
        reactor.rearguard = match reactor.rearguard {
            Rearguard::Resting => {
                let mut inquiry = reactor.inquiry;
                if inquiry.take_question().is_none() {
                    return;
                }
                if !keeps_question {
                    reactor.inquiry = inquiry;
                }
                let late = self.waiting.beyond + self.locked.beyond > 0;
                Rearguard::Asked { late }
            }
            Rearguard::Asked { late } => {
                if keeps_question {
                    reactor.inquiry.take_question();
                }
                if late {
                    reactor.inquiry.found();
                    reactor.news |= self.broken != Broken::FoundBeyondTheReachDoesNotWake;
                }
                Rearguard::Resting
            }
        };
        next.push(world);
    }
}
