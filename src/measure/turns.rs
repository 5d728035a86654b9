//! Who comes first in which round.

/// All of them in the order of one of so many rounds. The rounds begin at places spread evenly over all, so that a machine
/// which slows down, or a neighbour who wakes up, does not meet the same one each time.
pub fn in_turns<T: Copy>(all: &[T], round: u32, rounds: u32) -> impl Iterator<Item = T> {
    let first = round as usize * all.len() / rounds.max(1) as usize;
    let (later, sooner) = all.split_at(first.min(all.len()));
    sooner.iter().chain(later).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_has_all_of_them_and_begins_with_another() {
        let rounds: Vec<Vec<u8>> = (0..3)
            .map(|round| in_turns(&[1, 2, 3, 4], round, 3).collect())
            .collect();
        assert_eq!(rounds, [[1, 2, 3, 4], [2, 3, 4, 1], [3, 4, 1, 2]]);
    }
}
