//! Roles that may not do what they should, or begin with defaults that break things.

use doorbell::Migrator;

use super::Checkup;
use crate::support::{Role, TestDb};

#[tokio::test]
async fn a_role_learns_what_it_lacks_to_run_a_reactor() {
    let db = TestDb::empty().await;
    Migrator::new("app").unwrap().up(&mut db.client().await).await.unwrap();
    let role = Role::new(&db, "reactor").await;
    let checkup = Checkup::of(&role.url(), &["--schema", "app"]).await;
    checkup.agrees_with_its_exit();
    assert!(
        checkup
            .find("bad", "lacks SELECT, UPDATE ON app.notification_jobs")
            .is_some(),
        "{}",
        checkup.report
    );
    let bad = checkup.findings().filter(|finding| finding["check"] == "role");
    for finding in bad {
        db.psql(finding["mend"].as_str().unwrap()).await;
    }
    let checkup = Checkup::of(&role.url(), &["--schema", "app"]).await;
    assert!(
        checkup.find("ok", "has the rights of a reactor").is_some(),
        "{}",
        checkup.report
    );
    assert!(checkup.find("bad", "no reactor runs").is_some());
    db.psql(checkup.mend("info", "may not see")).await;
    assert!(
        Checkup::of(&role.url(), &["--schema", "app"])
            .await
            .find("info", "may not see")
            .is_none()
    );
}

#[tokio::test]
async fn row_level_security_that_leaves_nothing_to_send_is_bad_until_there_is_a_policy() {
    let db = TestDb::new().await;
    let role = Role::new(&db, "reactor").await;
    db.psql(&format!(
        "GRANT SELECT, UPDATE ON notification_jobs TO {0}; GRANT ALL ON notification_reactors TO {0};
         ALTER TABLE notification_jobs ENABLE ROW LEVEL SECURITY",
        role.name
    ))
    .await;
    let checkup = Checkup::of(&role.url(), &[]).await;
    checkup.agrees_with_its_exit();
    db.psql(checkup.mend("bad", "row-level security keeps every row")).await;
    let checkup = Checkup::of(&role.url(), &[]).await;
    assert!(
        checkup.find("bad", "row-level security").is_none(),
        "{}",
        checkup.report
    );
    assert!(checkup.find("info", "only the rows that policies show it").is_some());
}

#[tokio::test]
async fn a_producer_is_examined_too_where_one_is_named() {
    let db = TestDb::new().await;
    let checkup = Checkup::of(&db.url(), &["--producer", "nobody at all"]).await;
    assert!(checkup.find("bad", "there is no role nobody at all").is_some());
    let role = Role::new(&db, "producer").await;
    let examined = ["--producer", role.name.as_str()];
    db.psql(Checkup::of(&db.url(), &examined).await.mend("bad", "may not insert"))
        .await;
    assert!(
        Checkup::of(&db.url(), &examined)
            .await
            .find("ok", "may insert")
            .is_some()
    );
    db.psql("ALTER TABLE notification_jobs ENABLE ROW LEVEL SECURITY").await;
    db.psql(Checkup::of(&db.url(), &examined).await.mend("bad", "insert nothing"))
        .await;
    assert!(
        Checkup::of(&db.url(), &examined)
            .await
            .find("ok", "may insert")
            .is_some()
    );
    let insert = "INSERT INTO notification_jobs (channel, recipient, payload) VALUES ('ops', 'me', '{}')";
    role.client(&db).await.batch_execute(insert).await.unwrap();
}

#[tokio::test]
async fn defaults_that_would_break_statements_are_found_under_themselves() {
    let db = TestDb::new().await;
    let client = db.client().await;
    client
        .batch_execute("SET default_transaction_read_only = off")
        .await
        .unwrap();
    for (setting, value) in [
        ("default_transaction_read_only", "on"),
        ("default_transaction_isolation", "serializable"),
        ("statement_timeout", "4s"),
    ] {
        db.set_default(setting, value).await;
    }
    let checkup = Checkup::of(&db.url(), &[]).await;
    let mends: Vec<&str> = checkup
        .findings()
        .filter(|finding| finding["check"] == "defaults" && finding["level"] == "warning")
        .map(|finding| finding["mend"].as_str().unwrap())
        .collect();
    assert_eq!(mends.len(), 3, "{}", checkup.report);
    client.batch_execute(&mends.join("")).await.unwrap();
    let checkup = Checkup::of(&db.url(), &[]).await;
    assert!(
        checkup.findings().all(|finding| finding["check"] != "defaults"),
        "{}",
        checkup.report
    );
}
