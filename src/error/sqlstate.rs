//! What the server's error codes mean to us. Two characters are the class of a code.

/// A due row or its table is locked by somebody else.
pub(crate) const LOCK_NOT_AVAILABLE: &str = "55P03";
pub(crate) const DEADLOCK_DETECTED: &str = "40P01";
/// A write in a transaction that only reads.
pub(crate) const READ_ONLY: &str = "25006";
pub(crate) const OUT_OF_MEMORY: &str = "53200";

/// A transaction that is to write was begun on a standby.
const NOT_DURING_RECOVERY: &str = "0A000";

/// The server is away, starting, full, shutting down or a standby, or has ended the session over a time limit of the role's:
/// nobody knows what it did. Otherwise it is well, and did nothing of what was asked.
pub(super) fn is_of_the_server(code: &str) -> bool {
    [READ_ONLY, NOT_DURING_RECOVERY, "25P03", "25P04", "53300"].contains(&code) || begins(code, &["08", "57P"])
}

/// The server cannot give somebody a row, for what the row holds, or lacks the memory for it.
pub(super) fn is_over_a_row(code: &str) -> bool {
    code == OUT_OF_MEMORY || begins(code, &["22", "54"])
}

/// What is to be written is refused, by the server or by somebody's trigger, so that trying again as it is cannot help. The
/// classes that a trigger may choose for itself are among them. Others mean that something else is amiss: the session, a right, a
/// name, a conflict, a resource, an operator's doing, the system.
pub(super) fn is_over_content(code: &str) -> bool {
    const ELSEWHERE: [&str; 20] = [
        "00", "01", "02", "03", "08", "0A", "25", "26", "28", "2D", "3D", "3F", "40", "42", "53", "55", "57", "58",
        "F0", "XX",
    ];
    !begins(code, &ELSEWHERE)
}

/// Somebody else was in the way, or the server lacked room or memory, or somebody cancelled it: the same may work later.
pub(super) fn may_pass(code: &str) -> bool {
    begins(code, &["40", "53", LOCK_NOT_AVAILABLE, "57014"])
}

fn begins(code: &str, beginnings: &[&str]) -> bool {
    beginnings.iter().any(|beginning| code.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code, and the answers in the order above.
    #[test]
    fn each_code_means_what_it_says() {
        for (code, answers) in [
            ("0A000", [true, false, false, false]),  // a standby
            ("22001", [false, true, true, false]),   // a value is too long
            ("22021", [false, true, true, false]),   // bytes that are no text
            ("23514", [false, false, true, false]),  // a constraint
            ("25006", [true, false, false, false]),  // the session only reads
            ("25P04", [true, false, false, false]),  // transaction_timeout
            ("40P01", [false, false, false, true]),  // a deadlock
            ("42P01", [false, false, false, false]), // no such table
            ("42501", [false, false, false, false]), // no right
            ("45000", [false, false, true, false]),  // a trigger's own
            ("53100", [false, false, false, true]),  // the disk is full
            ("53200", [false, true, false, true]),   // out of memory
            ("53300", [true, false, false, true]),   // too many connections
            ("54000", [false, true, true, false]),   // beyond a limit of the server's
            ("55P03", [false, false, false, true]),  // locked
            ("57014", [false, false, false, true]),  // cancelled
            ("57P01", [true, false, false, false]),  // shutting down
            ("P0001", [false, false, true, false]),  // RAISE EXCEPTION
            ("UE001", [false, false, true, false]),  // a trigger's own
            ("XX001", [false, false, false, false]), // data are corrupted
        ] {
            let told = [is_of_the_server, is_over_a_row, is_over_content, may_pass].map(|means| means(code));
            assert_eq!(told, answers, "{code}");
        }
    }
}
