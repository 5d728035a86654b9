//! What the parts of a run note down about how they fare.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::Error;
use crate::reactor::health::Trouble;

/// The signs of life of one run.
#[derive(Default)]
pub(crate) struct Vitals(Mutex<Signs>);

#[derive(Default)]
struct Signs {
    probed: Option<Instant>,
    looked: Option<Instant>,
    claiming: Option<Ailment>,
    settling: Option<Ailment>,
    rows_hidden: bool,
}

/// What fails, and since when.
struct Ailment {
    since: Instant,
    why: String,
}

/// The signs of life as they are now.
pub(crate) struct Reading {
    pub(crate) probed: Option<Instant>,
    pub(crate) looked: Option<Instant>,
    pub(crate) claiming: Result<(), Trouble>,
    pub(crate) settling: Result<(), Trouble>,
    pub(crate) rows_hidden: bool,
}

impl Vitals {
    /// The listening session has just shown that it listens.
    pub(crate) fn probed(&self) {
        self.signs().probed = Some(Instant::now());
    }

    /// The database has answered a look for due rows.
    pub(crate) fn looked(&self) {
        let mut signs = self.signs();
        signs.looked = Some(Instant::now());
        signs.claiming = None;
    }

    /// A look could not be made.
    pub(crate) fn cannot_look(&self, error: &Error) {
        Ailment::go_on(&mut self.signs().claiming, error);
    }

    /// Outcomes were written; answers whether that is new.
    pub(crate) fn settled(&self) -> bool {
        self.signs().settling.take().is_some()
    }

    /// Outcomes could not be written; answers whether that is new.
    pub(crate) fn cannot_settle(&self, error: &Error) -> bool {
        let settling = &mut self.signs().settling;
        let is_new = settling.is_none();
        Ailment::go_on(settling, error);
        is_new
    }

    pub(crate) fn can_settle(&self) -> bool {
        self.signs().settling.is_none()
    }

    /// Notes whether row-level security keeps the rows from us; answers whether that is new.
    pub(crate) fn note_hidden(&self, hidden: bool) -> bool {
        std::mem::replace(&mut self.signs().rows_hidden, hidden) != hidden
    }

    pub(crate) fn read(&self) -> Reading {
        let signs = self.signs();
        Reading {
            probed: signs.probed,
            looked: signs.looked,
            claiming: Ailment::report(signs.claiming.as_ref()),
            settling: Ailment::report(signs.settling.as_ref()),
            rows_hidden: signs.rows_hidden,
        }
    }

    fn signs(&self) -> MutexGuard<'_, Signs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ailment {
    /// It begins, or goes on with what was last said about it.
    fn go_on(ailment: &mut Option<Ailment>, error: &Error) {
        let why = error.chain();
        match ailment {
            Some(ailment) => ailment.why = why,
            None => {
                let since = Instant::now();
                *ailment = Some(Ailment { since, why });
            }
        }
    }

    fn report(ailment: Option<&Ailment>) -> Result<(), Trouble> {
        ailment.map_or(Ok(()), |ailment| {
            Err(Trouble {
                why: ailment.why.clone(),
                lasted: ailment.since.elapsed(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_failing_is_news_once_and_keeps_its_beginning() {
        let vitals = Vitals::default();
        assert!(vitals.cannot_settle(&Error::timeout("first")) && !vitals.can_settle());
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(!vitals.cannot_settle(&Error::timeout("second")));
        let trouble = vitals.read().settling.unwrap_err();
        assert!(
            trouble.why == "second" && trouble.lasted.as_millis() >= 2,
            "{trouble:?}"
        );
        assert!(vitals.settled() && !vitals.settled() && vitals.can_settle());
    }

    #[test]
    fn a_look_that_is_answered_ends_what_kept_others_from_it() {
        let vitals = Vitals::default();
        vitals.cannot_look(&Error::timeout("no answer"));
        assert!(vitals.read().claiming.is_err() && vitals.read().looked.is_none());
        vitals.looked();
        assert!(vitals.read().claiming.is_ok() && vitals.read().looked.is_some());
    }
}
