//! Our way beside a bare NOTIFY and beside the floor, by turns, so that a server which slows down slows all.

use super::{Latencies, Pauses, Probe};
use crate::Error;
use crate::connect::Database;

/// How many rows come one upon the other before it is the next kind's turn, if there is no pause between them.
const TURN: u32 = 100;

/// What [`compare`] has measured, each from just before an INSERT.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Until a sender is entered.
    pub row: Latencies,
    /// Until a bare NOTIFY has arrived.
    pub notify: Latencies,
    /// Until the session that a bare NOTIFY has reached has claimed a row.
    pub floor: Latencies,
}

impl Comparison {
    /// Ours over a bare NOTIFY at this quantile, to two places.
    pub fn of_notify(&self, share: f64) -> f64 {
        ratio(&self.row, &self.notify, share)
    }

    /// Ours over the floor at this quantile, to two places.
    pub fn of_floor(&self, share: f64) -> f64 {
        ratio(&self.row, &self.floor, share)
    }
}

fn ratio(ours: &Latencies, theirs: &Latencies, share: f64) -> f64 {
    let ratio = ours.quantile_us(share) as f64 / theirs.quantile_us(share).max(1) as f64;
    (ratio * 100.0).round() / 100.0
}

/// Times so many of each. Without pauses the next row comes as soon as the last one has arrived. `done` hears how many are
/// done with.
///
/// # Errors
///
/// The server's, or [`Error::is_timeout`]: something took longer than 10 s.
pub async fn compare(
    database: &Database,
    samples: u32,
    pauses: Pauses,
    done: impl Fn(u32),
) -> Result<Comparison, Error> {
    let mut lanes = [
        Lane::new(Probe::enqueue(database).await?).await?,
        Lane::new(Probe::notify(database).await?).await?,
        Lane::new(Probe::floor(database).await?).await?,
    ];
    let turn = if pauses.are_none() { TURN } else { 1 };
    let mut left = samples;
    while left > 0 {
        let rows = turn.min(left);
        for lane in &mut lanes {
            lane.time(rows, pauses).await?;
        }
        left -= rows;
        done(rows);
    }
    let [row, notify, floor] = lanes.map(|lane| lane.latencies);
    Ok(Comparison { row, notify, floor })
}

/// One of the ways.
struct Lane {
    probe: Probe,
    latencies: Latencies,
}

impl Lane {
    async fn new(mut probe: Probe) -> Result<Self, Error> {
        // The first meets cold caches.
        probe.time_one().await?;
        probe.settled().await?;
        Ok(Lane {
            probe,
            latencies: Latencies::new(),
        })
    }

    async fn time(&mut self, rows: u32, pauses: Pauses) -> Result<(), Error> {
        for _ in 0..rows {
            pauses.next().await;
            self.latencies.add(self.probe.time_one().await?);
        }
        self.probe.settled().await
    }
}
