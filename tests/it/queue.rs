//! Looking after the queue: look up, retry, cancel, purge.

use std::num::NonZeroU32;
use std::time::Duration;

use doorbell::{Cancelled, Job, JobFilter, NewNotification, Queue, Retried, Status, Uuid};
use tokio_postgres::Client;

use crate::support::{Sleeper, TestDb, eventually, expect};

/// Inserts a row with these columns, and returns its id.
async fn row(client: &Client, columns: &str, values: &str) -> Uuid {
    let sql = format!(
        "INSERT INTO notification_jobs (channel, recipient, {columns}) VALUES ('ops', 'ada', {values}) RETURNING id"
    );
    client.query_one(&sql, &[]).await.unwrap().try_get(0).unwrap()
}

async fn get(queue: &Queue, client: &Client, id: Uuid) -> Job {
    queue.get(client, id).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_job_is_every_column_and_its_json_holds_the_payload_untouched() {
    let db = TestDb::new().await;
    let (client, queue) = (db.client().await, Queue::default());
    let payload = r#"{"a": 9007199254740993, "b": 0.10000000000000000000001}"#;
    let id = row(
        &client,
        "payload, claimed_by, claim, receipt, last_error, expires_at, created_at, next_attempt_at, sent_at",
        &format!(
            "'{payload}', '{0}', 7, '250 \"ok\"', 'no', 'infinity', '2026-01-02 03:04:05.678+01', '-infinity', \
             '294276-12-31 23:59:59.999999+00'",
            Uuid::max()
        ),
    )
    .await;
    client
        .batch_execute("SET TimeZone = 'Asia/Kathmandu'; SET DateStyle = 'SQL, DMY'")
        .await
        .unwrap();
    let job = get(&queue, &client, id).await;
    let json = job.to_json();
    let expected = format!(
        r#"{{"id":"{id}","channel":"ops","recipient":"ada","payload":{payload},"status":"pending","attempts":0,"max_attempts":5,"next_attempt_at":"-infinity","last_error":"no","created_at":"2026-01-02T02:04:05.678Z","updated_at":"{}","claim":7,"claimed_by":"{}","sent_at":"294276-12-31T23:59:59.999999Z","receipt":"250 \"ok\"","expires_at":"infinity","dedupe_key":null}}"#,
        job.updated_at,
        Uuid::max(),
    );
    assert_eq!(json, expected);
    serde_json::from_str::<serde_json::Value>(&json).unwrap();
    assert!(queue.get(&client, Uuid::nil()).await.unwrap().is_none());

    let columns = "SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute
                   WHERE attrelid = 'notification_jobs'::regclass AND attnum > 0";
    for column in db.psql(columns).await.split(' ') {
        assert!(json.contains(&format!("\"{column}\":")), "{column}");
    }
}

#[tokio::test]
async fn the_list_is_filtered_newest_first_and_goes_on_where_the_last_page_ended() {
    let db = TestDb::new().await;
    let (client, queue) = (db.client().await, Queue::default());
    let mut ids = Vec::new();
    for n in 0..5 {
        let new = NewNotification::new(if n % 2 == 0 { "even" } else { "odd" }, "ada").id(Uuid::from_u128(n));
        ids.push(queue.enqueue(&client, &new).await.unwrap());
    }
    db.psql("UPDATE notification_jobs SET status = 'failed' WHERE channel = 'even'")
        .await;
    let list = async |filter: JobFilter| -> Vec<u128> {
        let jobs = queue.list(&client, &filter).await.unwrap();
        jobs.iter().map(|job| job.id.as_u128()).collect()
    };
    assert_eq!(list(JobFilter::default()).await, [4, 3, 2, 1, 0]);
    assert_eq!(list(JobFilter::default().status(Status::Failed)).await, [4, 2, 0]);
    assert_eq!(list(JobFilter::default().channel("odd").limit(1)).await, [3]);
    assert_eq!(
        list(JobFilter::default().channel("even").before(ids[4]).limit(2)).await,
        [2, 0]
    );
    assert!(
        list(JobFilter::default().channel("even").status(Status::Pending))
            .await
            .is_empty()
    );
}

#[tokio::test]
async fn a_retry_says_for_each_id_what_became_of_it() {
    let db = TestDb::new().await;
    let (client, queue) = (db.client().await, Queue::default());
    let failed = row(
        &client,
        "status, attempts, last_error, expires_at",
        "'failed', 5, 'no', now()",
    )
    .await;
    let cancelled = row(&client, "status, expires_at", "'cancelled', 'infinity'").await;
    let delayed = row(&client, "attempts, next_attempt_at", "2, 'infinity'").await;
    let claimed = row(
        &client,
        "claimed_by, next_attempt_at",
        "gen_random_uuid(), now() + '1 min'",
    )
    .await;
    let sent = row(&client, "status", "'sent'").await;
    let twin = row(&client, "status, dedupe_key", "'failed', 'twin'").await;
    let later_twin = row(&client, "status, dedupe_key", "'expired', 'twin'").await;
    row(&client, "dedupe_key", "'taken'").await;
    let taken = row(&client, "status, dedupe_key", "'failed', 'taken'").await;

    let before = get(&queue, &client, claimed).await;
    let ids = [
        sent,
        failed,
        cancelled,
        delayed,
        claimed,
        Uuid::nil(),
        taken,
        twin,
        later_twin,
        failed,
    ];
    let retried = queue.retry(&client, &ids).await.unwrap();
    use Retried::{AlreadySent, BeingSent, Due, KeyTaken, NotFound};
    let expected = [
        AlreadySent,
        Due,
        Due,
        Due,
        BeingSent,
        NotFound,
        KeyTaken,
        Due,
        KeyTaken,
        Due,
    ];
    assert_eq!(retried, ids.into_iter().zip(expected).collect::<Vec<_>>());

    let job = get(&queue, &client, failed).await;
    assert!(
        job.status == Status::Pending && job.attempts == 0 && job.expires_at.is_none(),
        "{}",
        job.to_json()
    );
    assert_eq!(job.last_error.as_deref(), Some("no"));
    assert_eq!(
        get(&queue, &client, cancelled).await.expires_at.as_deref(),
        Some("infinity")
    );
    assert_eq!(get(&queue, &client, delayed).await.attempts, 2);
    assert_eq!(get(&queue, &client, claimed).await, before);
    assert_eq!(get(&queue, &client, taken).await.status, Status::Failed);
    let due =
        "SELECT count(*) FROM notification_jobs WHERE status = 'pending' AND next_attempt_at <= clock_timestamp()";
    assert_eq!(db.psql(due).await, "5");
}

#[tokio::test]
async fn a_retry_rings() {
    let db = TestDb::new().await;
    let (client, queue) = (db.client().await, Queue::default());
    let failed = row(&client, "status", "'failed'").await;
    let delayed = row(&client, "next_attempt_at", "now() + '1 hour'").await;
    let mut sleeper = Sleeper::new(&db.url(), "public").await;
    for id in [failed, delayed] {
        queue.retry(&client, &[id]).await.unwrap();
        sleeper.rung().await;
    }
}

#[tokio::test]
async fn a_retry_waits_for_a_settle_and_goes_by_what_it_wrote() {
    let db = TestDb::new().await;
    let (mut settler, client, queue) = (db.client().await, db.client().await, Queue::default());
    let id = row(&client, "claimed_by", "gen_random_uuid()").await;
    let settle = settler.transaction().await.unwrap();
    settle
        .batch_execute("UPDATE notification_jobs SET status = 'sent', claimed_by = NULL")
        .await
        .unwrap();
    let (retried, cancelled, ()) = tokio::join!(
        async { queue.retry(&client, &[id]).await.unwrap() },
        async { queue.cancel(&db.client().await, &[id]).await.unwrap() },
        async {
            let waiting =
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
            let limit = Duration::from_secs(5);
            let both = async || expect(db.psql(waiting).await == "2", "two must wait");
            eventually(limit, both).await;
            settle.commit().await.unwrap();
        }
    );
    assert_eq!(retried, [(id, Retried::AlreadySent)]);
    assert_eq!(cancelled, [(id, Cancelled::AlreadyOver(Status::Sent))]);
}

#[tokio::test]
async fn all_that_failed_is_retried_of_one_channel_or_of_all() {
    let db = TestDb::new().await;
    let (client, queue) = (db.client().await, Queue::default());
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, status)
         SELECT CASE WHEN n % 2 = 0 THEN 'even' ELSE 'odd' END, '', CASE WHEN n % 5 = 0 THEN 'failed' ELSE 'sent' END
         FROM generate_series(1, 5000) AS n",
    )
    .await;
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, status, dedupe_key)
         VALUES ('odd', '', 'pending', 'k'), ('odd', '', 'failed', 'k'), ('odd', '', 'expired', NULL)",
    )
    .await;
    let even = queue.retry_all_failed(&client, Some("even")).await.unwrap();
    assert_eq!((even.due, even.key_taken), (500, 0));
    let all = queue.retry_all_failed(&client, None).await.unwrap();
    assert_eq!((all.due, all.key_taken), (500, 1));
    assert_eq!(queue.retry_all_failed(&client, None).await.unwrap().due, 0);
    let counts = "SELECT status, count(*) FROM notification_jobs GROUP BY status ORDER BY status";
    assert_eq!(db.psql(counts).await, "expired|1\nfailed|1\npending|1001\nsent|4000");
}

#[tokio::test]
async fn a_cancel_says_for_each_id_what_became_of_it() {
    let db = TestDb::new().await;
    let (client, queue) = (db.client().await, Queue::default());
    let waiting = row(&client, "next_attempt_at", "'infinity'").await;
    let claimed = row(&client, "claimed_by, claim", "gen_random_uuid(), 3").await;
    let failed = row(&client, "status", "'failed'").await;
    let ids = [claimed, Uuid::nil(), waiting, failed];
    let cancelled = queue.cancel(&client, &ids).await.unwrap();
    let expected = [
        Cancelled::MayStillArrive,
        Cancelled::NotFound,
        Cancelled::Cancelled,
        Cancelled::AlreadyOver(Status::Failed),
    ];
    assert_eq!(cancelled, ids.into_iter().zip(expected).collect::<Vec<_>>());
    for id in [waiting, claimed] {
        let job = get(&queue, &client, id).await;
        assert!(job.status == Status::Cancelled && job.claimed_by.is_none());
    }
    let again = queue.cancel(&client, &[waiting]).await.unwrap();
    assert_eq!(again, [(waiting, Cancelled::AlreadyOver(Status::Cancelled))]);
}

#[tokio::test]
async fn a_purge_deletes_what_is_over_and_old_in_bounded_steps() {
    let db = TestDb::new().await;
    let (client, queue) = (db.client().await, Queue::default());
    db.psql(
        "INSERT INTO notification_jobs (channel, recipient, status, updated_at)
         SELECT 'ops', '', status, clock_timestamp() - age
         FROM unnest(ARRAY['pending', 'sent', 'failed', 'expired', 'cancelled']) AS status,
              unnest(ARRAY['2 days', '1 hour']::interval[]) AS age, generate_series(1, 50)",
    )
    .await;
    let day = Duration::from_secs(24 * 3600);
    let seven = NonZeroU32::new(7).unwrap();
    let step = queue.purge_step(&client, day, seven, None).await.unwrap();
    assert!(step.deleted <= 7 && step.next.is_some());
    let rest = queue.purge(&client, day, seven).await.unwrap();
    assert_eq!(step.deleted + rest, 200);
    assert_eq!(db.psql("SELECT count(*) FROM notification_jobs").await, "300");
    assert_eq!(queue.purge(&client, Duration::MAX, seven).await.unwrap(), 0);
    assert_eq!(
        queue.purge(&client, Duration::ZERO, NonZeroU32::MAX).await.unwrap(),
        200
    );
    assert_eq!(
        db.psql("SELECT DISTINCT status FROM notification_jobs").await,
        "pending"
    );
}

#[tokio::test]
async fn a_purge_waits_for_nobody() {
    let db = TestDb::new().await;
    let (client, queue) = (db.client().await, Queue::default());
    let locked = row(&client, "status", "'sent'").await;
    row(&client, "status", "'sent'").await;
    let mut holder = db.client().await;
    let held = holder.transaction().await.unwrap();
    held.query_one("SELECT FROM notification_jobs WHERE id = $1 FOR UPDATE", &[&locked])
        .await
        .unwrap();
    client.batch_execute("SET lock_timeout = '1ms'").await.unwrap();
    assert_eq!(queue.purge(&client, Duration::ZERO, NonZeroU32::MIN).await.unwrap(), 1);
    assert!(queue.get(&client, locked).await.unwrap().is_some());
}
