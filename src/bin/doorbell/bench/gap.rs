//! The time between two rows, as it is written on the command line.

use std::str::FromStr;
use std::time::Duration;

use doorbell::measure::Pauses;

/// `5ms..20ms`, or one duration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Gap {
    shortest: Duration,
    longest: Duration,
}

impl Gap {
    pub(super) fn pauses(self) -> Pauses {
        Pauses::between(self.shortest, self.longest)
    }
}

impl FromStr for Gap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let duration =
            |text: &str| humantime::parse_duration(text.trim()).map_err(|error| format!("{text:?}: {error}"));
        let (shortest, longest) = text.split_once("..").unwrap_or((text, text));
        let gap = Gap {
            shortest: duration(shortest)?,
            longest: duration(longest)?,
        };
        match gap.shortest <= gap.longest {
            true => Ok(gap),
            false => Err(format!("{shortest} is longer than {longest}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_a_range_or_one_duration() {
        let ms = Duration::from_millis;
        let gap = |shortest, longest| Ok(Gap { shortest, longest });
        assert_eq!("5ms..20ms".parse(), gap(ms(5), ms(20)));
        assert_eq!("1s".parse(), gap(ms(1000), ms(1000)));
        assert!("20ms..5ms".parse::<Gap>().unwrap_err().contains("longer"));
        assert!("5..20ms".parse::<Gap>().is_err());
    }
}
