//! Percentiles of what was measured.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The longest duration that is told from longer ones: an hour.
const LONGEST_US: u64 = 3_600_000_000;

/// Durations, kept as a histogram of microseconds with three significant digits.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Latencies {
    /// No durations yet.
    #[expect(
        clippy::expect_used,
        reason = "these bounds are among those that a histogram can have"
    )]
    pub fn new() -> Self {
        Latencies(Histogram::new_with_max(LONGEST_US, 3).expect("bounds of a histogram"))
    }

    /// Adds one. More than an hour counts as an hour.
    pub fn add(&mut self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(LONGEST_US);
        self.0.saturating_record(micros);
    }

    /// How many there are.
    pub fn samples(&self) -> u64 {
        self.0.len()
    }

    /// The duration that this share of all, from 0 to 1, did not exceed, in microseconds. 0 if there are none.
    pub fn quantile_us(&self, share: f64) -> u64 {
        self.0.value_at_quantile(share)
    }

    /// The median, in microseconds.
    pub fn p50_us(&self) -> u64 {
        self.quantile_us(0.5)
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies::new()
    }
}

impl FromIterator<Duration> for Latencies {
    fn from_iter<T: IntoIterator<Item = Duration>>(durations: T) -> Self {
        let mut latencies = Latencies::new();
        durations.into_iter().for_each(|duration| latencies.add(duration));
        latencies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_durations() {
        let mut latencies = Latencies::new();
        for micros in 1..=1000 {
            latencies.add(Duration::from_micros(micros));
        }
        assert_eq!(latencies.samples(), 1000);
        assert_eq!(
            [0.5, 0.95, 0.99, 1.0].map(|share| latencies.quantile_us(share)),
            [500, 950, 990, 1000]
        );
        assert_eq!(Latencies::new().p50_us(), 0);
        latencies.add(Duration::MAX);
        assert!(latencies.quantile_us(1.0).abs_diff(LONGEST_US) <= LONGEST_US / 1000);
    }
}
