//! `doorbell bench enqueue`: the shape of what it prints, never a speed.

use serde_json::Value;

use crate::support::program::{Process, doorbell, printed};
use crate::support::{Role, TestDb};

const RATES: [&str; 11] = [
    "none",
    "empty",
    "quiet",
    "notify",
    "asleep",
    "no_reactor",
    "served",
    "worked",
    "other_reactor",
    "two_served",
    "two_reactors",
];

const COMPARED: [(&str, &str); 5] = [
    ("quiet", "empty"),
    ("quiet", "notify"),
    ("worked", "served"),
    ("other_reactor", "worked"),
    ("two_reactors", "two_served"),
];

/// As short as it can be.
async fn measure(db: &TestDb, clients: &str, more: &[&str]) -> Vec<Value> {
    let url = db.url();
    let args = ["bench", "enqueue", "--seconds", "0.1", "--rounds", "1", "--json"];
    let args = args.into_iter().chain(["--clients", clients, "--database-url", &url]);
    let lines = printed(args.chain(more.iter().copied())).await;
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn number(report: &Value, field: &str) -> f64 {
    report[field]
        .as_f64()
        .unwrap_or_else(|| panic!("no {field} in {report}"))
}

/// One round's ratio is that of its rates, which are printed as whole numbers, it to three places.
fn assert_ratio(report: &Value, ratio: &str, variant: &str, base: &str) {
    let [variant, base, ratio] = [variant, base, ratio].map(|field| number(report, field));
    let (least, most) = ((variant - 0.5) / (base + 0.5), (variant + 0.5) / (base - 0.5));
    assert!((least - 0.001..=most + 0.001).contains(&ratio), "{report}");
}

#[tokio::test]
async fn each_number_of_clients_gives_a_line_with_every_variant_and_nothing_is_left_behind() {
    let db = TestDb::empty().await;
    let reports = measure(&db, "1,3", &[]).await;
    assert_eq!(reports.len(), 2);
    for (report, clients) in reports.iter().zip([1, 3]) {
        assert_eq!(report["clients"], clients);
        assert_eq!(report["commit_delay_us"], 0);
        assert!(RATES.iter().all(|rate| number(report, rate) > 0.0), "{report}");
        assert_ratio(report, "quiet_ratio", "quiet", "none");
        for (variant, base) in COMPARED {
            assert_ratio(report, &format!("{variant}_vs_{base}"), variant, base);
        }
        assert!(number(report, "bulk_trigger_ms") >= 0.0, "{report}");
    }
    let schemas = db.value("SELECT count(*) FROM pg_namespace WHERE nspname LIKE '%bench%'");
    assert_eq!(schemas.await, "0");
}

#[tokio::test]
async fn an_insert_rings_whenever_somebody_is_asleep_and_not_when_nobody_is_there() {
    let db = TestDb::empty().await;
    let report = &measure(&db, "1", &[]).await[0];
    assert_eq!(number(report, "asleep_rang_share"), 1.0, "{report}");
    assert_eq!(number(report, "notify_rang_share"), 1.0, "{report}");
    assert_eq!(number(report, "no_reactor_rang_share"), 0.0, "{report}");
    for silent in ["none", "empty", "served", "two_served"] {
        assert_eq!(number(report, &format!("{silent}_rang_share")), 0.0, "{report}");
    }
    assert!(number(report, "quiet_rang_share") < 0.5, "{report}");
    for variant in ["two_reactors", "other_reactor"] {
        assert!((0.0..=1.0).contains(&number(report, &format!("{variant}_rang_share"))));
    }
}

#[tokio::test]
async fn a_slow_commit_is_one_that_the_server_delays() {
    let db = TestDb::empty().await;
    let report = &measure(&db, "1", &["--slow-commit"]).await[0];
    // What the session says. The servers of tests never wait for the disk, and then not for this either.
    assert_eq!(report["commit_delay_us"], 1000);
}

#[tokio::test]
async fn a_role_that_may_not_slow_commits_down_is_told_so() {
    let db = TestDb::empty().await;
    let role = Role::new(&db, "bencher").await;
    let mut process = Process::spawn(doorbell(["bench", "enqueue", "--slow-commit", "--database-url"]).arg(role.url()));
    assert_eq!(process.exit().await.code(), Some(1));
    process.says("slow commits (commit_delay) take a superuser").await;
}

#[tokio::test]
async fn numbers_that_make_no_sense_are_wrong_usage() {
    for (option, value) in [("--clients", "8,0"), ("--seconds", "0"), ("--rounds", "0")] {
        let mut process = Process::spawn(&mut doorbell(["bench", "enqueue", option, value]));
        assert_eq!(process.exit().await.code(), Some(2), "{option} {value}");
        process.says(option).await;
    }
}
