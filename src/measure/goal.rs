//! A figure beside what it should be.

use std::fmt;

/// A ratio and its goal. Shown as a row of the table in `benches/RESULTS.md`.
#[derive(Clone, Debug)]
pub struct Goal {
    what: String,
    figure: f64,
    bound: f64,
    at_most: bool,
}

impl Goal {
    /// The figure should not exceed this.
    pub fn at_most(what: impl Into<String>, figure: f64, bound: f64) -> Self {
        Goal {
            what: what.into(),
            figure,
            bound,
            at_most: true,
        }
    }

    /// The figure should reach this.
    pub fn at_least(what: impl Into<String>, figure: f64, bound: f64) -> Self {
        Goal {
            at_most: false,
            ..Goal::at_most(what, figure, bound)
        }
    }

    /// Whether there is a figure: a ratio to what was left out is not a number.
    pub fn is_measured(&self) -> bool {
        !self.figure.is_nan()
    }

    /// Whether it is as it should be.
    pub fn is_met(&self) -> bool {
        match self.at_most {
            true => self.figure <= self.bound,
            false => self.figure >= self.bound,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Goal {
            what, figure, bound, ..
        } = self;
        let relation = if self.at_most { '≤' } else { '≥' };
        let verdict = if self.is_met() { "met" } else { "missed" };
        write!(f, "| {what} | {figure:.2} | {relation} {bound} | {verdict} |")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_or_missed() {
        let latency = Goal::at_most("latency", 1.1, 1.15);
        assert_eq!(latency.to_string(), "| latency | 1.10 | ≤ 1.15 | met |");
        assert!(!Goal::at_most("latency", 1.2, 1.15).is_met());
        let rate = Goal::at_least("rate", 0.79, 0.8);
        assert_eq!(rate.to_string(), "| rate | 0.79 | ≥ 0.8 | missed |");
        assert!(Goal::at_least("rate", 0.8, 0.8).is_met());
    }

    #[test]
    fn a_goal_without_a_figure_is_not_met() {
        let goal = Goal::at_least("rate", f64::NAN, 0.8);
        assert!(!goal.is_measured() && !goal.is_met());
        assert!(Goal::at_least("rate", 0.8, 0.8).is_measured());
    }
}
