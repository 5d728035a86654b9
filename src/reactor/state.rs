//! What the parts of a running reactor share: its channels with their slots, its leases, its counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::Error;
use crate::config::ChannelConfig;
use crate::reactor::instance::Instance;
use crate::reactor::large::Room;
use crate::reactor::lease::Leases;
use crate::reactor::reach::Beyond;
use crate::reactor::releases::Releases;
use crate::reactor::vitals::Vitals;
use crate::reactor::wake::{Reasons, Wake};
use crate::sender::AnySender;
use crate::store::Store;

/// One channel of a reactor: its sender and its settings.
#[derive(Clone)]
pub(crate) struct Channel {
    pub(crate) name: Arc<str>,
    pub(crate) config: ChannelConfig,
    pub(crate) sender: Arc<dyn AnySender>,
}

/// The shared part of one run.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) instance: Arc<Instance>,
    pub(crate) lease: Duration,
    pub(crate) channels: Vec<Channel>,
    /// Slots taken, a place for each channel.
    taken: Vec<AtomicU32>,
    /// Slots taken in all, and who waits for there to be none.
    running: AtomicUsize,
    idle: Notify,
    pub(crate) leases: Leases,
    pub(crate) releases: Releases,
    /// For large payloads, of each channel.
    rooms: Vec<Room>,
    pub(crate) wake: Arc<Wake>,
    pub(crate) beyond: Beyond,
    pub(crate) counts: Counts,
    pub(crate) vitals: Arc<Vitals>,
    /// Set once: no further claim is to be made.
    stopping: AtomicBool,
}

impl Shared {
    pub(crate) fn new(store: Store, channels: Vec<Channel>, lease: Duration, vitals: Arc<Vitals>) -> Self {
        Shared {
            store,
            instance: Arc::new(Instance::new()),
            lease,
            taken: channels.iter().map(|_| AtomicU32::new(0)).collect(),
            running: AtomicUsize::new(0),
            idle: Notify::new(),
            leases: Leases::default(),
            releases: Releases::default(),
            rooms: channels.iter().map(|_| Room::default()).collect(),
            wake: Arc::new(Wake::new(channels.len())),
            beyond: Beyond::new(channels.len()),
            counts: Counts::default(),
            vitals,
            stopping: AtomicBool::new(false),
            channels,
        }
    }

    /// How many sends of a channel may be started now.
    pub(crate) fn free_slots(&self, channel: usize) -> u32 {
        self.channels[channel]
            .config
            .max_in_flight
            .saturating_sub(self.taken[channel].load(Ordering::Acquire))
    }

    /// The room of a channel for large payloads.
    pub(crate) fn room(&self, channel: usize) -> &Room {
        &self.rooms[channel]
    }

    /// How many sends run.
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Acquire)
    }

    /// Takes a slot until the value is dropped.
    pub(crate) fn take_slot(self: &Arc<Self>, channel: usize) -> Slot {
        self.taken[channel].fetch_add(1, Ordering::AcqRel);
        self.running.fetch_add(1, Ordering::AcqRel);
        Slot {
            shared: Arc::clone(self),
            channel,
        }
    }

    /// Waits until no send runs.
    pub(crate) async fn all_slots_free(&self) {
        loop {
            let idle = self.idle.notified();
            if self.running() == 0 {
                return;
            }
            idle.await;
        }
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake.poke(Reasons::NEWS);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Nobody here waits for our retries any more: makes the others ask when they are due.
    pub(crate) async fn hand_over_retries(&self) {
        if self.wake.next_retry().is_none() {
            return;
        }
        self.wake.forget_retries(Instant::now(), true, |_| true);
        if let Err(error) = self.store.ring().await {
            tracing::debug!(error = %error.chain(), "could not ring for the other reactors");
        }
    }

    /// Notes whether outcomes can be written; answers whether that is new.
    pub(crate) fn note_settling(&self, written: Result<(), &Error>) -> bool {
        let news = match written {
            Ok(()) => self.vitals.settled(),
            Err(error) => self.vitals.cannot_settle(error),
        };
        if news {
            self.wake.poke(Reasons::NEWS);
        }
        news
    }

    /// Finds out whether row-level security keeps the rows from us. It is no error that would show by itself.
    pub(crate) async fn check_visibility(&self) -> Result<(), Error> {
        let hidden = self.store.rows_hidden().await?;
        match (self.vitals.note_hidden(hidden), hidden) {
            (true, true) => tracing::warn!("row-level security keeps every row from this role: nothing will be sent"),
            (true, false) => tracing::info!("row-level security lets this role see rows again"),
            (false, _) => {}
        }
        Ok(())
    }

    /// What is to be written comes before any new claim.
    pub(crate) fn may_claim(&self) -> bool {
        self.vitals.can_settle()
    }
}

/// A place among a channel's `max_in_flight`, given back on drop.
pub(crate) struct Slot {
    shared: Arc<Shared>,
    pub(crate) channel: usize,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let taken = self.shared.taken[self.channel].fetch_sub(1, Ordering::AcqRel);
        if taken >= self.shared.channels[self.channel].config.max_in_flight {
            self.shared.wake.poke(Reasons::SLOT);
        }
        if self.shared.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shared.idle.notify_waiters();
        }
    }
}

/// What became of rows, counted since the start.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) sent: AtomicU64,
    pub(crate) retried: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) released: AtomicU64,
    /// Outcomes that were not written because the row was no longer ours.
    pub(crate) lost: AtomicU64,
}

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}
