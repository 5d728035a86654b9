//! What is compared.

use std::str::FromStr;
use std::time::Duration;

use crate::measure::senders::Work;

/// What happens at an insert, and who listens meanwhile. As a number, its place in [`Variant::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// A table like the queue, with no trigger: what all else is measured by.
    None,
    /// The same table with a PL/pgSQL trigger that does nothing: the least that any trigger costs.
    Empty,
    /// The bell, while a reactor is busy: all its slots are taken, so it neither sleeps nor uses the machine.
    Quiet,
    /// The same table with a plain NOTIFY trigger, and a session that listens.
    Notify,
    /// The bell beside a session that listens, is asleep as the bell has it, and never wakes: every insert rings.
    Asleep,
    /// The bell, and nobody there.
    NoReactor,
    /// No trigger, and a reactor works the queue by looking: what a busy reactor costs the producers where no bell is.
    Served,
    /// The bell, while a reactor sends and settles these very rows.
    Worked,
    /// The bell, a busy reactor, and an idle one on another channel.
    OtherReactor,
    /// No trigger, and two reactors work the queue by looking.
    TwoServed,
    /// The bell, and two reactors on the same channel: what one takes, the other does not find.
    TwoReactors,
}

/// The delivery channel of the rows.
pub(super) const CHANNEL: &str = "bench";
/// A delivery channel that has no rows.
const OTHER_CHANNEL: &str = "other";

impl Variant {
    /// Every variant. Those that are compared stand beside each other, so that they meet the same machine.
    pub const ALL: [Variant; 11] = [
        Variant::None,
        Variant::Empty,
        Variant::Quiet,
        Variant::Notify,
        Variant::Asleep,
        Variant::NoReactor,
        Variant::Served,
        Variant::Worked,
        Variant::OtherReactor,
        Variant::TwoServed,
        Variant::TwoReactors,
    ];

    /// What is told by a ratio other than that to no trigger: the trigger's own work, what it saves, and what the bell
    /// costs beside reactors that take their part of the machine anyway.
    pub const COMPARED: [(Variant, Variant); 5] = [
        (Variant::Quiet, Variant::Empty),
        (Variant::Quiet, Variant::Notify),
        (Variant::Worked, Variant::Served),
        (Variant::OtherReactor, Variant::Worked),
        (Variant::TwoReactors, Variant::TwoServed),
    ];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Variant::None => "none",
            Variant::Empty => "empty",
            Variant::Quiet => "quiet",
            Variant::Notify => "notify",
            Variant::Asleep => "asleep",
            Variant::NoReactor => "no_reactor",
            Variant::Served => "served",
            Variant::Worked => "worked",
            Variant::OtherReactor => "other_reactor",
            Variant::TwoServed => "two_served",
            Variant::TwoReactors => "two_reactors",
        }
    }

    /// The table that gets the rows.
    pub(super) fn table(self) -> &'static str {
        match self {
            Variant::None => "silent",
            Variant::Empty => "triggered",
            Variant::Notify => "notifying",
            _ => "notification_jobs",
        }
    }

    /// Whether the bell hangs at the queue.
    pub(super) fn has_bell(self) -> bool {
        !matches!(self, Variant::Served | Variant::TwoServed)
    }

    /// How often a reactor looks without being told. Where nothing rings, as often as it can; a busy one looks anyway.
    pub(super) fn scan_interval(self) -> Duration {
        match self.has_bell() {
            true => Duration::from_secs(5),
            false => Duration::from_millis(10),
        }
    }

    /// The delivery channel of each reactor that runs meanwhile, and what it does with its rows.
    pub(super) fn reactors(self) -> &'static [(&'static str, Work)] {
        match self {
            Variant::None | Variant::Empty | Variant::Notify | Variant::Asleep | Variant::NoReactor => &[],
            Variant::Quiet => &[(CHANNEL, Work::Never)],
            Variant::Served | Variant::Worked => &[(CHANNEL, Work::AtOnce)],
            Variant::TwoServed | Variant::TwoReactors => &[(CHANNEL, Work::AtOnce), (CHANNEL, Work::AtOnce)],
            Variant::OtherReactor => &[(CHANNEL, Work::AtOnce), (OTHER_CHANNEL, Work::AtOnce)],
        }
    }
}

impl FromStr for Variant {
    type Err = String;

    /// By its name.
    fn from_str(name: &str) -> Result<Self, String> {
        let named = Variant::ALL.into_iter().find(|variant| variant.name() == name);
        named.ok_or_else(|| format!("not one of {}", Variant::ALL.map(Variant::name).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_stands_at_its_number() {
        for (place, variant) in Variant::ALL.into_iter().enumerate() {
            assert_eq!(variant as usize, place, "{variant:?}");
        }
    }

    #[test]
    fn a_variant_is_found_by_its_name() {
        for variant in Variant::ALL {
            assert_eq!(variant.name().parse(), Ok(variant));
        }
        assert!("loud".parse::<Variant>().unwrap_err().contains("none, empty"));
    }
}
