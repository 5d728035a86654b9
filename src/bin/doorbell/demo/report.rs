//! What the audience sees: the stages and the progress on standard error, the summary for standard output.

use std::ops::Range;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::json;

use super::ledger::Ledger;
use crate::failure::Failure;
use crate::output::{counted, remark};

const PLAY_ON: &str = r#"
Play on:
  printf '[channels.ops]\nsender = "log"\n' > doorbell.toml
  doorbell run --config doorbell.toml --embedded ./doorbell-data
It prints a URL. In another terminal:
  psql URL -c "INSERT INTO notification_jobs (channel, recipient, payload) VALUES ('ops', 'me', '{\"text\": \"hello\"}')""#;

/// A part that is up, and how long that took.
pub(super) fn stage(name: &str, took: Duration, what: &str) {
    remark(format!("{name:<8} {:>10}   {what}", milliseconds(took)));
}

pub(super) fn heading(rows: usize, rate: u32) {
    remark(format!(
        "\n{} at {rate} a second; medians since the line before, from just before the INSERT until\n\n\
         {:>8}  {:>11}  {:>13}  {:>11}",
        counted(rows as u64, "row"),
        "row",
        "committed",
        "sender called",
        "settled"
    ));
}

pub(super) fn progress(ledger: &Ledger, rows: Range<usize>) {
    let median = |times: &[Duration]| match Times::new(times) {
        Ok(times) if times.0.is_empty() => "-".to_owned(),
        Ok(times) => milliseconds(times.percentile(50.0)),
        Err(_) => "?".to_owned(),
    };
    let committed = median(&ledger.to_commit(rows.clone()));
    let called = median(&ledger.to_call(rows.clone()));
    let settled = median(&ledger.to_settle(rows.clone()));
    let row = rows.end;
    remark(format!("{row:>8}  {committed:>11}  {called:>13}  {settled:>11}"));
}

/// The demo in numbers.
pub(super) struct Summary {
    inserted: u64,
    sent: u64,
    failed: u64,
    duplicates: u64,
    committed: Times,
    called: Times,
    settled: Times,
}

impl Summary {
    /// `sent` and `failed` as the table has them; the rest as the ledger has it.
    pub(super) fn new(ledger: &Ledger, sent: u64, failed: u64) -> Result<Self, Failure> {
        let all = || 0..ledger.rows();
        Ok(Summary {
            inserted: ledger.inserted(),
            sent,
            failed,
            duplicates: ledger.duplicates(),
            committed: Times::new(&ledger.to_commit(all()))?,
            called: Times::new(&ledger.to_call(all()))?,
            settled: Times::new(&ledger.to_settle(all()))?,
        })
    }

    fn lost(&self) -> u64 {
        self.inserted.saturating_sub(self.sent + self.failed)
    }

    /// Every row is to be sent, and none twice.
    pub(super) fn verdict(&self) -> Result<(), Failure> {
        match (self.lost(), self.duplicates) {
            (0, 0) => Ok(()),
            (lost, twice) => Err(Failure::new(format!("{lost} lost, {twice} sent more than once"))),
        }
    }

    pub(super) fn json(&self) -> String {
        let us = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        json!({
            "inserted": self.inserted,
            "sent": self.sent,
            "failed": self.failed,
            "lost": self.lost(),
            "duplicates": self.duplicates,
            "p50_us": us(self.called.percentile(50.0)),
            "p99_us": us(self.called.percentile(99.0)),
            "max_us": us(self.called.max()),
            "committed_p50_us": us(self.committed.percentile(50.0)),
            "settled_p50_us": us(self.settled.percentile(50.0)),
        })
        .to_string()
    }

    pub(super) fn text(&self) -> String {
        let Summary {
            inserted,
            sent,
            failed,
            duplicates,
            ..
        } = self;
        let (p50, p99) = (self.called.percentile(50.0), self.called.percentile(99.0));
        format!(
            "\n{inserted} inserted, {sent} sent, {failed} failed, {} lost, {duplicates} sent twice\n\
             from INSERT to sender: p50 {}, p99 {}, max {}\n{PLAY_ON}",
            self.lost(),
            milliseconds(p50),
            milliseconds(p99),
            milliseconds(self.called.max()),
        )
    }
}

/// How long something took, many times.
struct Times(Histogram<u64>);

impl Times {
    fn new(times: &[Duration]) -> Result<Self, Failure> {
        let cannot = |error: String| Failure::new(format!("cannot keep count of times: {error}"));
        let mut histogram = Histogram::new(3).map_err(|error| cannot(error.to_string()))?;
        for time in times {
            let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            histogram.record(nanos).map_err(|error| cannot(error.to_string()))?;
        }
        Ok(Times(histogram))
    }

    fn percentile(&self, percent: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_percentile(percent))
    }

    fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1000.0)
}
