//! Tables that are not as they should be.

use doorbell::Migrator;

use super::Checkup;
use crate::support::TestDb;

/// Faults of the table, how bad each is, and what is said of it. `%` is the table.
const FAULTS: [(&str, &str, &str); 6] = [
    (
        "ALTER TABLE % DISABLE TRIGGER doorbell_on_insert",
        "bad",
        "doorbell_on_insert is disabled",
    ),
    (
        "DROP TRIGGER doorbell_on_insert ON %",
        "bad",
        "doorbell_on_insert is missing",
    ),
    (
        "DROP TRIGGER doorbell_on_update ON %",
        "warning",
        "doorbell_on_update is missing",
    ),
    (
        "ALTER TABLE % ENABLE REPLICA TRIGGER doorbell_on_update",
        "warning",
        "doorbell_on_update is disabled",
    ),
    (
        "ALTER TABLE % SET (autovacuum_enabled = false)",
        "bad",
        "autovacuum is off",
    ),
    (
        "ALTER TABLE % RESET (autovacuum_vacuum_threshold)",
        "warning",
        "lacks autovacuum_vacuum_threshold",
    ),
];

#[tokio::test]
async fn each_fault_of_the_table_is_found_and_what_is_said_mends_it() {
    let db = TestDb::empty().await;
    let schema = r#"o"d'd"#;
    Migrator::new(schema).unwrap().up(&mut db.client().await).await.unwrap();
    let triggers =
        "SELECT string_agg(pg_get_triggerdef(oid), ' ' ORDER BY tgname) FROM pg_trigger WHERE tgname ~ 'doorbell'";
    let before = db.value(triggers).await;
    for (fault, level, part) in FAULTS {
        db.psql(&fault.replace('%', "\"o\"\"d'd\".notification_jobs")).await;
        let checkup = Checkup::of(&db.url(), &["--schema", schema]).await;
        checkup.agrees_with_its_exit();
        db.psql(checkup.mend(level, part)).await;
        let checkup = Checkup::of(&db.url(), &["--schema", schema]).await;
        assert!(checkup.find(level, part).is_none(), "{fault}: {}", checkup.report);
    }
    assert_eq!(db.value(triggers).await, before);
}

#[tokio::test]
async fn tables_that_are_missing_old_or_newer_are_told_apart() {
    let db = TestDb::empty().await;
    let checkup = Checkup::of(&db.url(), &["--schema", "it's"]).await;
    checkup.agrees_with_its_exit();
    assert_eq!(
        checkup.mend("bad", "holds no doorbell tables"),
        r"doorbell migrate up --schema 'it'\''s'"
    );

    let migrator = Migrator::new("public").unwrap();
    let mut client = db.client().await;
    migrator.up(&mut client).await.unwrap();
    migrator.down(&mut client, 1).await.unwrap();
    let checkup = Checkup::of(&db.url(), &[]).await;
    assert_eq!(checkup.mend("bad", "lacks migration 2"), "doorbell migrate up");
    migrator.up(&mut client).await.unwrap();
    client
        .batch_execute("INSERT INTO doorbell_migrations (version, name) VALUES (99, 'later')")
        .await
        .unwrap();
    assert!(
        Checkup::of(&db.url(), &[])
            .await
            .find("warning", "by a newer doorbell")
            .is_some()
    );
    db.psql("UPDATE doorbell_migrations SET breaking = true WHERE version = 99")
        .await;
    let checkup = Checkup::of(&db.url(), &[]).await;
    checkup.agrees_with_its_exit();
    assert!(checkup.mend("bad", "is for newer doorbells only").contains("install"));
}

#[tokio::test]
async fn a_database_that_takes_any_bytes_for_text_is_warned_of() {
    let checkup = Checkup::of(&TestDb::of_any_bytes().await.url(), &[]).await;
    assert!(checkup.mend("warning", "SQL_ASCII").contains("--encoding UTF8"));
}
