//! Enqueueing from Rust: in whose transaction, with which defaults, twice under one key, and what is refused.

use std::time::Duration;

use doorbell::{Error, NewNotification, Queue, Uuid, enqueue, enqueue_many};
use tokio::task::JoinSet;
use tokio_postgres::{IsolationLevel, NoTls};

use crate::support::TestDb;

fn new() -> NewNotification {
    NewNotification::new("ops", "ada")
}

fn keyed(key: &str) -> NewNotification {
    new().dedupe_key(key)
}

fn pool(db: &TestDb) -> deadpool_postgres::Pool {
    let manager = deadpool_postgres::Manager::new(db.url().parse().unwrap(), NoTls);
    deadpool_postgres::Pool::builder(manager).max_size(1).build().unwrap()
}

#[tokio::test]
async fn an_enqueue_is_part_of_the_callers_transaction() {
    let db = TestDb::new().await;
    let mut client = db.client().await;
    let rolled_back = client.transaction().await.unwrap();
    enqueue(&rolled_back, &new()).await.unwrap();
    rolled_back.rollback().await.unwrap();
    assert_eq!(db.psql("SELECT count(*) FROM notification_jobs").await, "0");

    let mut transaction = client.transaction().await.unwrap();
    let kept = enqueue(&transaction, &new()).await.unwrap();
    let savepoint = transaction.transaction().await.unwrap();
    enqueue(&savepoint, &new()).await.unwrap();
    savepoint.rollback().await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(db.psql("SELECT id FROM notification_jobs").await, kept.to_string());
}

#[tokio::test]
async fn every_kind_of_client_will_do() {
    let db = TestDb::new().await;
    let mut client = db.client().await;
    enqueue(&client, &new()).await.unwrap();
    let transaction = client.transaction().await.unwrap();
    enqueue(&transaction, &new()).await.unwrap();
    transaction.commit().await.unwrap();

    let pool = pool(&db);
    let mut pooled = pool.get().await.unwrap();
    enqueue(&pooled, &new()).await.unwrap();
    let wrapper: &deadpool_postgres::ClientWrapper = &pooled;
    enqueue(wrapper, &new()).await.unwrap();
    let transaction = pooled.transaction().await.unwrap();
    enqueue(&transaction, &new()).await.unwrap();
    transaction.commit().await.unwrap();
    // The future can move between threads.
    tokio::spawn(async move { enqueue(&pooled, &new()).await })
        .await
        .unwrap()
        .unwrap();
    assert_eq!(db.psql("SELECT count(*) FROM notification_jobs").await, "6");
}

#[tokio::test]
async fn each_field_reaches_its_column_and_what_is_not_given_is_as_in_a_plain_insert() {
    let db = TestDb::new().await;
    let client = db.client().await;
    let id = Uuid::from_u128(7);
    let full = new()
        .id(id)
        .payload_text(r#"{"b": 9007199254740993, "a": [1e400]}"#)
        .max_attempts(3)
        .delay(Duration::from_millis(1500))
        .expires_in(Duration::from_secs(600))
        .dedupe_key("k");
    assert_eq!(enqueue(&client, &full).await.unwrap(), id);
    let columns = "SELECT channel, recipient, payload->>'b', length(payload->'a'->>0), status, attempts, max_attempts,
                          round(extract(epoch FROM next_attempt_at - created_at), 1),
                          round(extract(epoch FROM expires_at - created_at)), dedupe_key FROM notification_jobs";
    assert_eq!(
        db.psql(columns).await,
        "ops|ada|9007199254740993|401|pending|0|3|1.5|600|k"
    );

    db.psql("TRUNCATE notification_jobs").await;
    enqueue(&client, &new()).await.unwrap();
    db.psql("INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', 'ada')")
        .await;
    let differences = "SELECT count(DISTINCT to_jsonb(j) - 'id' - 'created_at' - 'updated_at' - 'next_attempt_at')
                       FROM notification_jobs j";
    assert_eq!(db.psql(differences).await, "1");
    assert_eq!(
        db.psql("SELECT bool_and(next_attempt_at <= clock_timestamp()) FROM notification_jobs")
            .await,
        "t"
    );
}

#[tokio::test]
async fn ids_grow_and_come_back_in_the_order_of_the_input() {
    let db = TestDb::new().await;
    let client = db.client().await;
    let many: Vec<_> = (0..100_000)
        .map(|n| NewNotification::new("ops", n.to_string()))
        .collect();
    let ids = enqueue_many(&client, &many).await.unwrap();
    assert!(ids.iter().all(|id| id.get_version_num() == 7));
    let matching = "SELECT count(*) FROM notification_jobs j
                    JOIN unnest($1::uuid[]) WITH ORDINALITY AS u (id, n) ON u.id = j.id AND j.recipient = (u.n - 1)::text";
    let row = client.query_one(matching, &[&ids]).await.unwrap();
    assert_eq!(row.try_get::<_, i64>(0).unwrap(), 100_000);
    assert!(ids[0] < ids[99_999] && enqueue(&client, &new()).await.unwrap() > ids[0]);
    assert!(enqueue_many(&client, []).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_pending_key_gives_the_id_that_is_there_until_it_is_sent() {
    let db = TestDb::new().await;
    let client = db.client().await;
    let first = enqueue(&client, &keyed("k")).await.unwrap();
    assert_eq!(enqueue(&client, &keyed("k")).await.unwrap(), first);
    let elsewhere = NewNotification::new("sms", "ada").dedupe_key("k");
    assert_ne!(enqueue(&client, &elsewhere).await.unwrap(), first);

    let (again, other) = (keyed("k"), keyed("l"));
    let ids = enqueue_many(&client, [&other, &again, &other, &new()]).await.unwrap();
    assert!(ids[1] == first && ids[0] == ids[2] && ids[0] != ids[3], "{ids:?}");
    assert_eq!(db.psql("SELECT count(*) FROM notification_jobs").await, "4");

    db.psql("UPDATE notification_jobs SET status = 'sent'").await;
    let second = enqueue(&client, &keyed("k")).await.unwrap();
    assert_ne!(second, first);
    assert_eq!(enqueue(&client, &keyed("k")).await.unwrap(), second);
}

#[tokio::test]
async fn many_producers_of_one_key_agree_on_one_row_while_it_is_being_sent_over_and_over() {
    let db = TestDb::new().await;
    let mut producers = JoinSet::new();
    for _ in 0..8 {
        let client = db.client().await;
        producers.spawn(async move {
            let mut ids = Vec::new();
            for _ in 0..200 {
                ids.push(enqueue(&client, &keyed("k")).await.unwrap());
            }
            ids
        });
    }
    let settler = db.client().await;
    let settling = tokio::spawn(async move {
        loop {
            settler
                .execute(
                    "UPDATE notification_jobs SET status = 'sent' WHERE status = 'pending'",
                    &[],
                )
                .await
                .unwrap();
            tokio::task::yield_now().await;
        }
    });
    let ids = producers.join_all().await.concat();
    settling.abort();
    // Each id that was given out is a row, and every row was given out to somebody.
    let client = db.client().await;
    let counts = "SELECT count(*), count(*) FILTER (WHERE id = ANY ($1)),
                         (SELECT count(DISTINCT id) FROM unnest($1) AS u (id)) FROM notification_jobs";
    let row = client.query_one(counts, &[&ids]).await.unwrap();
    let count = |at: usize| row.try_get::<_, i64>(at).unwrap();
    assert!(count(0) == count(1) && count(1) == count(2) && count(0) > 1, "{row:?}");
}

#[tokio::test]
async fn an_old_snapshot_that_cannot_see_the_key_is_told_to_begin_again() {
    let db = TestDb::new().await;
    let (mut old, client) = (db.client().await, db.client().await);
    let seen = enqueue(&client, &keyed("seen")).await.unwrap();
    let transaction = old
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .start()
        .await
        .unwrap();
    transaction
        .batch_execute("SELECT FROM notification_jobs")
        .await
        .unwrap();
    enqueue(&client, &keyed("unseen")).await.unwrap();
    assert_eq!(enqueue(&transaction, &keyed("seen")).await.unwrap(), seen);
    let error = enqueue(&transaction, &keyed("unseen")).await.unwrap_err();
    assert!(error.is_database() && error.sqlstate() == Some("40001"), "{error:?}");
    assert!(error.to_string().contains("try the transaction again"), "{error}");
}

#[tokio::test]
async fn what_only_the_database_can_refuse_is_an_input_error_too() {
    let db = TestDb::new().await;
    let client = db.client().await;
    enqueue(&client, &new().id(Uuid::nil())).await.unwrap();
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    for (expected, new) in [
        ("the id exists already", new().id(Uuid::nil())),
        ("payload is not JSON", new().payload_text("{")),
        ("payload is not JSON", new().payload_text("")),
        ("payload is not JSON", new().payload_text(r#""\u0000""#)),
        ("payload is not JSON", new().payload_text("1e200000")),
        ("payload is not JSON", new().payload_text(deep)),
    ] {
        let error = enqueue(&client, &new).await.unwrap_err();
        assert!(error.is_input() && error.to_string().starts_with(expected), "{error:?}");
    }
    let error = enqueue_many(&client, [&new(), &new().max_attempts(0)])
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "notification 1: max_attempts is 0; it must be from 1 to 2147483647"
    );
    assert_eq!(db.psql("SELECT count(*) FROM notification_jobs").await, "1");
}

#[tokio::test]
async fn a_field_that_is_checked_here_does_not_harm_the_transaction() {
    let db = TestDb::new().await;
    let mut client = db.client().await;
    let transaction = client.transaction().await.unwrap();
    assert!(
        enqueue(&transaction, &NewNotification::new("", "ada"))
            .await
            .unwrap_err()
            .is_input()
    );
    enqueue(&transaction, &new()).await.unwrap();
    transaction.commit().await.unwrap();
}

#[tokio::test]
async fn a_missing_schema_says_what_to_run() {
    let db = TestDb::empty().await;
    let client = db.client().await;
    let missing = |error: Error| error.is_schema() && error.to_string().contains("run `doorbell migrate up");
    assert!(missing(enqueue(&client, &new()).await.unwrap_err()));
    let queue = Queue::in_schema("nowhere").unwrap();
    assert!(missing(queue.enqueue(&client, &new()).await.unwrap_err()));
    assert!(missing(queue.status(&client).await.unwrap_err()));
    assert!(missing(queue.get(&client, Uuid::nil()).await.unwrap_err()));
}

#[tokio::test]
async fn an_error_that_goes_to_a_log_shows_nothing_of_the_row() {
    let db = TestDb::new().await;
    db.psql("ALTER TABLE notification_jobs ADD CONSTRAINT of_their_own CHECK (recipient NOT LIKE '%@%')")
        .await;
    let secret = NewNotification::new("ops", "ada@example.org").payload(serde_json::json!("hunter2"));
    let error = enqueue(&db.client().await, &secret).await.unwrap_err();
    let line = error.chain();
    assert!(
        error.is_input() && line.contains("of_their_own") && line.contains("23514"),
        "{line}"
    );
    assert!(
        !line.contains("ada") && !line.contains("hunter2") && !line.contains('\n'),
        "{line}"
    );
}
