//! How long to wait before a session of the reactor's own is made anew.

use std::time::Duration;

use backoff::ExponentialBackoff;

/// Pauses between tries to connect: from about 40 ms on, each a tenth longer than the one before, so that who is cut off is
/// away for hardly longer than the cut; up to 2 s, jitter included, and never at an end. Nobody who has been back for less
/// than 5 s takes others for dead (`rescue`), and by then everybody is to have its lock again.
pub(crate) fn pauses() -> ExponentialBackoff {
    let initial = Duration::from_millis(40);
    ExponentialBackoff {
        initial_interval: initial,
        current_interval: initial,
        randomization_factor: 0.5,
        multiplier: 1.1,
        max_interval: Duration::from_millis(1300),
        max_elapsed_time: None,
        ..ExponentialBackoff::default()
    }
}

#[cfg(test)]
mod tests {
    use backoff::backoff::Backoff;

    use super::*;

    #[test]
    fn the_next_try_is_never_far_off_measured_by_how_long_it_has_been_and_never_farther_than_two_seconds() {
        let (mut pauses, mut away) = (pauses(), Duration::ZERO);
        for _ in 0..200 {
            let pause = pauses.next_backoff().unwrap();
            assert!(
                pause <= Duration::from_millis(60) + away / 4,
                "{pause:?} after {away:?}"
            );
            assert!(pause <= Duration::from_secs(2));
            away += pause;
        }
        assert!(away > Duration::from_secs(100), "it asks too often: {away:?}");
    }
}
