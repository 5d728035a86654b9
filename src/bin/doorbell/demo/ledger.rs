//! When each row was inserted, committed, sent and settled: by one clock, that of this process.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use doorbell::{Notification, Receipt, SendError, Sender};

/// One line a row. A row's number is its recipient.
pub(super) struct Ledger(Vec<Line>);

#[derive(Default)]
struct Line {
    /// Just before the INSERT.
    begun: OnceLock<Instant>,
    /// When the answer to the INSERT had come, so that it was committed.
    committed: OnceLock<Instant>,
    /// When the sender was called first.
    called: OnceLock<Instant>,
    /// When that was written down.
    settled: OnceLock<Instant>,
    calls: AtomicU32,
}

impl Ledger {
    pub(super) fn new(rows: u32) -> Self {
        Ledger((0..rows).map(|_| Line::default()).collect())
    }

    pub(super) fn rows(&self) -> usize {
        self.0.len()
    }

    pub(super) fn begin(&self, row: usize) {
        let _ = self.0[row].begun.set(Instant::now());
    }

    pub(super) fn commit(&self, row: usize) {
        let _ = self.0[row].committed.set(Instant::now());
    }

    pub(super) fn settle(&self, row: &str, at: Instant) {
        if let Some(line) = self.line(row) {
            let _ = line.settled.set(at);
        }
    }

    fn call(&self, row: &str, at: Instant) {
        if let Some(line) = self.line(row) {
            let _ = line.called.set(at);
            line.calls.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn inserted(&self) -> u64 {
        self.0.iter().filter(|line| line.committed.get().is_some()).count() as u64
    }

    /// Calls beyond each row's first.
    pub(super) fn duplicates(&self) -> u64 {
        let beyond = |line: &Line| u64::from(line.calls.load(Ordering::Relaxed).saturating_sub(1));
        self.0.iter().map(beyond).sum()
    }

    /// From just before the INSERT until it was committed, for these rows.
    pub(super) fn to_commit(&self, rows: Range<usize>) -> Vec<Duration> {
        self.since_begun(rows, |line| &line.committed)
    }

    /// From just before the INSERT until the sender was called, for these rows.
    pub(super) fn to_call(&self, rows: Range<usize>) -> Vec<Duration> {
        self.since_begun(rows, |line| &line.called)
    }

    /// From just before the INSERT until the outcome was written, for these rows.
    pub(super) fn to_settle(&self, rows: Range<usize>) -> Vec<Duration> {
        self.since_begun(rows, |line| &line.settled)
    }

    fn line(&self, row: &str) -> Option<&Line> {
        self.0.get(row.parse::<usize>().ok()?)
    }

    fn since_begun(&self, rows: Range<usize>, event: impl Fn(&Line) -> &OnceLock<Instant>) -> Vec<Duration> {
        let took = |line: &Line| Some(event(line).get()?.duration_since(*line.begun.get()?));
        self.0[rows].iter().filter_map(took).collect()
    }
}

/// Delivers by making an entry.
pub(super) struct LedgerSender(pub(super) Arc<Ledger>);

impl Sender for LedgerSender {
    async fn send(&self, notification: &Notification) -> Result<Receipt, SendError> {
        self.0.call(notification.recipient(), Instant::now());
        Ok(Receipt::none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_call_is_a_duplicate_and_does_not_count_as_the_arrival() {
        let ledger = Ledger::new(2);
        ledger.begin(0);
        ledger.commit(0);
        let first = Instant::now();
        ledger.call("0", first);
        let took = ledger.to_call(0..2);
        ledger.call("0", first + Duration::from_secs(1));
        ledger.call("not a row of ours", first);
        assert_eq!((ledger.inserted(), ledger.duplicates()), (1, 1));
        assert_eq!(ledger.to_call(0..2), took);
        assert_eq!(ledger.to_commit(1..2), []);
    }
}
