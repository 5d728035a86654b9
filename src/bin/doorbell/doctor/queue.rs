//! What waits in the queue, and who should send it.

use std::time::Duration;

use doorbell::{BellStatus, ChannelStatus, InFlight, QueueStatus, ReactorMode, ReactorStatus};

use super::finding::{Finding, Level, judge};
use crate::output::counted;
use crate::status::age;

/// A row that has been due for longer waits for something that it should not wait for.
const LATE: Duration = Duration::from_secs(60);
const VERY_LATE: Duration = Duration::from_secs(600);
/// A transaction that has inserted silently keeps reactors awake for as long as it is open.
const LONG_INSERT: Duration = Duration::from_secs(5);

const START: &str = "doorbell run --config doorbell.toml";

pub(super) fn findings(status: &QueueStatus) -> Vec<Finding> {
    let mut findings = vec![someone_runs(&status.reactors)];
    findings.extend(status.reactors.iter().filter_map(hears));
    findings.extend(held_by_lost(status));
    findings.extend(status.channels.iter().filter_map(waiting));
    findings.extend(failed(&status.channels));
    findings.extend(bell(&status.bell, status));
    findings
}

fn someone_runs(reactors: &[ReactorStatus]) -> Finding {
    let running = reactors.iter().filter(|reactor| !reactor.is_lost()).count();
    match running {
        0 => Finding::bad("reactors", "no reactor runs: nothing is sent").mended_by(START),
        running => Finding::ok("reactors", format!("{} live", counted(running as u64, "reactor"))),
    }
}

/// One that lives and does not hear.
fn hears(reactor: &ReactorStatus) -> Option<Finding> {
    if reactor.is_lost() {
        return None;
    }
    let (id, host) = (reactor.id, &reactor.host);
    let (what, mend) = match reactor.mode {
        ReactorMode::Polling => (
            "does not hear the bell: rows wait for its next scan",
            format!("its log says why: journalctl on {host}, or where it goes"),
        ),
        ReactorMode::Unknown => (
            "shows no lock: through a pooler it cannot listen, and if it dies its rows wait for their lease",
            "export DOORBELL_LISTEN_URL=postgres://… (the server's own address) where it runs".to_owned(),
        ),
        _ => return None,
    };
    Some(Finding::warning("reactors", format!("{id} on {host} {what}")).mended_by(mend))
}

fn held_by_lost(status: &QueueStatus) -> Option<Finding> {
    let held = status.claimed_by_lost();
    let lost = status.reactors.iter().filter(|reactor| reactor.is_lost()).count();
    let what = format!(
        "{} held by {} gone; another reactor sends them, or they are due at the end of their lease",
        counted(held, "notification"),
        match lost {
            1 => "a reactor that is".to_owned(),
            lost => format!("{lost} reactors that are"),
        }
    );
    (held > 0).then(|| Finding::warning("reactors", what).mended_by(START))
}

/// What has been due for too long on a channel, or is due where nobody serves it.
fn waiting(channel: &ChannelStatus) -> Option<Finding> {
    let oldest = channel.oldest_due?;
    let level = judge(oldest.as_secs_f64(), LATE.as_secs_f64(), VERY_LATE.as_secs_f64());
    let (name, due) = (&channel.channel, channel.due);
    let what = format!(
        "{name:?}: {} due, the oldest for {}",
        counted(due, "notification"),
        age(oldest)
    );
    if !channel.served {
        let start = format!("{START}, with [channels.{name:?}] in it");
        let level = level.max(Level::Warning);
        return Some(Finding::new(level, "channel", format!("{what}; no reactor serves it")).mended_by(start));
    }
    let more = format!("max_in_flight of [channels.{name:?}], or one more reactor: {START}");
    (level > Level::Ok).then(|| Finding::new(level, "channel", what).mended_by(more))
}

fn failed(channels: &[ChannelStatus]) -> Option<Finding> {
    let failed: u64 = channels.iter().map(|channel| channel.failed).sum();
    let what = format!(
        "{} failed; `doorbell list --status failed` says why",
        counted(failed, "notification")
    );
    (failed > 0).then(|| Finding::info("failed", what).mended_by("doorbell retry --all-failed"))
}

fn bell(bell: &BellStatus, status: &QueueStatus) -> Vec<Finding> {
    let mut findings = vec![notify_queue(bell.queue_usage, oldest_session(status))];
    findings.extend(bell.in_flight.iter().filter_map(keeps_awake));
    findings
}

/// The session that has been in a transaction for longest: if it listens, the queue cannot be emptied before it ends.
fn oldest_session(status: &QueueStatus) -> Option<i32> {
    status.server.longest_transaction.as_ref()?.pid
}

fn notify_queue(usage: f64, oldest: Option<i32>) -> Finding {
    let level = judge(usage, 0.1, 0.5);
    let what = format!("the server's notification queue is {:.0} % full", usage * 100.0);
    match (level, oldest) {
        (Level::Ok, _) => Finding::ok("notify queue", what),
        (level, Some(pid)) => {
            Finding::new(level, "notify queue", what).mended_by(format!("SELECT pg_terminate_backend({pid});"))
        }
        (level, None) => Finding::new(level, "notify queue", what)
            .mended_by("end the session that listens and stays in a transaction: it is the oldest in pg_stat_activity"),
    }
}

fn keeps_awake(holder: &InFlight) -> Option<Finding> {
    let open = holder.open?;
    let (pid, application) = (holder.pid, &holder.application);
    let what = format!(
        "pid {pid} ({application}) inserted in a transaction that has been open for {}; reactors stay awake for it",
        age(open)
    );
    (open > LONG_INSERT)
        .then(|| Finding::warning("transaction", what).mended_by(format!("SELECT pg_terminate_backend({pid});")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_queue_that_fills_up_is_told_before_it_is_full() {
        let levels = [0.09, 0.1, 0.5].map(|usage| notify_queue(usage, None).level);
        assert_eq!(levels, [Level::Ok, Level::Warning, Level::Bad]);
        let line = notify_queue(0.6, Some(42)).line();
        assert!(
            line.contains("60 % full") && line.contains("pg_terminate_backend(42)"),
            "{line}"
        );
    }
}
