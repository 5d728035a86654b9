//! `doorbell bench`.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::program::{Process, doorbell, json};
use crate::support::{TestDb, eventually, expect};

const SCHEMA: &str = "my \"bench";

async fn schemas(db: &TestDb) -> String {
    db.value("SELECT count(*) FROM pg_namespace WHERE nspname LIKE '%bench%'")
        .await
}

fn bench(db: &TestDb, samples: &str) -> [String; 8] {
    let url = db.url();
    [
        "bench",
        "latency",
        "--samples",
        samples,
        "--schema",
        SCHEMA,
        "--database-url",
        &url,
    ]
    .map(str::to_owned)
}

#[tokio::test]
async fn latencies_are_measured_beside_a_bare_notify_and_nothing_is_left_behind() {
    let db = TestDb::empty().await;
    let report = json(bench(&db, "10").iter().map(String::as_str).chain(["--json"])).await;
    assert_eq!(report["samples"], 10);
    let times = |fields: [&str; 4]| fields.map(|field| report[field].as_u64().unwrap());
    for times in [
        times(["p50_us", "p95_us", "p99_us", "max_us"]),
        times(["notify_p50_us", "notify_p95_us", "notify_p99_us", "notify_max_us"]),
        times([
            "floor_claim_p50_us",
            "floor_claim_p95_us",
            "floor_claim_p99_us",
            "floor_claim_max_us",
        ]),
    ] {
        assert!(times[0] > 0 && times.is_sorted(), "{report}");
    }
    for (ratio, ours, theirs) in [
        ("ratio_p50", "p50_us", "notify_p50_us"),
        ("ratio_floor_p50", "p50_us", "floor_claim_p50_us"),
        ("ratio_floor_p99", "p99_us", "floor_claim_p99_us"),
    ] {
        let expected = report[ours].as_f64().unwrap() / report[theirs].as_f64().unwrap();
        assert!(
            (report[ratio].as_f64().unwrap() - expected).abs() < 0.01,
            "{ratio}: {report}"
        );
    }
    assert_eq!(schemas(&db).await, "0");
}

#[tokio::test]
async fn rows_may_come_one_upon_the_other() {
    let db = TestDb::empty().await;
    let args = bench(&db, "150");
    let args = args.iter().map(String::as_str).chain(["--gap", "0", "--json"]);
    assert_eq!(json(args).await["samples"], 150);
}

#[tokio::test]
async fn an_interrupted_measurement_cleans_up() {
    let db = TestDb::empty().await;
    let mut process = Process::spawn(&mut doorbell(bench(&db, "100000")));
    eventually(Duration::from_secs(20), || async {
        let inserts = db.value("SELECT sum(n_tup_ins) FROM pg_stat_user_tables WHERE relname = 'bare'");
        expect(!["", "0"].contains(&inserts.await.as_str()), "nothing is measured")
    })
    .await;
    process.signal(Signal::SIGINT);
    assert_eq!(process.exit().await.code(), Some(130), "{:?}", process.stderr());
    assert_eq!(schemas(&db).await, "0");
}

#[tokio::test]
async fn a_schema_that_exists_is_not_measured_in() {
    let db = TestDb::new().await;
    let mut process =
        Process::spawn(doorbell(["bench", "latency", "--schema", "public", "--database-url"]).arg(db.url()));
    assert_eq!(process.exit().await.code(), Some(1));
    process.says("exists already").await;
    assert_eq!(db.statuses().await, "");
}

#[tokio::test]
async fn a_gap_that_makes_no_sense_is_wrong_usage() {
    let mut process = Process::spawn(&mut doorbell(["bench", "latency", "--gap", "20ms..5ms"]));
    assert_eq!(process.exit().await.code(), Some(2));
    process.says("20ms is longer than 5ms").await;
}

#[tokio::test]
async fn a_backlog_is_emptied_beside_the_limit_of_the_server_and_nothing_is_left_behind() {
    let db = TestDb::empty().await;
    let url = db.url();
    let words = "bench drain --jobs 300 --rounds 2 --max-in-flight 100 --json --database-url";
    let report = json(words.split(' ').chain([&*url, "--schema", SCHEMA])).await;
    for (field, value) in [("jobs", 300), ("rounds", 2), ("max_in_flight", 100)] {
        assert_eq!(report[field], value, "{report}");
    }
    let number = |field: &str| report[field].as_f64().unwrap();
    assert!(number("jobs_per_s") > 0.0 && number("limit_per_s") > 0.0, "{report}");
    assert!(
        ["ratio_min", "ratio", "ratio_max"].map(number).is_sorted() && number("ratio_min") > 0.0,
        "{report}"
    );
    assert_eq!(schemas(&db).await, "0");
}
