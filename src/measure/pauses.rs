//! Time between two rows, so that the reactor is asleep when the next one comes.

use std::time::Duration;

use crate::retry::random;

/// Pauses of random length, so that nothing keeps step with anything.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    shortest: Duration,
    longest: Duration,
}

impl Pauses {
    /// Pauses of at least `shortest` and at most `longest`, each length as likely as any other.
    pub const fn between(shortest: Duration, longest: Duration) -> Self {
        Pauses { shortest, longest }
    }

    /// No pauses at all: the next row comes as soon as the last one has arrived.
    pub fn are_none(self) -> bool {
        self.longest.is_zero()
    }

    /// Sleeps for one.
    pub async fn next(self) {
        if self.are_none() {
            return;
        }
        let spread = self.longest.saturating_sub(self.shortest);
        tokio::time::sleep(self.shortest + spread.mul_f64(random())).await;
    }
}
