//! What is compared.

use std::time::Duration;

/// What happens at an insert, and who listens meanwhile. As a number, its place in [`Variant::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// A table like the queue, with no trigger: what all else is measured by.
    None,
    /// The same, and a reactor works the queue by looking: what a busy reactor costs the producers where no bell is.
    Served,
    /// The same table with a plain NOTIFY trigger, and a session that listens.
    Notify,
    /// The bell, while a reactor is busy: all its slots are taken, so it neither sleeps nor uses the machine.
    Quiet,
    /// The bell, while a reactor sends and settles these very rows.
    Worked,
    /// The bell beside a session that listens, is asleep as the bell has it, and never wakes: every insert rings.
    Asleep,
    /// The bell, and nobody there.
    NoReactor,
    /// The bell, and two reactors on the same channel: what one takes, the other does not find.
    TwoReactors,
    /// The bell, a busy reactor, and an idle one on another channel.
    OtherReactor,
}

/// The delivery channel of the rows.
pub(super) const CHANNEL: &str = "bench";
/// A delivery channel that has no rows.
const OTHER_CHANNEL: &str = "other";

impl Variant {
    /// Every variant.
    pub const ALL: [Variant; 9] = [
        Variant::None,
        Variant::Served,
        Variant::Notify,
        Variant::Quiet,
        Variant::Worked,
        Variant::Asleep,
        Variant::NoReactor,
        Variant::TwoReactors,
        Variant::OtherReactor,
    ];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Variant::None => "none",
            Variant::Served => "served",
            Variant::Notify => "notify",
            Variant::Quiet => "quiet",
            Variant::Worked => "worked",
            Variant::Asleep => "asleep",
            Variant::NoReactor => "no_reactor",
            Variant::TwoReactors => "two_reactors",
            Variant::OtherReactor => "other_reactor",
        }
    }

    /// The table that gets the rows.
    pub(super) fn table(self) -> &'static str {
        match self {
            Variant::None => "silent",
            Variant::Notify => "notifying",
            _ => "notification_jobs",
        }
    }

    /// How often a reactor looks without being told. Where nothing rings, as often as it can; a busy one looks anyway.
    pub(super) fn scan_interval(self) -> Duration {
        match self {
            Variant::Served => Duration::from_millis(10),
            _ => Duration::from_secs(5),
        }
    }

    /// The delivery channel of each reactor that runs meanwhile, and what it does with its rows.
    pub(super) fn reactors(self) -> &'static [(&'static str, Work)] {
        match self {
            Variant::None | Variant::Notify | Variant::Asleep | Variant::NoReactor => &[],
            Variant::Quiet => &[(CHANNEL, Work::Never)],
            Variant::Served | Variant::Worked => &[(CHANNEL, Work::AtOnce)],
            Variant::TwoReactors => &[(CHANNEL, Work::AtOnce), (CHANNEL, Work::AtOnce)],
            Variant::OtherReactor => &[(CHANNEL, Work::AtOnce), (OTHER_CHANNEL, Work::AtOnce)],
        }
    }
}

/// What a sender does with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Sends it at once, as many at a time as come.
    AtOnce,
    /// Is never done with it, and takes no second one.
    Never,
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
}
