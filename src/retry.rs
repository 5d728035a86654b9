//! How long to wait before the next try: arithmetic, nothing else.

use std::time::Duration;

/// No delay is longer than this, whatever the arithmetic says.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// How long to wait after a failed attempt.
///
/// The default is linear with a step of 200 ms: 200 ms after the first attempt, 400 ms after the second, and so on.
///
/// ```
/// use std::time::Duration;
/// use doorbell::RetryPolicy;
///
/// let linear = RetryPolicy::linear(Duration::from_millis(200));
/// assert_eq!(linear.delay(3, 0.0), Duration::from_millis(600));
///
/// let exponential = RetryPolicy::exponential(Duration::from_secs(1), Duration::from_secs(900)).jitter(0.1);
/// assert_eq!(exponential.delay(4, 0.0), Duration::from_secs(8));
/// assert_eq!(exponential.delay(4, 1.0), Duration::from_millis(8_800)); // jitter only adds
/// assert_eq!(exponential.delay(40, 0.0), Duration::from_secs(900));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    curve: Curve,
    jitter: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Curve {
    Linear { step: Duration },
    Exponential { initial: Duration, max: Duration },
}

impl RetryPolicy {
    /// After attempt *n*, wait *n* × `step`.
    pub fn linear(step: Duration) -> Self {
        RetryPolicy {
            curve: Curve::Linear { step },
            jitter: 0.0,
        }
    }

    /// After attempt *n*, wait `initial` × 2^(*n* − 1), at most `max`.
    pub fn exponential(initial: Duration, max: Duration) -> Self {
        RetryPolicy {
            curve: Curve::Exponential { initial, max },
            jitter: 0.0,
        }
    }

    /// Adds up to this share of the delay, at random, so that rows that failed together do not return together. From 0
    /// to 1; default 0. Jitter is added after the cap and after a sender's own `retry_after`, and never shortens.
    #[must_use]
    pub fn jitter(mut self, share: f64) -> Self {
        self.jitter = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self
    }

    /// The delay after attempt `attempt` (from 1), for a `random` number between 0 and 1.
    pub fn delay(&self, attempt: u32, random: f64) -> Duration {
        let delay = match self.curve {
            Curve::Linear { step } => step.saturating_mul(attempt),
            Curve::Exponential { initial, max } => {
                let doublings = attempt.saturating_sub(1).min(31);
                initial.saturating_mul(1 << doublings).min(max)
            }
        };
        self.spread(delay, random)
    }

    /// A delay that somebody else chose, with this policy's jitter on top.
    pub(crate) fn spread(&self, delay: Duration, random: f64) -> Duration {
        let delay = delay.min(LONGEST);
        delay
            .saturating_add(delay.mul_f64(self.jitter * random.clamp(0.0, 1.0)))
            .min(LONGEST)
    }

    /// What is wrong with this policy, in the words of the configuration.
    pub(crate) fn flaw(&self) -> Option<String> {
        match self.curve {
            Curve::Linear { step } if step.is_zero() => Some("retry.linear must be longer than 0".to_owned()),
            Curve::Exponential { initial, .. } if initial.is_zero() => {
                Some("retry.exponential.initial must be longer than 0".to_owned())
            }
            Curve::Exponential { initial, max } if max < initial => Some(format!(
                "retry.exponential.max ({max:?}) is shorter than retry.exponential.initial ({initial:?})"
            )),
            _ => None,
        }
    }
}

/// A random number from 0 up to 1, to spread delays with.
pub(crate) fn random() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    // The standard library seeds each RandomState anew; the top 53 bits make an even double.
    (RandomState::new().hash_one(0u8) >> 11) as f64 / (1u64 << 53) as f64
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy::linear(Duration::from_millis(200))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn policies() -> impl Strategy<Value = RetryPolicy> {
        let duration = || (0u64..u64::MAX).prop_map(Duration::from_micros);
        prop_oneof![
            (duration(), any::<f64>()).prop_map(|(step, jitter)| RetryPolicy::linear(step).jitter(jitter)),
            (duration(), duration(), any::<f64>())
                .prop_map(|(initial, max, jitter)| RetryPolicy::exponential(initial, max).jitter(jitter)),
        ]
    }

    proptest! {
        #[test]
        fn any_attempt_has_a_delay_and_jitter_only_adds(policy in policies(), attempt: u32, random: f64) {
            let without = policy.delay(attempt, 0.0);
            let with = policy.delay(attempt, if random.is_nan() { 0.5 } else { random });
            prop_assert!(without <= with && with <= LONGEST);
        }

        #[test]
        fn delays_never_shrink_as_attempts_grow(policy in policies(), attempt in 0u32..u32::MAX) {
            prop_assert!(policy.delay(attempt, 0.0) <= policy.delay(attempt + 1, 0.0));
        }
    }

    #[test]
    fn linear_is_a_step_an_attempt() {
        let delays: Vec<u128> = (1..=4)
            .map(|n| RetryPolicy::default().delay(n, 0.9).as_millis())
            .collect();
        assert_eq!(delays, [200, 400, 600, 800]);
    }

    #[test]
    fn exponential_doubles_up_to_its_cap() {
        let policy = RetryPolicy::exponential(Duration::from_secs(1), Duration::from_secs(10));
        let delays: Vec<u64> = [1, 2, 3, 4, 5, 63, 64, u32::MAX]
            .map(|n| policy.delay(n, 0.0).as_secs())
            .to_vec();
        assert_eq!(delays, [1, 2, 4, 8, 10, 10, 10, 10]);
    }
}
