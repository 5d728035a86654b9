//! What a run adds up to.
//!
//! A row that arrives again has an excuse if it was on its way when a fault began or while it lasted: it was claimed at the
//! beginning, or arrived the time before from then on and no later than [`NOTICED`] after the fault had ended; and if the
//! fault hit one reactor, that one sent it, this time or the time before. A fault excuses each row once. A backend that is
//! killed and a server that restarts in order excuse nothing: the reactors live, and lose no claim.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::time::{Duration, Instant};

use doorbell::Uuid;
use serde_json::json;

use crate::faults::Fault;
use crate::provider::{Arrival, Arrivals};
use crate::schedule::Kind;

/// After its end a fault may still be felt: what was held back comes all at once.
const NOTICED: Duration = Duration::from_millis(500);
/// A row that waits for a reactor's rescue or a lease waits for longer than the fault lasted.
const REPAIRED: Duration = Duration::from_secs(5);

pub(crate) struct Verdict {
    seed: u64,
    lasts: Duration,
    faults: usize,
    committed: usize,
    received: usize,
    lost: usize,
    /// Received, and never committed.
    strangers: usize,
    unsent: i64,
    duplicates: usize,
    beyond: usize,
    /// Of rows during whose wait there was such a fault; and of those that waited in peace.
    longest_waits: BTreeMap<Option<Kind>, Duration>,
}

impl Verdict {
    /// `unsent`: rows that are not `sent` in the table.
    pub(crate) fn new(
        seed: u64,
        lasts: Duration,
        rows: &[(Uuid, Instant)],
        arrivals: &Arrivals,
        faults: &[Fault],
        unsent: i64,
    ) -> Self {
        let committed: HashSet<&Uuid> = rows.iter().map(|(id, _)| id).collect();
        let mut longest_waits = BTreeMap::new();
        for (id, committed) in rows {
            let Some(arrived) = arrivals.get(id).and_then(|arrivals| arrivals.first()) else {
                continue;
            };
            let wait = arrived.at.saturating_duration_since(*committed);
            for kind in felt(faults, *committed, arrived.at) {
                let longest = longest_waits.entry(kind).or_insert(wait);
                *longest = wait.max(*longest);
            }
        }
        Verdict {
            seed,
            lasts,
            faults: faults.len(),
            committed: rows.len(),
            received: arrivals.len(),
            lost: rows.iter().filter(|(id, _)| !arrivals.contains_key(id)).count(),
            strangers: arrivals.keys().filter(|id| !committed.contains(id)).count(),
            unsent,
            duplicates: arrivals.values().map(|arrivals| arrivals.len() - 1).sum(),
            beyond: arrivals
                .iter()
                .map(|(id, arrivals)| unexcused(id, arrivals, faults))
                .sum(),
            longest_waits,
        }
    }

    pub(crate) fn is_well(&self) -> bool {
        self.lost == 0 && self.strangers == 0 && self.unsent == 0 && self.beyond == 0
    }

    pub(crate) fn to_json(&self) -> String {
        let waits: serde_json::Map<_, _> = self
            .waits()
            .map(|(kind, wait)| (kind.to_owned(), json!(wait)))
            .collect();
        json!({
            "seed": self.seed,
            "seconds": self.lasts.as_secs(),
            "faults": self.faults,
            "committed": self.committed,
            "received": self.received,
            "lost": self.lost,
            "never_committed": self.strangers,
            "unsent": self.unsent,
            "duplicates": self.duplicates,
            "duplicates_beyond": self.beyond,
            "longest_wait_seconds": waits,
        })
        .to_string()
    }

    fn waits(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let waits = self.longest_waits.iter();
        waits.map(|(kind, wait)| (kind.map_or("no fault", Kind::as_str), wait.as_secs_f64()))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict {
            seed,
            faults,
            committed,
            received,
            lost,
            strangers,
            unsent,
            duplicates,
            beyond,
            ..
        } = self;
        let seconds = self.lasts.as_secs();
        writeln!(f, "seed {seed}: {faults} faults in {seconds} s")?;
        writeln!(
            f,
            "rows committed {committed}, received {received}, lost {lost}, never committed {strangers}, not sent {unsent}"
        )?;
        writeln!(
            f,
            "duplicates {duplicates}, of which without a fault to excuse them {beyond}"
        )?;
        write!(f, "longest wait:")?;
        for (number, (kind, wait)) in self.waits().enumerate() {
            write!(f, "{} {kind} {wait:.1} s", if number == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// The kinds of fault that there were between the two; `None` alone if there was none.
fn felt(faults: &[Fault], from: Instant, to: Instant) -> Vec<Option<Kind>> {
    let between = faults
        .iter()
        .filter(|fault| fault.began <= to && from <= fault.ended + REPAIRED);
    let kinds: Vec<_> = between.map(|fault| Some(fault.kind)).collect();
    if kinds.is_empty() { vec![None] } else { kinds }
}

/// How many of the later arrivals of one row have no excuse.
fn unexcused(id: &Uuid, arrivals: &[Arrival], faults: &[Fault]) -> usize {
    let mut unused: Vec<&Fault> = faults.iter().collect();
    let has_none = |pair: &&[Arrival]| {
        let excuse = unused.iter().position(|fault| excuses(fault, id, pair));
        excuse.map(|place| unused.remove(place)).is_none()
    };
    arrivals.windows(2).filter(has_none).count()
}

/// `pair`: an arrival, and the one before.
fn excuses(fault: &Fault, id: &Uuid, pair: &[Arrival]) -> bool {
    if matches!(fault.kind, Kind::Backend | Kind::Restart) {
        return false;
    }
    let before = pair[0].at;
    let was_on_its_way = fault.claimed.contains(id) || fault.began <= before && before <= fault.ended + NOTICED;
    was_on_its_way
        && fault
            .victim
            .is_none_or(|victim| pair.iter().any(|arrival| arrival.from == victim))
}
