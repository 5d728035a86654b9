//! Medians and ratios.

use serde_json::{Value, json};

use super::super::median;
use super::{InsertLoad, Variant};

/// What one cell gave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    /// Rows a second.
    pub(super) rate: f64,
    /// Notifications an insert.
    pub(super) rang_share: f64,
}

impl Cell {
    /// Of a variant that was not asked for. All that follows from it is no number either, which in JSON is null.
    pub(super) const UNMEASURED: Cell = Cell {
        rate: f64::NAN,
        rang_share: f64::NAN,
    };
}

/// What one round gave.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// By the variant's number.
    pub(super) cells: [Cell; Variant::ALL.len()],
    pub(super) bulk_trigger_ms: f64,
}

/// What one number of clients gave, as medians over the rounds. What was not measured is not a number.
#[derive(Clone, Debug)]
pub struct InsertReport {
    load: InsertLoad,
    commit_delay_us: u32,
    rounds: Vec<Round>,
}

impl InsertReport {
    pub(super) fn new(load: InsertLoad, commit_delay_us: u32, rounds: Vec<Round>) -> Self {
        InsertReport {
            load,
            commit_delay_us,
            rounds,
        }
    }

    /// Rows a second.
    pub fn rate(&self, variant: Variant) -> f64 {
        self.median(|round| round.cells[variant as usize].rate)
    }

    /// How many times as many rows as `base`: the median of the ratios within each round, since two cells that are far
    /// apart in time may have met two machines.
    pub fn ratio(&self, variant: Variant, base: Variant) -> f64 {
        self.median(|round| round.cells[variant as usize].rate / round.cells[base as usize].rate)
    }

    /// The share of inserts that rang.
    pub fn rang_share(&self, variant: Variant) -> f64 {
        self.median(|round| round.cells[variant as usize].rang_share)
    }

    /// The time that the triggers took of one INSERT of 100,000 rows, in milliseconds.
    pub fn bulk_trigger_ms(&self) -> f64 {
        self.median(|round| round.bulk_trigger_ms)
    }

    /// How many clients inserted at once.
    pub fn clients(&self) -> u32 {
        self.load.clients
    }

    /// One JSON object on one line: of each measured variant, under names that begin with its own, rows a second to whole
    /// rows, the share of inserts that rang, and the ratio to no trigger, both to three places; then the ratios of
    /// [`Variant::COMPARED`]. `rang_share` is that of [`Variant::Worked`].
    pub fn json(&self) -> String {
        let mut object = json!({
            "clients": self.load.clients,
            "seconds": self.load.window.as_secs_f64(),
            "rounds": self.load.rounds,
            "commit_delay_us": self.commit_delay_us,
            "rang_share": thousandths(self.rang_share(Variant::Worked)),
            "bulk_trigger_ms": thousandths(self.bulk_trigger_ms()),
        });
        for &variant in &self.load.variants {
            let name = variant.name();
            object[name] = json!(self.rate(variant).round() as u64);
            object[format!("{name}_ratio")] = thousandths(self.ratio(variant, Variant::None));
            object[format!("{name}_rang_share")] = thousandths(self.rang_share(variant));
        }
        for (variant, base) in Variant::COMPARED {
            let name = format!("{}_vs_{}", variant.name(), base.name());
            object[name] = thousandths(self.ratio(variant, base));
        }
        object.to_string()
    }

    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(of))
    }
}

fn thousandths(value: f64) -> Value {
    json!((value * 1000.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A report of rounds given as the rates of `none` and `quiet`.
    fn report(rounds: &[(f64, f64)]) -> InsertReport {
        let load = InsertLoad {
            clients: 8,
            window: Duration::from_secs(2),
            rounds: 3,
            variants: vec![Variant::None, Variant::Quiet],
        };
        let round = |&(none, quiet): &(f64, f64)| {
            let mut cells = [Cell::UNMEASURED; Variant::ALL.len()];
            cells[Variant::None as usize].rate = none;
            cells[Variant::Quiet as usize].rate = quiet;
            Round {
                cells,
                bulk_trigger_ms: none / 1000.0,
            }
        };
        InsertReport::new(load, 0, rounds.iter().map(round).collect())
    }

    #[test]
    fn a_ratio_is_the_median_of_the_rounds_own_and_not_that_of_the_medians() {
        let report = report(&[(1000.0, 900.0), (4000.0, 1000.0), (2000.0, 1600.0)]);
        assert_eq!(report.rate(Variant::None), 2000.0);
        assert_eq!(report.rate(Variant::Quiet), 1000.0);
        assert_eq!(report.ratio(Variant::Quiet, Variant::None), 0.8);
    }

    #[test]
    fn the_median_of_two_lies_between_them() {
        let report = report(&[(1000.0, 900.0), (2000.0, 1600.0)]);
        assert_eq!(report.rate(Variant::None), 1500.0);
        let json: Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(json["none"], 1500);
        assert_eq!(json["quiet_ratio"], 0.85);
        assert_eq!(json["bulk_trigger_ms"], 1.5);
    }

    #[test]
    fn what_was_not_measured_is_left_out_and_makes_no_ratio() {
        let report = report(&[(1000.0, 900.0)]);
        assert!(report.ratio(Variant::Quiet, Variant::Empty).is_nan());
        let json: Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(json.get("empty"), None);
        assert_eq!(json["quiet_vs_empty"], Value::Null);
    }
}
