//! A bell that rings whatever the schema is called, and whatever has been done to it or to the session.

use std::process::{Command, Stdio};

use doorbell::{Migrator, NewNotification, Queue};
use tokio_postgres::Client;

use crate::support::{Role, Sleeper, TestDb, client_program};

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// What a search_path can put in front of the server's own.
const SHADOWS: &str = "CREATE SCHEMA evil;
     CREATE FUNCTION evil.no() RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE ''shadowed''; END';
     CREATE FUNCTION evil.is(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT evil.no()';
     CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.is);
     CREATE OPERATOR evil.<> (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.is);
     CREATE FUNCTION evil.pg_notify(text, text) RETURNS void LANGUAGE sql AS 'SELECT evil.no()';
     CREATE FUNCTION evil.pg_try_advisory_lock(int, int) RETURNS boolean LANGUAGE sql AS 'SELECT evil.no()';
     CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT evil.no()::text::timestamptz';
     CREATE FUNCTION evil.current_setting(text, boolean) RETURNS text LANGUAGE sql AS 'SELECT evil.no()::text'";

async fn insert(client: &Client, schema: &str) {
    let sql =
        format!("INSERT INTO {schema}.notification_jobs (channel, recipient, payload) VALUES ('ops', 'ada', '1')");
    client.batch_execute(&sql).await.unwrap();
}

#[tokio::test]
async fn any_schema_name_will_do() {
    let db = TestDb::empty().await;
    let mut client = db.client().await;
    let long = "x".repeat(63);
    let names = [
        "public",
        "Upper lower",
        r#"o"d'd"#,
        r"back\slash'",
        "a$doorbell$b",
        "$$",
        r#":"schema" :'schema'"#,
        "%1$I %s",
        "ünï",
        "select",
        long.as_str(),
    ];
    for name in names {
        let schema = quoted(name);
        let migrator = Migrator::new(name).unwrap();
        assert_eq!(migrator.up(&mut client).await.unwrap().len(), 2, "{name}");
        let mut sleeper = Sleeper::new(&db.url(), &schema).await;
        insert(&client, &schema).await;
        sleeper.rung().await;
        let queue = Queue::in_schema(name).unwrap();
        queue
            .enqueue(&client, &NewNotification::new("ops", "ada"))
            .await
            .unwrap();
        sleeper.rung().await;
        assert_eq!(queue.status(&client).await.unwrap().channels[0].pending, 2, "{name}");
    }
    for name in names {
        Migrator::new(name).unwrap().down(&mut client, 0).await.unwrap();
    }
}

#[tokio::test]
async fn another_schema_is_not_rung() {
    let db = TestDb::empty().await;
    let mut client = db.client().await;
    for name in ["here", "there"] {
        Migrator::new(name).unwrap().up(&mut client).await.unwrap();
    }
    let mut here = Sleeper::new(&db.url(), "here").await;
    let mut there = Sleeper::new(&db.url(), "there").await;
    insert(&client, "here").await;
    here.rung().await;
    insert(&client, "there").await;
    there.rung().await;
    assert!(!here.was_rung() && !there.was_rung());
}

#[tokio::test]
async fn an_insert_only_role_can_insert_and_ring_on_a_hardened_database() {
    let db = TestDb::empty().await;
    db.psql(
        "ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC; REVOKE ALL ON SCHEMA public FROM PUBLIC",
    )
    .await;
    Migrator::new("app").unwrap().up(&mut db.client().await).await.unwrap();
    let role = Role::new(&db, "producer").await;
    db.psql(&format!(
        "GRANT USAGE ON SCHEMA app TO {0}; GRANT INSERT (channel, recipient, payload) ON app.notification_jobs TO {0}",
        role.name
    ))
    .await;
    let client = role.client(&db).await;
    insert(&client, "app").await;
    let mut sleeper = Sleeper::new(&db.url(), "app").await;
    insert(&client, "app").await;
    sleeper.rung().await;
    assert!(client.query("SELECT id FROM app.notification_jobs", &[]).await.is_err());
    // What a reactor with few rights needs before it starts.
    Migrator::new("app").unwrap().check(&client).await.unwrap();
    client
        .query("SELECT topic FROM app.doorbell_bell()", &[])
        .await
        .unwrap();
}

#[tokio::test]
async fn no_search_path_of_a_producer_misleads_the_bell() {
    let db = TestDb::new().await;
    db.psql(SHADOWS).await;
    let mut sleeper = Sleeper::new(&db.url(), "public").await;
    for search_path in ["''", "evil, pg_catalog", "nowhere"] {
        let client = db.client().await;
        client
            .batch_execute(&format!("SET search_path = {search_path}"))
            .await
            .unwrap();
        insert(&client, "public").await;
        sleeper.rung().await;
        let forward = "UPDATE public.notification_jobs SET next_attempt_at = next_attempt_at - interval '1 hour'";
        client.batch_execute(forward).await.unwrap();
        sleeper.rung().await;
    }
}

#[tokio::test]
async fn no_search_path_of_a_migrator_misleads_the_bell() {
    let db = TestDb::empty().await;
    db.psql(SHADOWS).await;
    let mut client = db.client().await;
    client
        .batch_execute("SET search_path = evil, pg_catalog")
        .await
        .unwrap();
    Migrator::new("app").unwrap().up(&mut client).await.unwrap();
    let mut sleeper = Sleeper::new(&db.url(), "app").await;
    insert(&client, "app").await;
    sleeper.rung().await;
}

#[tokio::test]
async fn a_restored_dump_rings_and_knows_its_version() {
    let (db, restored) = (TestDb::empty().await, TestDb::empty().await);
    let mut client = db.client().await;
    Migrator::new(r#"o"d'd"#).unwrap().up(&mut client).await.unwrap();
    let schema = quoted(r#"o"d'd"#);
    insert(&client, &schema).await;

    restore(&[], &db, &restored);
    let client = restored.client().await;
    let queue = Queue::in_schema(r#"o"d'd"#).unwrap();
    let status = queue.status(&client).await.unwrap();
    assert!(status.table.triggers_work() && status.schema_version == 2 && status.channels[0].pending == 1);
    let mut sleeper = Sleeper::new(&restored.url(), &schema).await;
    insert(&client, &schema).await;
    sleeper.rung().await;

    // Data alone, into tables that are there, with their triggers at work.
    client
        .batch_execute(&format!("TRUNCATE {schema}.notification_jobs"))
        .await
        .unwrap();
    restore(&["--data-only", "--table=*.notification_jobs"], &db, &restored);
    sleeper.rung().await;
    assert_eq!(queue.status(&client).await.unwrap().channels[0].pending, 1);
}

#[tokio::test]
async fn a_renamed_schema_rings_on() {
    let db = TestDb::empty().await;
    let mut client = db.client().await;
    Migrator::new("before").unwrap().up(&mut client).await.unwrap();
    client
        .batch_execute("ALTER SCHEMA before RENAME TO after")
        .await
        .unwrap();
    let mut sleeper = Sleeper::new(&db.url(), "after").await;
    insert(&client, "after").await;
    sleeper.rung().await;
    let migrator = Migrator::new("after").unwrap();
    assert!(migrator.up(&mut client).await.unwrap().is_empty());
    assert_eq!(migrator.down(&mut client, 0).await.unwrap().len(), 2);
}

/// `pg_dump | psql`.
fn restore(options: &[&str], from: &TestDb, to: &TestDb) {
    let mut dump = Command::new(client_program("pg_dump"))
        .args(options)
        .arg(from.url())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut psql = Command::new(client_program("psql"));
    psql.args(["-Xq", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null"])
        .arg(to.url());
    let restored = psql.stdin(dump.stdout.take().unwrap()).status().unwrap();
    assert!(dump.wait().unwrap().success() && restored.success());
}
