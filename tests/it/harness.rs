//! The support code keeps its promises.

use std::time::Duration;

use crate::support::{TestDb, eventually, expect};

const LIMIT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn each_test_has_a_migrated_database_of_its_own() {
    let (mine, other) = (TestDb::new().await, TestDb::new().await);
    mine.psql("INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', 'me')")
        .await;
    let count = "SELECT count(*) FROM notification_jobs";
    assert_eq!(mine.psql(count).await, "1");
    assert_eq!(other.psql(count).await, "0");
    let empty = TestDb::empty().await;
    assert_eq!(empty.psql("SELECT to_regclass('notification_jobs') IS NULL").await, "t");
}

#[tokio::test]
async fn a_database_is_dropped_at_the_end_even_while_it_is_used() {
    let (keeper, db) = (TestDb::empty().await, TestDb::new().await);
    let url = db.url();
    let client = db.client().await;
    drop(db);
    eventually(LIMIT, || async { expect(client.is_closed(), "still connected") }).await;
    assert!(tokio_postgres::connect(&url, tokio_postgres::NoTls).await.is_err());
    drop(keeper);
}

#[tokio::test]
async fn faults_hit_the_sessions_they_name_and_no_other() {
    let db = TestDb::new().await;
    let victim = db.client_named("victim-1").await;
    let bystander = db.client().await;
    assert_eq!(db.terminate_backends("victim-%").await, 1);
    eventually(LIMIT, || async { expect(victim.is_closed(), "the victim lives") }).await;
    bystander.batch_execute("SELECT").await.unwrap();

    db.set_default("default_transaction_read_only", "on").await;
    assert_eq!(db.psql("SHOW default_transaction_read_only").await, "on");
}
