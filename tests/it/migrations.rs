//! Migrations: many at once, under locks, under hostile defaults, by hand, and older than the database.

use std::process::Command;
use std::time::{Duration, Instant};

use doorbell::{MigrationStep, Migrator};

use crate::support::{Role, TestDb, client_program, eventually, expect};

fn versions(steps: &[MigrationStep]) -> Vec<i32> {
    steps.iter().map(|step| step.version).collect()
}

#[tokio::test]
async fn up_brings_everything_and_down_leaves_only_the_schema() {
    let db = TestDb::empty().await;
    let mut client = db.client().await;
    let migrator = Migrator::new("app").unwrap();
    assert!(migrator.check(&client).await.unwrap_err().is_schema());

    let applied = migrator.up(&mut client).await.unwrap();
    assert_eq!(versions(&applied), [1, 2]);
    assert_eq!(migrator.status(&client).await.unwrap(), applied);
    assert!(applied[0].known && applied[0].applied_at.as_ref().unwrap().ends_with('Z'));
    assert!(migrator.up(&mut client).await.unwrap().is_empty());
    migrator.check(&client).await.unwrap();

    assert_eq!(versions(&migrator.down(&mut client, 1).await.unwrap()), [2]);
    let error = migrator.check(&client).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "schema \"app\" lacks migration 2 (bell): run `doorbell migrate up --schema app`"
    );
    assert_eq!(versions(&migrator.down(&mut client, 0).await.unwrap()), [1]);
    assert!(
        migrator
            .status(&client)
            .await
            .unwrap()
            .iter()
            .all(|step| step.applied_at.is_none())
    );
    let left = "SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = 'app'::regnamespace)
                     + (SELECT count(*) FROM pg_proc WHERE pronamespace = 'app'::regnamespace)";
    assert_eq!(db.psql(left).await, "0");
}

#[tokio::test]
async fn ten_at_once_on_an_empty_database_all_succeed() {
    let db = TestDb::empty().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let mut client = db.client().await;
        tasks.spawn(async move { Migrator::new("app").unwrap().up(&mut client).await.unwrap().len() });
    }
    assert_eq!(
        tasks.join_all().await.into_iter().sum::<usize>(),
        2,
        "each migration was applied once"
    );
    assert_eq!(db.psql("SELECT count(*) FROM app.doorbell_migrations").await, "2");
}

#[tokio::test]
async fn a_look_at_what_is_applied_waits_for_no_lock() {
    let db = TestDb::new().await;
    let migrator = Migrator::new("public").unwrap();
    let mut holder = db.client().await;
    let held = holder.transaction().await.unwrap();
    held.batch_execute("LOCK notification_jobs, notification_reactors IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    // Nor for another migrator.
    let lock = "SELECT pg_advisory_xact_lock(1685021294, hashtext('public'))";
    held.batch_execute(lock).await.unwrap();
    let mut client = db.client().await;
    client.batch_execute("SET lock_timeout = '1ms'").await.unwrap();
    let up = tokio::time::timeout(Duration::from_secs(10), migrator.up(&mut client));
    assert!(up.await.expect("it waits").unwrap().is_empty());
    migrator.check(&client).await.unwrap();
}

#[tokio::test]
async fn whoever_holds_a_table_too_long_is_named() {
    let db = TestDb::new().await;
    let migrator = Migrator::new("public").unwrap().patience(Duration::ZERO);
    let mut holder = db.client_named("the-backup").await;
    let held = holder.transaction().await.unwrap();
    held.batch_execute("SELECT FROM notification_jobs").await.unwrap();
    let mut client = db.client().await;
    let begin = Instant::now();
    let error = migrator.down(&mut client, 0).await.unwrap_err();
    let message = error.to_string();
    assert!(error.is_timeout() && error.sqlstate() == Some("55P03"), "{error:?}");
    assert!(
        message.contains("notification_jobs, held by pid") && message.contains("(the-backup, idle in transaction"),
        "{message}"
    );
    assert!(begin.elapsed() < Duration::from_secs(10));
    migrator.check(&client).await.unwrap();
}

#[tokio::test]
async fn a_table_that_is_freed_in_time_is_migrated_after_all() {
    let db = TestDb::new().await;
    let mut holder = db.client().await;
    let held = holder.transaction().await.unwrap();
    held.batch_execute("SELECT FROM notification_jobs").await.unwrap();
    let mut client = db.client().await;
    let down = tokio::spawn(async move { Migrator::new("public").unwrap().down(&mut client, 0).await });
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'notification_jobs'::regclass";
    for count in ["1", "0"] {
        // It waits; then it has given up for now, so that others get their turn.
        let limit = Duration::from_secs(10);
        eventually(limit, async || {
            expect(db.psql(waiting).await == count, "the other count of waiters")
        })
        .await;
    }
    held.rollback().await.unwrap();
    assert_eq!(versions(&down.await.unwrap().unwrap()), [2, 1]);
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_left_alone_and_served() {
    let db = TestDb::new().await;
    db.psql("INSERT INTO doorbell_migrations (version, name) VALUES (7000, 'from_the_future')")
        .await;
    let mut client = db.client().await;
    let migrator = Migrator::new("public").unwrap();
    migrator.check(&client).await.unwrap();
    assert!(migrator.up(&mut client).await.unwrap().is_empty());
    let status = migrator.status(&client).await.unwrap();
    let newest = status.last().unwrap();
    assert!(newest.version == 7000 && newest.name == "from_the_future" && !newest.known);
    let error = migrator.down(&mut client, 0).await.unwrap_err();
    assert!(
        error.is_schema() && error.to_string().contains("migration 7000"),
        "{error}"
    );
    migrator.check(&client).await.unwrap();

    // Even one that seems to lack what we have: we cannot know what became of it.
    db.psql("DELETE FROM doorbell_migrations WHERE version = 2").await;
    assert!(migrator.up(&mut client).await.unwrap().is_empty());
}

#[tokio::test]
async fn hostile_defaults_of_the_role_do_not_matter() {
    let db = TestDb::empty().await;
    for (setting, value) in [
        ("default_transaction_isolation", "serializable"),
        ("default_transaction_read_only", "on"),
        ("standard_conforming_strings", "off"),
        ("lock_timeout", "1ms"),
        ("search_path", "nowhere"),
        ("DateStyle", "SQL, DMY"),
        ("TimeZone", "Asia/Kathmandu"),
    ] {
        db.set_default(setting, value).await;
    }
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let mut client = db.client().await;
        let migrator = Migrator::new(r"b\s").unwrap().patience(Duration::ZERO);
        tasks.spawn(async move { migrator.up(&mut client).await.unwrap().len() });
    }
    assert_eq!(tasks.join_all().await.into_iter().sum::<usize>(), 2);
    let client = db.client().await;
    let status = Migrator::new(r"b\s").unwrap().status(&client).await.unwrap();
    let applied_at = status[0].applied_at.as_ref().unwrap();
    assert_eq!(&applied_at[10..11], "T", "{applied_at}");
}

#[tokio::test]
async fn a_role_without_rights_on_the_database_can_migrate_a_schema_of_its_own() {
    let db = TestDb::empty().await;
    let role = Role::new(&db, "owner").await;
    db.psql(&format!("CREATE SCHEMA app AUTHORIZATION {}", role.name)).await;
    let mut client = role.client(&db).await;
    Migrator::new("app").unwrap().up(&mut client).await.unwrap();
    let error = Migrator::new("other").unwrap().up(&mut client).await.unwrap_err();
    assert_eq!(error.sqlstate(), Some("42501"), "{error:?}");
}

#[tokio::test]
async fn what_is_printed_does_the_same_when_a_person_runs_it() {
    let db = TestDb::empty().await;
    let client = db.client().await;
    let migrator = Migrator::new("a$doorbell$b'").unwrap();
    run_by_hand(&db, &migrator.print_up(0));
    migrator.check(&client).await.unwrap();
    run_by_hand(&db, &migrator.print_down(1));
    assert!(
        migrator
            .check(&client)
            .await
            .unwrap_err()
            .to_string()
            .contains("lacks migration 2")
    );
    run_by_hand(&db, &migrator.print_up(1));
    migrator.check(&client).await.unwrap();
    run_by_hand(&db, &migrator.print_down(0));
    assert!(
        migrator
            .status(&client)
            .await
            .unwrap()
            .iter()
            .all(|step| step.applied_at.is_none())
    );
}

fn run_by_hand(db: &TestDb, sql: &str) {
    let file = std::env::temp_dir().join(format!("{}.sql", doorbell::Uuid::now_v7()));
    std::fs::write(&file, sql).unwrap();
    let mut psql = Command::new(client_program("psql"));
    let output = psql
        .args(["-Xq", "-1", "-v", "ON_ERROR_STOP=1", "-f"])
        .arg(&file)
        .arg(db.url())
        .output()
        .unwrap();
    std::fs::remove_file(file).unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success() && said.is_empty(),
        "{}",
        String::from_utf8_lossy(&said)
    );
}
