//! When each row was sent, and since when it could have been.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use doorbell::{Notification, Receipt, SendError, Sender};
use tokio::sync::watch;

/// A row that was committed.
pub(super) struct Row {
    pub(super) recipient: String,
    /// When its commit was asked for, or when it was due if that was later.
    pub(super) ready: Instant,
}

/// The sends of all reactors.
#[derive(Clone)]
pub(super) struct Ledger(Arc<watch::Sender<Book>>);

struct Book {
    sends: HashMap<String, Sent>,
    channels: HashMap<&'static str, Slots>,
}

struct Sent {
    times: u32,
    /// The first time.
    at: Instant,
    /// By then its channel had had a free slot since this.
    free_since: Instant,
}

/// The slots of a channel, those of all reactors together.
struct Slots {
    all: usize,
    taken: usize,
    /// When one was free again after all had been taken.
    free_since: Instant,
}

/// How late a row was sent.
pub(super) struct Lateness {
    pub(super) late: Duration,
    /// For a while its channel had no free slot.
    pub(super) waited_for_a_slot: bool,
}

impl Ledger {
    /// For channels that have so many slots in all.
    pub(super) fn new(channels: impl IntoIterator<Item = (&'static str, usize)>) -> Self {
        let slots = |all| Slots {
            all,
            taken: 0,
            free_since: Instant::now(),
        };
        Ledger(Arc::new(watch::Sender::new(Book {
            sends: HashMap::new(),
            channels: channels.into_iter().map(|(name, all)| (name, slots(all))).collect(),
        })))
    }

    /// A sender that writes its sends down here.
    pub(super) fn sender(&self, channel: &'static str) -> Recorder {
        Recorder {
            ledger: self.clone(),
            channel,
        }
    }

    /// Waits until these rows are sent, as long as `patience` lasts; answers with the first that is not.
    pub(super) async fn all_sent(&self, rows: &[Row], patience: Duration) -> Result<(), String> {
        let mut book = self.0.subscribe();
        let all = book.wait_for(|book| rows.iter().all(|row| book.sends.contains_key(&row.recipient)));
        if tokio::time::timeout(patience, all).await.is_ok() {
            return Ok(());
        }
        let book = self.0.borrow();
        let missing = rows.iter().find(|row| !book.sends.contains_key(&row.recipient));
        missing.map_or(Ok(()), |row| Err(row.recipient.clone()))
    }

    /// How late a row was that has been sent.
    pub(super) fn lateness(&self, row: &Row) -> Lateness {
        let sent = &self.0.borrow().sends[&row.recipient];
        Lateness {
            late: sent.at.saturating_duration_since(row.ready.max(sent.free_since)),
            waited_for_a_slot: sent.free_since > row.ready,
        }
    }

    /// How many rows were sent, and how often the one was that was sent most often.
    pub(super) fn counts(&self) -> (usize, u32) {
        let book = self.0.borrow();
        let times = book.sends.values().map(|sent| sent.times);
        (book.sends.len(), times.max().unwrap_or(0))
    }
}

impl Book {
    fn begins(&mut self, channel: &str, recipient: &str) {
        let slots = self.channels.get_mut(channel).unwrap();
        slots.taken += 1;
        let (at, free_since) = (Instant::now(), slots.free_since);
        let first = || Sent {
            times: 0,
            at,
            free_since,
        };
        self.sends.entry(recipient.to_owned()).or_insert_with(first).times += 1;
    }

    fn ends(&mut self, channel: &str) {
        let slots = self.channels.get_mut(channel).unwrap();
        if slots.taken >= slots.all {
            slots.free_since = Instant::now();
        }
        slots.taken -= 1;
    }
}

/// Takes some milliseconds for each send, and now and then as long as makes everybody wait.
pub(super) struct Recorder {
    ledger: Ledger,
    channel: &'static str,
}

impl Sender for Recorder {
    async fn send(&self, notification: &Notification) -> Result<Receipt, SendError> {
        let begins = |book: &mut Book| book.begins(self.channel, notification.recipient());
        self.ledger.0.send_modify(begins);
        let moment = match notification.id().as_bytes()[15] {
            0..8 => 60,
            other => u64::from(other % 6),
        };
        tokio::time::sleep(Duration::from_millis(moment)).await;
        self.ledger.0.send_modify(|book| book.ends(self.channel));
        Ok(Receipt::none())
    }
}
