//! How a reactor learns of new rows, and since when it is so.

use std::mem::discriminant;
use std::time::Instant;

/// How a reactor learns of new rows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Not running, or not yet connected.
    Starting,
    /// It hears the bell: rows go out at once.
    Listening,
    /// It does not hear the bell, and why; rows go out by looking, every 50 ms for the first 30 s after a bell was lost
    /// and every `scan_interval` otherwise.
    Polling {
        /// The error of the last try to listen.
        why: String,
    },
}

impl Mode {
    /// One word: `starting`, `listening` or `polling`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Mode::Starting => "starting",
            Mode::Listening => "listening",
            Mode::Polling { .. } => "polling",
        }
    }
}

/// A mode, and since when.
#[derive(Clone)]
pub(crate) struct ModeSince {
    pub(crate) mode: Mode,
    pub(crate) since: Instant,
}

impl ModeSince {
    pub(crate) fn starting() -> Self {
        ModeSince {
            mode: Mode::Starting,
            since: Instant::now(),
        }
    }

    /// Another mode begins now. One that only has another reason goes on.
    pub(crate) fn turn(&mut self, mode: Mode) {
        if discriminant(&mode) != discriminant(&self.mode) {
            self.since = Instant::now();
        }
        self.mode = mode;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_lasts_for_as_long_as_its_mode_whatever_the_reason() {
        let polling = |why: &str| Mode::Polling { why: why.to_owned() };
        let mut phase = ModeSince::starting();
        phase.turn(polling("refused"));
        let begun = phase.since;
        phase.turn(polling("no answer"));
        assert_eq!((phase.since, &phase.mode), (begun, &polling("no answer")));
        std::thread::sleep(std::time::Duration::from_millis(1));
        phase.turn(Mode::Listening);
        assert!(phase.since > begun);
    }
}
