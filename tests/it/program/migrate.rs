//! `doorbell migrate`.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::TestDb;
use crate::support::program::{doorbell, json, output, printed};

fn migrate<'a>(db: &'a TestDb, args: &[&'a str]) -> Vec<String> {
    let target = ["--schema", "Näh\"e", "--database-url", &db.url()].map(str::to_owned);
    let args = ["migrate"].iter().chain(args).map(|arg| (*arg).to_owned());
    args.chain(target).collect()
}

fn pending(status: &Value) -> usize {
    let steps = status.as_array().unwrap();
    steps.iter().filter(|step| step["applied_at"].is_null()).count()
}

#[tokio::test]
async fn the_tables_come_and_go() {
    let db = TestDb::empty().await;
    let before = json(migrate(&db, &["status", "--json"])).await;
    let all = before.as_array().unwrap().len();
    assert_eq!(pending(&before), all);
    let check = output(&mut doorbell(migrate(&db, &["status", "--check"]))).await;
    assert_eq!(check.status.code(), Some(1));

    assert!(printed(migrate(&db, &["up"])).await.starts_with("applied 1 tables"));
    assert_eq!(printed(migrate(&db, &["up"])).await, "nothing to apply");
    printed(migrate(&db, &["status", "--check"])).await;
    assert_eq!(pending(&json(migrate(&db, &["status", "--json"])).await), 0);

    let undone = json(migrate(&db, &["down", "--to", "1", "--yes", "--json"])).await;
    assert_eq!(undone.as_array().unwrap().len(), all - 1);
    printed(migrate(&db, &["down", "--all", "--yes"])).await;
    assert_eq!(pending(&json(migrate(&db, &["status", "--json"])).await), all);
}

#[tokio::test]
async fn nothing_is_deleted_where_nobody_can_be_asked() {
    let db = TestDb::new().await;
    db.insert("me").await;
    let url = db.url();
    let refused = output(&mut doorbell(["migrate", "down", "--all", "--database-url", &url])).await;
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("--yes"));
    assert_eq!(db.statuses().await, "pending=1");
}

#[tokio::test]
async fn what_print_prints_needs_no_connection_and_does_the_same() {
    let db = TestDb::empty().await;
    let up = printed(["migrate", "print", "--schema", "s"]).await;
    db.psql(&format!("BEGIN; {up}; COMMIT")).await;
    let url = db.url();
    assert_eq!(
        printed(["migrate", "up", "--schema", "s", "--database-url", &url]).await,
        "nothing to apply"
    );
    let down = printed(["migrate", "print", "--down", "--schema", "s"]).await;
    db.psql(&format!("BEGIN; {down}; COMMIT")).await;
    let status = json(["migrate", "status", "--schema", "s", "--database-url", &url, "--json"]).await;
    assert_eq!(status[0]["applied_at"], json!(null));
}

#[tokio::test]
async fn ten_processes_that_migrate_an_empty_database_at_once_all_succeed() {
    let db = TestDb::empty().await;
    let mut migrators: Vec<_> = (0..10).map(|_| doorbell(migrate(&db, &["up"]))).collect();
    for ended in join_all(migrators.iter_mut().map(output)).await {
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    let history = db.psql("SELECT version FROM \"Näh\"\"e\".doorbell_migrations ORDER BY version");
    assert_eq!(history.await, "1\n2");
}

#[tokio::test]
async fn the_database_may_be_named_before_the_action_and_after_it() {
    let db = TestDb::new().await;
    let url = db.url();
    printed(["migrate", "--database-url", &url, "status", "--check"]).await;
    printed(["migrate", "status", "--check", "--database-url", &url]).await;
}
