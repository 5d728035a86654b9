//! Rows of a claim whose answer never came: it may have been committed, and then they bear our id and nobody sends them.
//! They are given back, at no cost in attempts, between claims.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Error;
use crate::reactor::state::{Shared, count};

/// When, after such a claim: at once, and again because its backend may still commit.
const AFTER: [Duration; 3] = [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(5)];
/// After a release that failed.
const AGAIN: Duration = Duration::from_secs(1);

/// When to look for such rows.
#[derive(Default)]
pub(crate) struct Releases(Mutex<Vec<Instant>>);

impl Releases {
    /// A claim was made, and nobody knows what it took.
    pub(crate) fn unanswered(&self, now: Instant) {
        *self.instants() = AFTER.map(|after| now + after).into();
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.instants().iter().min().copied()
    }

    fn is_due(&self, now: Instant) -> bool {
        self.next().is_some_and(|next| next <= now)
    }

    /// What was due then is done, or did not work.
    fn done(&self, begun: Instant, well: bool) {
        let mut instants = self.instants();
        instants.retain(|at| *at > begun);
        if !well {
            instants.push(begun + AGAIN);
        }
    }

    fn instants(&self) -> MutexGuard<'_, Vec<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives back, if that is due, what such claims took. No claim may be under way: what it takes is not known yet.
pub(crate) async fn release_if_due(shared: &Shared) {
    let begun = Instant::now();
    if !shared.releases.is_due(begun) {
        return;
    }
    let released = release_unknown(shared).await;
    shared.releases.done(begun, released.is_ok());
    match released {
        Ok(0) => {}
        Ok(released) => tracing::info!(released, "gave back rows of a claim whose answer never came"),
        Err(error) => tracing::debug!(error = %error.chain(), "rows of a lost claim cannot be given back yet"),
    }
}

/// Gives back all rows that bear an id of ours and that we do not know.
pub(crate) async fn release_unknown(shared: &Shared) -> Result<usize, Error> {
    let names: Vec<&str> = shared.channels.iter().map(|channel| &*channel.name).collect();
    let (ids, known) = (shared.instance.ids(), shared.leases.all());
    let released = shared.store.release_unknown(&names, &ids, &known).await?;
    count(&shared.counts.released, released);
    Ok(released)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_that_fails_is_made_again_and_puts_off_none_that_is_still_to_come() {
        let (releases, now) = (Releases::default(), Instant::now());
        assert!(!releases.is_due(now) && releases.next().is_none());
        releases.unanswered(now);
        assert!(releases.is_due(now));
        releases.done(now, false);
        releases.done(now + AGAIN, true);
        assert!(!releases.is_due(now + AGAIN));
        assert_eq!(releases.next(), Some(now + AFTER[2]));
        releases.done(now + AFTER[2], true);
        assert_eq!(releases.next(), None);
    }
}
