//! What a claim left in the table: each send reads its own when there is room for it. So what a reactor has in memory is
//! bounded by more than the number of its slots.

use std::time::Duration;

use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};

use crate::Error;
use crate::reactor::state::Shared;
use crate::store::{Contents, Held};

/// How much of large payloads a channel may hold at once, in kB: 64 MB. One that is larger is held alone.
const ROOM: u32 = 64 * 1024;
/// Between two tries to read while the database is away.
const PAUSE: Duration = Duration::from_millis(500);
/// How often a row may take too long to read. After that it is the row's fault.
const SLOW_TRIES: u32 = 2;

/// The room that the sends of one channel share. Another channel's slow sends do not take it.
pub(crate) struct Room(Semaphore);

impl Default for Room {
    fn default() -> Self {
        Room(Semaphore::new(ROOM as usize))
    }
}

impl Room {
    async fn for_bytes(&self, bytes: usize) -> Result<SemaphorePermit<'_>, AcquireError> {
        let kilobytes = u32::try_from(bytes.div_ceil(1024)).unwrap_or(ROOM);
        self.0.acquire_many(kilobytes.min(ROOM)).await
    }
}

/// Reads what a claim left of a row, when there is room for it on its channel. The room is free again when the permit is
/// dropped. While the database is away this waits for it: the row is still ours.
pub(crate) async fn read(
    shared: &Shared,
    channel: usize,
    held: Held,
) -> Result<(Contents, SemaphorePermit<'_>), Error> {
    let mut patience = Patience(SLOW_TRIES);
    let bytes = loop {
        let asked = ours(shared, held);
        match shared.store.payload_size(asked).await {
            Err(error) if patience.lasts(shared, &error).await || ours(shared, held) != asked => {}
            answer => break answer?,
        }
        tokio::time::sleep(PAUSE).await;
    };
    let room = shared.room(channel).for_bytes(bytes).await;
    let room = room.map_err(|_| Error::input("the reactor has stopped"))?;
    loop {
        let asked = ours(shared, held);
        match shared.store.payload(asked).await {
            Err(error) if patience.lasts(shared, &error).await || ours(shared, held) != asked => {}
            answer => return Ok((answer?, room)),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The claim as it is known now: the row may have been claimed again meanwhile.
fn ours(shared: &Shared, held: Held) -> Held {
    shared.leases.held(held.id).unwrap_or(held)
}

/// How many more times a row may take too long.
struct Patience(u32);

impl Patience {
    /// Whether to try again after this: the database is away, and the row is not to blame.
    async fn lasts(&mut self, shared: &Shared, error: &Error) -> bool {
        // What somebody else was in the way of may work later.
        let passes = error.is_transient() && !error.may_be_over_a_row();
        let refused = error.is_input() || error.is_refusal() && !passes;
        // A frozen network looks the same, but then nothing else is answered either.
        let slow = error.is_unanswered() && shared.store.answers().await;
        let lasts = !refused && (!slow || self.0 > 0);
        self.0 = self.0.saturating_sub(u32::from(slow));
        tracing::debug!(error = %error.chain(), lasts, "what a claim left of a row cannot be read");
        lasts
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn there_is_room_for_many_together_or_for_one_that_is_larger_than_all_of_it() {
        let room = Room::default();
        let half = 32 * 1024 * 1024;
        let both = (room.for_bytes(half).await, room.for_bytes(half).await);
        assert!(room.for_bytes(1).now_or_never().is_none());
        drop(both);
        let all = room.for_bytes(usize::MAX).await;
        assert_eq!(room.0.available_permits(), 0);
        drop(all);
        assert_eq!(room.0.available_permits(), ROOM as usize);
    }
}
