//! How far back a look reaches, and who watches over what lies beyond.
//!
//! While somebody holds a snapshot open, vacuum may not remove the index entries of rows that went through since, and a look
//! from the beginning of the index walks over all of them. So a look begins a little before the last one that left nothing
//! behind. What lies further back is a row whose transaction took long to commit, one that was inserted due in the past,
//! one whose lock somebody held: such looks are followed by a question from the beginning, beside the dispatcher
//! ([`guard`]), and if a row is found there, the next look reaches all the way.
//!
//! No row waits longer than the question that is under way, the pause after it (1 s at most), one question and one look. A
//! question is begun after the look that it is for, so it sees whatever that look could have seen; looks that end
//! meanwhile share the next one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::reactor::state::Shared;
use crate::reactor::wake::Reasons;

/// A look begins so long before the last one: most transactions that had inserted by then are over now.
const MARGIN: Duration = Duration::from_secs(1);
/// Between two questions, and how much longer than the question itself.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_PER_QUESTION: u32 = 10;
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Of one channel: when the last look that left nothing behind began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reach(Option<Instant>);

impl Reach {
    /// How long a row may have been due to be seen by a look that begins now. `None`: for ever.
    pub(crate) fn duration(self, now: Instant) -> Option<Duration> {
        self.0.map(|covered| now.saturating_duration_since(covered) + MARGIN)
    }

    /// A look that began at `began` gave fewer rows than it was asked for. So it left nothing behind that could be seen, unless
    /// a row is known to be `locked` by somebody.
    pub(crate) fn came_back_short(&mut self, began: Instant, locked: bool) {
        if !locked {
            self.0 = Some(began);
        }
    }

    /// The next look reaches all the way.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }
}

/// Of one channel: what is to be asked beyond the reach, and whether anything was found there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inquiry {
    /// Rows that were due before this are to be asked for.
    before: Option<Instant>,
    found: bool,
}

impl Inquiry {
    /// A look that has come back by `now` was to reach this far. It is the server that counts back, from some instant during
    /// the look, so the question reaches as much closer as the look took.
    pub(crate) fn ask(&mut self, reach: Duration, now: Instant) {
        let before = now.checked_sub(reach).unwrap_or(now);
        self.before = Some(self.before.map_or(before, |earlier| earlier.max(before)));
    }

    /// The question, if there is one: is a row due since before then? Forgets it.
    pub(crate) fn take_question(&mut self) -> Option<Instant> {
        self.before.take()
    }

    /// A row was found that the next look must see.
    pub(crate) fn found(&mut self) {
        self.found = true;
    }

    /// Was a row found that the next look must see? Forgets it.
    pub(crate) fn take_found(&mut self) -> bool {
        std::mem::take(&mut self.found)
    }
}

/// The [`Inquiry`] of each channel, shared by the dispatcher and the rearguard.
pub(crate) struct Beyond {
    inquiries: Mutex<Vec<Inquiry>>,
    asked: Notify,
}

impl Beyond {
    pub(crate) fn new(channels: usize) -> Self {
        Beyond {
            inquiries: Mutex::new(vec![Inquiry::default(); channels]),
            asked: Notify::new(),
        }
    }

    /// As [`Inquiry::ask`], of each of these channels that a look did not reach all the way.
    pub(crate) fn ask(&self, reaches: impl Iterator<Item = (usize, Duration)>, now: Instant) {
        let mut inquiries = self.lock();
        let mut any = false;
        for (channel, reach) in reaches {
            inquiries[channel].ask(reach, now);
            any = true;
        }
        drop(inquiries);
        if any {
            self.asked.notify_one();
        }
    }

    /// As [`Inquiry::take_found`], of one channel.
    pub(crate) fn take_found(&self, channel: usize) -> bool {
        self.lock()[channel].take_found()
    }

    /// What is to be asked: channels, and since when a row must have been due.
    async fn questions(&self) -> Vec<(usize, Instant)> {
        loop {
            let questions = self.take_questions();
            if !questions.is_empty() {
                return questions;
            }
            self.asked.notified().await;
        }
    }

    fn take_questions(&self) -> Vec<(usize, Instant)> {
        let mut inquiries = self.lock();
        let questions = inquiries.iter_mut().enumerate();
        questions
            .filter_map(|(channel, inquiry)| Some((channel, inquiry.take_question()?)))
            .collect()
    }

    fn found(&self, channel: usize) {
        self.lock()[channel].found();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Inquiry>> {
        self.inquiries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks for rows beyond the reach of the looks, a tenth of the time at most, unless the question takes more than 100 ms.
pub(crate) async fn guard(shared: Arc<Shared>) {
    loop {
        let questions = shared.beyond.questions().await;
        let begun = Instant::now();
        ask(&shared, &questions, begun).await;
        let pause = (begun.elapsed() * PAUSE_PER_QUESTION).clamp(PAUSE, LONGEST_PAUSE);
        tokio::time::sleep(pause).await;
    }
}

async fn ask(shared: &Shared, questions: &[(usize, Instant)], now: Instant) {
    let name = |channel: usize| &*shared.channels[channel].name;
    let question = |&(channel, before): &(usize, Instant)| (name(channel), now.saturating_duration_since(before));
    let beyond: Vec<(&str, Duration)> = questions.iter().map(question).collect();
    let late = shared.store.late(&beyond).await;
    if let Err(error) = &late {
        tracing::debug!(error = %error.chain(), "could not ask for rows that are late");
    }
    // If nobody can tell, the next look finds out.
    let is_late = |channel| {
        late.as_ref()
            .map_or(true, |late| late.iter().any(|name_of| name_of == name(channel)))
    };
    let found: Vec<usize> = questions
        .iter()
        .map(|&(channel, _)| channel)
        .filter(|&channel| is_late(channel))
        .collect();
    for &channel in &found {
        shared.beyond.found(channel);
    }
    if !found.is_empty() {
        shared.wake.poke(Reasons::NEWS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_look_does_not_reach_is_asked_for_however_long_it_took_and_however_many_looks_there_were() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (mut reach, mut inquiry) = (Reach::default(), Inquiry::default());
        assert_eq!(reach.duration(at(1)), None, "the first look reaches all the way");
        reach.came_back_short(at(10), false);
        // Two looks and one question. They reach back from when the server got to them, which was at their end here.
        for (begun, ended) in [(20, 23), (30, 34)] {
            let reached = reach.duration(at(begun)).unwrap();
            inquiry.ask(reached, at(ended));
            reach.came_back_short(at(begun), false);
        }
        let margin = MARGIN.as_secs();
        assert_eq!(reach.duration(at(30)), Some(MARGIN));
        assert_eq!(inquiry.take_question(), Some(at(20 + 4 - margin)));
        assert_eq!(inquiry.take_question(), None);
    }
}
