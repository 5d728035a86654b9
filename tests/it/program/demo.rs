//! `doorbell demo`.

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::TestDb;
use crate::support::program::{Process, doorbell, printed};

async fn schemas(db: &TestDb) -> String {
    db.value("SELECT count(*) FROM pg_namespace WHERE nspname LIKE '%demo%'")
        .await
}

#[tokio::test]
async fn on_a_server_of_its_own_it_sends_every_row_once() {
    let text = printed(["demo", "--count", "20", "--rate", "200", "--json"]).await;
    let summary: Value = serde_json::from_str(&text).unwrap();
    for (field, expected) in [
        ("inserted", 20),
        ("sent", 20),
        ("failed", 0),
        ("lost", 0),
        ("duplicates", 0),
    ] {
        assert_eq!(summary[field], expected, "{field} in {text}");
    }
    let times = ["p50_us", "p99_us", "max_us"].map(|field| summary[field].as_u64().unwrap());
    assert!(times[0] > 0 && times.is_sorted(), "{text}");
}

#[tokio::test]
async fn on_a_given_server_it_leaves_nothing_behind() {
    let db = TestDb::empty().await;
    let args = [
        "demo",
        "--count",
        "10",
        "--rate",
        "100",
        "--schema",
        "my \"demo",
        "--database-url",
    ];
    let mut process = Process::spawn(doorbell(args).arg(db.url()));
    assert!(process.exit().await.success(), "{:?}", process.stderr());
    process.prints("10 inserted, 10 sent, 0 failed, 0 lost").await;
    process.says("sender called").await;
    assert_eq!(schemas(&db).await, "0");
}

#[tokio::test]
async fn a_schema_that_exists_is_not_played_in() {
    let db = TestDb::new().await;
    let mut process = Process::spawn(doorbell(["demo", "--schema", "public", "--database-url"]).arg(db.url()));
    assert_eq!(process.exit().await.code(), Some(1));
    process.says("exists already").await;
    assert_eq!(db.statuses().await, "");
}

#[tokio::test]
async fn interrupted_it_sums_up_and_cleans_up() {
    let db = TestDb::empty().await;
    let mut process =
        Process::spawn(doorbell(["demo", "--count", "1000000", "--json", "--database-url"]).arg(db.url()));
    process.says("listening").await;
    assert_eq!(schemas(&db).await, "1");
    process.signal(Signal::SIGINT);
    assert_eq!(process.exit().await.code(), Some(130));
    let summary: Value = serde_json::from_str(&process.stdout()[0]).unwrap();
    assert_eq!(summary["inserted"], summary["sent"]);
    assert_eq!(schemas(&db).await, "0");
}
