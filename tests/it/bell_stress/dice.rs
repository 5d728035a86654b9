//! What happens by chance.

use std::time::Duration;

/// Random enough, and repeatable (xorshift).
pub(super) struct Dice(u64);

impl Dice {
    /// The `number`-th dice of a run.
    pub(super) fn new(seed: u64, number: u64) -> Self {
        Dice(mixed(seed ^ mixed(number + 1)) | 1)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    pub(super) fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    pub(super) fn one_of<T: Copy, const N: usize>(&mut self, choices: [T; N]) -> T {
        choices[self.below(N as u64) as usize]
    }

    pub(super) async fn pause(&mut self, up_to_ms: u64) {
        tokio::time::sleep(Duration::from_micros(self.below(up_to_ms * 1000 + 1))).await;
    }
}

/// Tells neighbours apart (splitmix64).
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
