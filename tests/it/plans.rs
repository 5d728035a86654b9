//! Plans that the server made for another size of the table.

use std::time::Duration;

use doorbell::senders::Recording;
use doorbell::{ChannelConfig, Database, Reactor};

use crate::support::{TestDb, eventually, expect};

/// Rows read by scans of the whole table, and entries of the index of due rows. Not the number of scans: the server counts
/// a look at one place as a scan.
async fn rows_read(db: &TestDb) -> u64 {
    let rows = db.value(
        "SELECT t.seq_tup_read + i.idx_tup_read FROM pg_stat_user_tables AS t JOIN pg_stat_user_indexes AS i USING (relid)
         WHERE i.indexrelname = 'notification_jobs_due'",
    );
    rows.await.parse().unwrap()
}

/// A session may keep what it has counted to itself until it ends.
async fn sessions_end(db: &TestDb) {
    eventually(Duration::from_secs(10), || async {
        let sessions = "SELECT count(*) FROM pg_stat_activity
                        WHERE application_name = 'doorbell' AND datname = current_database()";
        expect(db.value(sessions).await == "0", "the reactor's sessions have not ended")
    })
    .await;
}

#[tokio::test]
async fn a_plan_made_while_the_table_was_small_does_not_outlive_its_growth() {
    let db = TestDb::new().await;
    let insert = "INSERT INTO notification_jobs (channel, recipient, status)";
    db.psql(&format!(
        "ALTER TABLE notification_jobs SET (autovacuum_enabled = off); {insert} VALUES ('ops', 'me', 'sent')"
    ))
    .await;
    db.psql("ANALYZE notification_jobs").await;
    let database = Database::builder(db.url()).pool_size(2).build().unwrap();
    // So that all of it is on the other one.
    let taken = database.client().await.unwrap();
    let reactor = Reactor::builder(database).channel("ops", Recording::new(), ChannelConfig::default());
    let reactor = reactor.build().unwrap();
    // The server plans a statement five times before it keeps a plan.
    for _ in 0..10 {
        reactor.process_due(1).await.unwrap();
    }
    db.psql(&format!(
        "{insert} SELECT 'ops', 'me', 'pending' FROM generate_series(1, 50000)"
    ))
    .await;
    let before = rows_read(&db).await;
    assert_eq!(reactor.process_due(320).await.unwrap().sent, 320);
    drop((taken, reactor));
    sessions_end(&db).await;
    let rows = rows_read(&db).await - before;
    assert!(rows < 150_000, "{rows} rows read for 20 claims and as many settlements");
}

#[tokio::test]
async fn a_claim_out_of_a_backlog_looks_its_rows_up_by_their_keys() {
    let db = TestDb::new().await;
    db.psql(
        "ALTER TABLE notification_jobs SET (autovacuum_enabled = off);
         INSERT INTO notification_jobs (channel, recipient) SELECT 'ops', 'me' FROM generate_series(1, 20000)",
    )
    .await;
    db.psql("ANALYZE notification_jobs").await;
    let database = Database::builder(db.url()).pool_size(2).build().unwrap();
    // So that all of it is on the other one.
    let taken = database.client().await.unwrap();
    let reactor = Reactor::builder(database).channel("ops", Recording::new(), ChannelConfig::default());
    let reactor = reactor.build().unwrap();
    let before = rows_read(&db).await;
    assert_eq!(reactor.process_due(320).await.unwrap().sent, 320);
    drop((taken, reactor));
    sessions_end(&db).await;
    let rows = rows_read(&db).await - before;
    // Of which most are claimed rows that vacuum has not yet removed.
    assert!(rows < 20_000, "{rows} rows read for 20 claims and as many settlements");
}
