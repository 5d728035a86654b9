//! The server: its version, its connections, its clock, and what keeps vacuum from its work.

use std::time::Duration;

use doorbell::{OpenTransaction, ServerStatus};

use super::finding::{Finding, Level, judge};
use crate::status::age;
use crate::target::quoted;

/// The oldest server that will do.
const OLDEST: i32 = 140_000;
/// Beyond this, times in logs of this machine mislead.
const CLOCK_SECONDS: f64 = 1.0;
/// Transactions that are open for longer keep rows from being vacuumed that every claim has to walk over.
const LONG_TRANSACTION: Duration = Duration::from_secs(5 * 60);
const VERY_LONG_TRANSACTION: Duration = Duration::from_secs(60 * 60);
/// So many transactions have begun since the oldest that somebody may still look at.
const OLD_XMIN: f64 = 1e6;
const VERY_OLD_XMIN: f64 = 1e8;

pub(super) fn findings(server: &ServerStatus, role: &str) -> Vec<Finding> {
    let mut findings = vec![
        version(&server.version, server.version_number),
        encoding(&server.encoding),
        connections(server.connections, server.max_connections),
        clock(server.clock_offset_seconds),
    ];
    findings.extend(server.standby.then(standby));
    match &server.longest_transaction {
        Some(longest) => findings.push(longest_transaction(longest)),
        None if server.sees_others => findings.push(Finding::ok("transaction", "no other transaction is open")),
        None => {}
    }
    findings.extend(server.oldest_xmin_age.map(oldest_xmin));
    if !server.sees_others {
        findings.push(unseen(role));
    }
    findings
}

fn version(name: &str, number: i32) -> Finding {
    match number >= OLDEST {
        true => Finding::ok("server", format!("PostgreSQL {name}")),
        false => Finding::bad("server", format!("PostgreSQL {name}: doorbell needs 14 or later"))
            .mended_by("pg_upgrade to a newer server"),
    }
}

fn encoding(name: &str) -> Finding {
    if name != "SQL_ASCII" {
        return Finding::ok("encoding", name);
    }
    let what = "SQL_ASCII: the server takes any bytes for text, and a row whose bytes are no UTF-8 cannot be sent";
    Finding::warning("encoding", what)
        .mended_by("createdb --encoding UTF8 --template template0 NEW, and pg_dump --encoding of what it is, into it")
}

fn unseen(role: &str) -> Finding {
    let what = format!("{role} may not see for how long the transactions of others have been open");
    Finding::info("transaction", what).mended_by(format!("GRANT pg_read_all_stats TO {};", quoted(role)))
}

fn standby() -> Finding {
    Finding::bad(
        "server",
        "a standby, which only reads: reactors wait until it is promoted",
    )
    .mended_by("name the primary in the connection string, or all hosts with target_session_attrs=read-write")
}

fn connections(used: u64, most: u64) -> Finding {
    let level = judge(used as f64 / most.max(1) as f64, 0.8, 0.95);
    let finding = Finding::new(level, "connections", format!("{used} of {most} are in use"));
    match level {
        Level::Ok => finding,
        _ => finding.mended_by(format!(
            "ALTER SYSTEM SET max_connections = {}; (and a restart)",
            most.saturating_mul(2)
        )),
    }
}

fn clock(offset: f64) -> Finding {
    let ahead = if offset < 0.0 { "behind" } else { "ahead of" };
    let what = format!("the server's clock is {:.3} s {ahead} this machine's", offset.abs());
    match offset.abs() > CLOCK_SECONDS {
        true => Finding::warning("clock", what).mended_by("chronyc makestep, on the machine that is wrong"),
        false => Finding::ok("clock", what),
    }
}

fn longest_transaction(longest: &OpenTransaction) -> Finding {
    let level = judge(
        longest.open.as_secs_f64(),
        LONG_TRANSACTION.as_secs_f64(),
        VERY_LONG_TRANSACTION.as_secs_f64(),
    );
    let what = format!(
        "the longest has been open for {} ({}, {})",
        age(longest.open),
        longest.name,
        longest.state
    );
    let finding = Finding::new(level, "transaction", what);
    match level {
        Level::Ok => finding,
        _ => finding.mended_by(end(longest)),
    }
}

/// How to end a transaction of somebody else.
fn end(transaction: &OpenTransaction) -> String {
    match transaction.pid {
        Some(pid) => format!("SELECT pg_terminate_backend({pid});"),
        None => format!("ROLLBACK PREPARED '{}';", transaction.name.replace('\'', "''")),
    }
}

fn oldest_xmin(transactions: u64) -> Finding {
    let level = judge(transactions as f64, OLD_XMIN, VERY_OLD_XMIN);
    let what = format!("dead rows have been kept for the last {transactions} transactions");
    let finding = Finding::new(level, "xmin", what);
    match level {
        Level::Ok => finding,
        _ => finding.mended_by(
            "end the oldest of SELECT pid, age(backend_xmin) FROM pg_stat_activity, or of SELECT slot_name, age(xmin) FROM \
             pg_replication_slots;",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_before_14_is_bad() {
        assert_eq!(version("13.22", 130_022).level, Level::Bad);
        assert_eq!(version("14.0", 140_000).level, Level::Ok);
    }

    #[test]
    fn a_clock_may_be_a_second_off_either_way() {
        let levels = [-1.2, -0.9, 0.9, 1.2].map(|offset| clock(offset).level);
        assert_eq!(levels, [Level::Warning, Level::Ok, Level::Ok, Level::Warning]);
    }

    #[test]
    fn connections_run_out_before_they_are_all_used() {
        let levels = [79, 80, 95, 100].map(|used| connections(used, 100).level);
        assert_eq!(levels, [Level::Ok, Level::Warning, Level::Bad, Level::Bad]);
    }

    #[test]
    fn an_old_xmin_is_told() {
        assert_eq!(oldest_xmin(10).level, Level::Ok);
        assert_eq!(oldest_xmin(2_000_000).level, Level::Warning);
    }
}
