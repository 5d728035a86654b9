//! Large payloads: a claim leaves them in the table, and each send reads its own when there is room for it. So what a
//! reactor has in memory is bounded by more than the number of its slots.

use tokio::sync::{AcquireError, Mutex, Semaphore, SemaphorePermit};

use crate::Error;
use crate::store::{Held, Store};

/// How much of large payloads may be held at once, in kB: 64 MB. One that is larger is held alone.
const ROOM: u32 = 64 * 1024;

/// What all sends of a reactor share to read large payloads.
pub(crate) struct LargePayloads {
    turn: Mutex<()>,
    room: Semaphore,
}

impl Default for LargePayloads {
    fn default() -> Self {
        LargePayloads {
            turn: Mutex::default(),
            room: Semaphore::new(ROOM as usize),
        }
    }
}

impl LargePayloads {
    /// Waits for a turn and for room, and reads the payload of a claimed row. The room is free again when the permit is
    /// dropped. One at a time, so that settles and renewals find a connection in the pool.
    pub(crate) async fn read(&self, store: &Store, held: Held) -> Result<(String, SemaphorePermit<'_>), Error> {
        let _turn = self.turn.lock().await;
        let room = self.room_for(store.payload_size(held).await?).await;
        let room = room.map_err(|_| Error::input("the reactor has stopped"))?;
        Ok((store.payload(held).await?, room))
    }

    async fn room_for(&self, bytes: usize) -> Result<SemaphorePermit<'_>, AcquireError> {
        let kilobytes = u32::try_from(bytes.div_ceil(1024)).unwrap_or(ROOM);
        self.room.acquire_many(kilobytes.min(ROOM)).await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn there_is_room_for_many_together_or_for_one_that_is_larger_than_all_of_it() {
        let payloads = LargePayloads::default();
        let half = 32 * 1024 * 1024;
        let both = (payloads.room_for(half).await, payloads.room_for(half).await);
        assert!(payloads.room_for(1).now_or_never().is_none());
        drop(both);
        let all = payloads.room_for(usize::MAX).await;
        assert_eq!(payloads.room.available_permits(), 0);
        drop(all);
        assert_eq!(payloads.room.available_permits(), ROOM as usize);
    }
}
