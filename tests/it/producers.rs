//! Producers of every kind: other clients, other transactions, other habits.

use std::io::Cursor;
use std::time::Duration;

use doorbell::senders::Recording;
use futures::SinkExt;
use sqlx::Connection;

use crate::support::{Running, SOON, TestDb, eventually, expect};

fn insert(recipient: &str) -> String {
    format!("INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', '{recipient}')")
}

/// Waits for so many sends, and gives their recipients in alphabetical order.
async fn recipients(recording: &Recording, count: usize) -> Vec<String> {
    let sent = recording.wait_for(count, SOON).await;
    let mut recipients: Vec<_> = sent.iter().map(|n| n.recipient().to_owned()).collect();
    recipients.sort();
    recipients
}

#[tokio::test]
async fn a_row_from_any_client_is_sent() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let running = Running::start(db.reactor(recording.clone())).await;
    db.armed(1).await;

    db.psql(&insert("psql")).await;
    assert_eq!(recording.next().await.recipient(), "psql");

    db.armed(1).await;
    let mut sqlx = sqlx::PgConnection::connect(&db.url()).await.unwrap();
    let statement =
        sqlx::query("INSERT INTO notification_jobs (channel, recipient, payload) VALUES ($1, $2, $3::jsonb)");
    let statement = statement.bind("ops").bind("sqlx").bind(r#"{"n": 1}"#);
    statement.execute(&mut sqlx).await.unwrap();
    let sent = recording.next().await;
    assert_eq!((sent.recipient(), sent.payload()), ("sqlx", r#"{"n": 1}"#));

    db.becomes("sent=2").await;
    running.stop().await;
}

#[tokio::test]
async fn a_copy_and_an_insert_of_many_rows_are_sent_to_the_last_row() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let running = Running::start(db.reactor(recording.clone())).await;
    db.armed(1).await;

    let client = db.client().await;
    let copy = client.copy_in("COPY notification_jobs (channel, recipient) FROM STDIN");
    let mut copy = Box::pin(copy.await.unwrap());
    let rows: String = (0..100).map(|n| format!("ops\tcopied {n}\n")).collect();
    copy.send(Cursor::new(rows)).await.unwrap();
    copy.close().await.unwrap();
    db.becomes("sent=100").await;

    db.armed(1).await;
    let many =
        "INSERT INTO notification_jobs (channel, recipient) SELECT 'ops', n::text FROM generate_series(1, 100) n";
    client.batch_execute(many).await.unwrap();
    db.becomes("sent=200").await;
    assert_eq!(recording.recorded().len(), 200, "each of them once");
    running.stop().await;
}

#[tokio::test]
async fn what_is_rolled_back_is_never_sent() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let running = Running::start(db.reactor(recording.clone())).await;
    db.armed(1).await;
    let client = db.client().await;
    let (kept, undone, never) = (insert("kept"), insert("undone"), insert("never"));
    let savepoint = format!("BEGIN; {kept}; SAVEPOINT s; {undone}; ROLLBACK TO s; COMMIT");
    client.batch_execute(&savepoint).await.unwrap();
    client
        .batch_execute(&format!("BEGIN; {never}; ROLLBACK"))
        .await
        .unwrap();
    client.batch_execute(&insert("last")).await.unwrap();
    assert_eq!(recipients(&recording, 2).await, ["kept", "last"]);
    db.becomes("sent=2").await;
    running.stop().await;
}

#[tokio::test]
async fn a_long_transaction_is_sent_at_its_commit_though_a_later_row_was_sent_before() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let running = Running::start(db.reactor(recording.clone())).await;
    db.armed(1).await;
    let mut long = db.client().await;
    let long = long.transaction().await.unwrap();
    long.batch_execute(&insert("first in")).await.unwrap();
    db.insert("first out").await;
    assert_eq!(recording.next().await.recipient(), "first out");
    db.becomes("sent=1").await;
    long.commit().await.unwrap();
    assert_eq!(recipients(&recording, 2).await, ["first in", "first out"]);
    running.stop().await;
}

#[tokio::test]
async fn every_isolation_level_and_every_kind_of_commit_rings() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let running = Running::start(db.reactor(recording.clone())).await;
    let client = db.client().await;
    for habit in [
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM notification_jobs",
        "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM notification_jobs",
        "BEGIN; SET LOCAL synchronous_commit = off",
        "BEGIN; SET LOCAL search_path = ''",
        "BEGIN; SET LOCAL session_replication_role = origin",
    ] {
        db.armed(1).await;
        let insert = insert("anybody").replace("notification_jobs", "public.notification_jobs");
        client
            .batch_execute(&format!("{habit}; {insert}; COMMIT"))
            .await
            .unwrap();
        let sent = tokio::time::timeout(SOON, recording.next()).await;
        assert!(sent.is_ok(), "not sent: {habit}");
    }
    running.stop().await;
}

#[tokio::test]
async fn a_producer_that_opted_out_touches_neither_bell_nor_locks_and_the_scan_finds_its_row() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let scanning = db.reactor(recording.clone()).scan_interval(Duration::from_millis(300));
    let running = Running::start(scanning).await;
    db.armed(1).await;
    let ears = db.ears().await;
    let client = db.client().await;
    let bulk = format!("SET doorbell.notify = off; BEGIN; {}", insert("bulk"));
    client.batch_execute(&bulk).await.unwrap();
    assert_eq!(db.holders("in_flight").await, 0);
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(
        tokio::time::timeout(SOON, recording.next()).await.unwrap().recipient(),
        "bulk"
    );
    assert_eq!(ears.heard().await, 0);
    running.stop().await;
}

#[tokio::test]
async fn a_two_phase_producer_that_opted_out_is_served_and_one_that_rang_is_refused() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let scanning = db.reactor(recording.clone()).scan_interval(Duration::from_millis(300));
    let running = Running::start(scanning).await;
    db.armed(1).await;
    let client = db.client().await;
    let gid = db.value("SELECT current_database()").await;
    let prepare = |settings: &str| {
        format!(
            "BEGIN; {settings}; {}; PREPARE TRANSACTION '{gid}'",
            insert("in two phases")
        )
    };

    let refused = client.batch_execute(&prepare("SELECT 1")).await.unwrap_err();
    assert!(
        refused.as_db_error().unwrap().message().contains("NOTIFY"),
        "{refused:?}"
    );
    client.batch_execute("ROLLBACK").await.unwrap();

    client
        .batch_execute(&prepare("SET LOCAL doorbell.notify = off"))
        .await
        .unwrap();
    client.batch_execute(&format!("COMMIT PREPARED '{gid}'")).await.unwrap();
    let sent = tokio::time::timeout(SOON, recording.next()).await.unwrap();
    assert_eq!(sent.recipient(), "in two phases");
    running.stop().await;
}

#[tokio::test]
async fn a_prepared_transaction_that_stayed_silent_keeps_the_reactor_from_sleeping_until_it_commits() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let client = db.client().await;
    let gid = db.value("SELECT current_database()").await;
    let prepared = format!("BEGIN; {}; PREPARE TRANSACTION '{gid}'", insert("prepared"));
    client.batch_execute(&prepared).await.unwrap();
    let running = Running::start(db.reactor(recording.clone())).await;
    db.armed(1).await;
    assert_eq!(db.holders("in_flight").await, 1);
    client.batch_execute(&format!("COMMIT PREPARED '{gid}'")).await.unwrap();
    let sent = tokio::time::timeout(SOON, recording.next()).await.unwrap();
    assert_eq!(sent.recipient(), "prepared");
    running.stop().await;
}

#[tokio::test]
async fn a_row_that_is_due_again_by_hand_is_sent_at_once() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, status, next_attempt_at) VALUES
             ('ops', 'status back', 'failed', now()), ('ops', 'brought forward', 'pending', 'infinity'),
             ('other', 'moved here', 'pending', now()), ('ops', 'in a moment', 'cancelled', 'infinity')",
    )
    .await;
    let running = Running::start(db.reactor(recording.clone())).await;
    for (recipient, change) in [
        ("status back", "status = 'pending'"),
        ("brought forward", "next_attempt_at = now()"),
        ("moved here", "channel = 'ops'"),
        (
            "in a moment",
            "status = 'pending', next_attempt_at = clock_timestamp() + interval '0.2 s'",
        ),
    ] {
        db.armed(1).await;
        db.psql(&format!(
            "UPDATE notification_jobs SET {change} WHERE recipient = '{recipient}'"
        ))
        .await;
        let sent = tokio::time::timeout(SOON, recording.next()).await;
        assert_eq!(sent.unwrap().recipient(), recipient, "{change}");
    }
    running.stop().await;
}

#[tokio::test]
async fn inserting_costs_no_right_but_to_insert() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let running = Running::start(db.reactor(recording.clone())).await;
    db.armed(1).await;
    let role = format!("producer_{}", db.value("SELECT md5(current_database())").await);
    let client = db.client().await;
    let grants = format!(
        "CREATE ROLE {role}; GRANT INSERT (channel, recipient, payload) ON notification_jobs TO {role};
         SET ROLE {role}; {}; RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}",
        insert("from a stranger")
    );
    client.batch_execute(&grants).await.unwrap();
    eventually(SOON, || async { expect(!recording.recorded().is_empty(), "not sent") }).await;
    running.stop().await;
}
