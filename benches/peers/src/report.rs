//! The rounds made one, as a table or as JSON.

use serde_json::{Map, Value, json};

use crate::plan::Measure;
use crate::queue::Contender;

/// One number of a measurement. The first of a measurement is what its ratio is made of.
#[derive(Clone, Copy)]
pub(crate) struct Figure {
    name: &'static str,
    value: u64,
    merge: fn(&mut [u64]) -> u64,
}

impl Figure {
    /// Of several rounds, the median counts.
    pub(crate) fn median(name: &'static str, value: u64) -> Self {
        Figure {
            name,
            value,
            merge: median,
        }
    }

    /// Of several rounds, the highest counts.
    pub(crate) fn worst(name: &'static str, value: u64) -> Self {
        let merge = |values: &mut [u64]| values.iter().copied().max().unwrap_or(0);
        Figure { name, value, merge }
    }

    /// All rounds count.
    pub(crate) fn sum(name: &'static str, value: u64) -> Self {
        let merge = |values: &mut [u64]| values.iter().sum();
        Figure { name, value, merge }
    }
}

/// What was measured, round after round.
#[derive(Default)]
pub(crate) struct Report(Vec<(Measure, Contender, Vec<Figure>)>);

impl Report {
    pub(crate) fn add(&mut self, measure: Measure, contender: Contender, figures: Vec<Figure>) {
        self.0.push((measure, contender, figures));
    }

    /// A line each.
    pub(crate) fn print_json(&self) {
        for measure in Measure::ALL {
            for contender in Contender::ALL {
                let mut line = Map::new();
                line.insert("measure".to_owned(), json!(measure.name()));
                line.insert("queue".to_owned(), json!(contender.name()));
                line.insert("version".to_owned(), json!(version(contender)));
                for Figure { name, value, .. } in self.merged(measure, contender) {
                    line.insert(name.to_owned(), json!(value));
                }
                line.insert("ratio".to_owned(), json!(self.ratio(measure, contender)));
                println!("{}", Value::Object(line));
            }
        }
    }

    /// For people.
    pub(crate) fn print_table(&self) {
        for measure in Measure::ALL {
            let headings = self.merged(measure, Contender::Doorbell);
            let headings: String = headings.iter().map(|figure| format!("{:>11}", figure.name)).collect();
            println!("{:<24}{headings}{:>8}", measure.name().to_uppercase(), "ratio");
            for contender in Contender::ALL {
                let figures = self.merged(measure, contender);
                let figures: String = figures.iter().map(|figure| format!("{:>11}", figure.value)).collect();
                let who = format!("{} {}", contender.name(), version(contender));
                println!("{who:<24}{figures}{:>8.2}", self.ratio(measure, contender));
            }
            println!();
        }
    }

    /// The rounds of one measurement made one.
    fn merged(&self, measure: Measure, contender: Contender) -> Vec<Figure> {
        let rounds = self.0.iter().filter(|round| (round.0, round.1) == (measure, contender));
        let rounds: Vec<_> = rounds.map(|(_, _, figures)| figures).collect();
        let merge = |(at, figure): (usize, &Figure)| {
            let mut values: Vec<_> = rounds.iter().map(|figures| figures[at].value).collect();
            let value = (figure.merge)(&mut values);
            Figure { value, ..*figure }
        };
        rounds
            .first()
            .map_or_else(Vec::new, |first| first.iter().enumerate().map(merge).collect())
    }

    /// To Doorbell's, to two places.
    fn ratio(&self, measure: Measure, contender: Contender) -> f64 {
        let first = |contender| self.merged(measure, contender).first().map_or(0, |figure| figure.value);
        let ratio = first(contender) as f64 / first(Contender::Doorbell).max(1) as f64;
        (ratio * 100.0).round() / 100.0
    }
}

fn median(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// The version that is built in.
fn version(contender: Contender) -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let package = format!("name = \"{}\"\nversion = \"", contender.name());
    let version = lock.split_once(&package).and_then(|(_, rest)| rest.split_once('"'));
    version.map_or("?", |(version, _)| version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_become_one_and_are_compared_with_doorbell() {
        let mut report = Report::default();
        for (ours, theirs, late) in [(30, 900, 1), (10, 45, 0), (20, 50, 2)] {
            let figures = |p50, late| {
                vec![
                    Figure::median("p50_us", p50),
                    Figure::worst("max_us", p50),
                    Figure::sum("late", late),
                ]
            };
            report.add(Measure::Spaced, Contender::Doorbell, figures(ours, 0));
            report.add(Measure::Spaced, Contender::Apalis, figures(theirs, late));
        }
        let merged = report.merged(Measure::Spaced, Contender::Apalis);
        assert_eq!(
            merged.iter().map(|figure| figure.value).collect::<Vec<_>>(),
            [50, 900, 3]
        );
        assert_eq!(report.ratio(Measure::Spaced, Contender::Apalis), 2.5);
        assert_eq!(report.ratio(Measure::Spaced, Contender::Doorbell), 1.0);
    }

    #[test]
    fn each_contender_has_a_version() {
        for contender in Contender::ALL {
            assert!(version(contender).contains('.'), "{}", contender.name());
        }
    }
}
