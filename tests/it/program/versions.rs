//! Programs of different versions on one database: what a newer one has changed, and what only it knows.

use std::fs;

use doorbell::Migrator;

use super::Home;
use crate::support::TestDb;
use crate::support::program::{Process, doorbell, json, output};

/// A later version of the tables, as ours know it: a line in the history, perhaps with more columns.
async fn migrate_by_newer(db: &TestDb, breaking: bool) {
    db.psql(&format!(
        "ALTER TABLE notification_jobs ADD COLUMN IF NOT EXISTS priority int NOT NULL DEFAULT 0;
         INSERT INTO doorbell_migrations (version, name, breaking) VALUES (7000, 'priorities', {breaking})
         ON CONFLICT (version) DO UPDATE SET breaking = excluded.breaking"
    ))
    .await;
}

async fn insert(db: &TestDb, channel: &str) {
    db.psql(&format!(
        "INSERT INTO notification_jobs (channel, recipient) VALUES ('{channel}', 'me')"
    ))
    .await;
}

fn is_too_new(complaint: &str) {
    for part in ["newer doorbell", "migration 7000, priorities", "update doorbell"] {
        assert!(complaint.contains(part), "{complaint}");
    }
}

#[tokio::test]
async fn newer_tables_that_break_nothing_are_served() {
    let db = TestDb::new().await;
    let home = Home::new(&db, "[channels.ops]\nsender = 'log'");
    let process = Process::run(&home.config(), &[]).await;
    insert(&db, "ops").await;
    db.becomes("sent=1").await;
    migrate_by_newer(&db, false).await;
    let _second = Process::run(&home.config(), &["--migrate"]).await;
    insert(&db, "ops").await;
    db.becomes("sent=2").await;
    drop(process);
    insert(&db, "ops").await;
    db.becomes("sent=3").await;
    assert_eq!(db.value("SELECT max(attempts) FROM notification_jobs").await, "1");
}

#[tokio::test]
async fn a_history_without_the_mark_is_read() {
    let db = TestDb::new().await;
    db.psql("ALTER TABLE doorbell_migrations DROP COLUMN breaking").await;
    let home = Home::new(&db, "[channels.ops]\nsender = 'log'");
    let _process = Process::run(&home.config(), &["--migrate"]).await;
    insert(&db, "ops").await;
    db.becomes("sent=1").await;

    let (migrator, mut client) = (Migrator::new("public").unwrap(), db.client().await);
    migrator.down(&mut client, 1).await.unwrap();
    migrator.up(&mut client).await.unwrap();
    assert_eq!(
        db.value("SELECT bool_or(breaking) FROM doorbell_migrations").await,
        "false"
    );
}

#[tokio::test]
async fn tables_that_are_too_new_are_refused_and_the_complaint_says_what_to_do() {
    let db = TestDb::new().await;
    migrate_by_newer(&db, true).await;
    let home = Home::new(&db, "[channels.ops]\nsender = 'log'");
    insert(&db, "ops").await;
    let (config, url) = (home.config(), db.url());
    let config = config.to_str().unwrap();
    for args in [
        &["run", "--config", config][..],
        &["run", "--config", config, "--migrate"],
        &["status", "--database-url", &url],
    ] {
        let refused = output(&mut doorbell(args)).await;
        assert_eq!(refused.status.code(), Some(1), "{args:?}");
        is_too_new(&String::from_utf8(refused.stderr).unwrap());
    }
    let doctor = output(&mut doorbell(["doctor", "--database-url", &url])).await;
    assert_eq!(doctor.status.code(), Some(1));
    let findings = String::from_utf8(doctor.stdout).unwrap();
    assert!(findings.contains("migration 7000 (priorities)"), "{findings}");
    let steps = json(["migrate", "status", "--json", "--database-url", &url]).await;
    let newest = steps.as_array().unwrap().last().unwrap();
    assert!(newest["breaking"] == true && newest["known"] == false, "{newest}");
    assert_eq!(db.statuses().await, "pending=1");
}

#[tokio::test]
async fn a_running_reactor_ends_in_order_when_its_tables_become_too_new() {
    let db = TestDb::new().await;
    let home = Home::with_script(&db, "touch begun; until [ -e end ]; do sleep 0.1; done", "");
    let mut process = Process::run(&home.config(), &[]).await;
    insert(&db, "ops").await;
    migrate_by_newer(&db, true).await;
    process.says("stopping").await;
    assert!(home.path("begun").exists());
    insert(&db, "ops").await;
    fs::write(home.path("end"), "").unwrap();
    assert_eq!(process.exit().await.code(), Some(1));
    is_too_new(process.stderr().last().unwrap());
    assert_eq!(db.statuses().await, "pending=1 sent=1");
    assert_eq!(db.value("SELECT count(*) FROM notification_reactors").await, "0");
}

#[tokio::test]
async fn a_channel_that_only_a_newer_program_knows_is_left_to_it() {
    let db = TestDb::new().await;
    let home = Home::new(&db, "[channels.ops]\nsender = 'log'");
    let old = Process::run(&home.config(), &[]).await;
    insert(&db, "pagers").await;
    insert(&db, "ops").await;
    db.becomes("pending=1 sent=1").await;
    let home = Home::new(&db, "[channels.ops]\nsender = 'log'\n[channels.pagers]\nsender = 'log'");
    let new = Process::run(&home.config(), &[]).await;
    new.prints("pagers").await;
    db.becomes("sent=2").await;
    assert_eq!(db.value("SELECT max(attempts) FROM notification_jobs").await, "1");
    assert!(!old.stdout().iter().any(|line| line.contains("pagers")));
}
