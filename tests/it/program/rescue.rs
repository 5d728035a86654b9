//! Processes that die, freeze, or kill one another by what they send.

use std::time::Duration;

use axum::Router;
use axum::routing::post;
use futures::future::join_all;
use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use super::{Home, read};
use crate::support::program::{Process, doorbell};
use crate::support::{TestDb, eventually, expect, on_duty};

const LIMIT: Duration = Duration::from_secs(20);
const ROWS: usize = 20;

/// A provider that answers no first attempt until it is told to, and every other at once.
struct Provider {
    url: String,
    requests: mpsc::UnboundedReceiver<u64>,
    answers: watch::Sender<bool>,
}

impl Provider {
    async fn new() -> Self {
        let (keep, requests) = mpsc::unbounded_channel();
        let answers = watch::Sender::new(false);
        let answered = answers.clone();
        let answer = async move |body: String| {
            let body: Value = serde_json::from_str(&body).unwrap();
            let attempt = body["attempt"].as_u64().unwrap();
            keep.send(attempt).unwrap();
            if attempt == 1 {
                answered.subscribe().wait_for(|answers| *answers).await.unwrap();
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, Router::new().fallback(post(answer))).into_future());
        Provider { url, requests, answers }
    }

    /// The attempts of so many requests.
    async fn requests(&mut self, count: usize) -> Vec<u64> {
        let mut attempts = Vec::new();
        for _ in 0..count {
            let request = tokio::time::timeout(LIMIT, self.requests.recv()).await;
            attempts.push(request.unwrap().unwrap());
        }
        attempts
    }

    fn home(&self, db: &TestDb, settings: &str) -> Home {
        let channel = "[channels.ops]\nsender = 'webhook'\nmax_in_flight = 32\ntimeout = '10m'";
        Home::new(db, &format!("{settings}\n{channel}\nurl = '{}'", self.url))
    }
}

async fn insert(db: &TestDb, rows: usize) {
    db.psql(&format!(
        "INSERT INTO notification_jobs (channel, recipient) SELECT 'ops', n FROM generate_series(1, {rows}) AS n"
    ))
    .await;
}

/// Statuses with the attempts they took, as `sent 2 20`.
async fn outcome(db: &TestDb) -> String {
    let counts = "SELECT status, attempts, count(*) FROM notification_jobs GROUP BY status, attempts";
    db.value(&format!(
        "SELECT string_agg(concat_ws(' ', status, attempts, count), ', ' ORDER BY status, attempts) FROM ({counts}) AS c"
    ))
    .await
}

/// So much longer than these tests wait that what is sent again was rescued. How soon is for `benches/rescue.rs` to say.
const LONG_LEASE: &str = "[reactor]\nlease = '10m'";

#[tokio::test]
async fn what_a_killed_process_was_sending_is_sent_by_another() {
    let (db, mut provider) = (TestDb::new().await, Provider::new().await);
    let home = provider.home(&db, LONG_LEASE);
    let mut first = Process::run(&home.config(), &[]).await;
    insert(&db, ROWS).await;
    assert_eq!(provider.requests(ROWS).await, [1; ROWS]);
    let _second = Process::run(&home.config(), &[]).await;
    on_duty(&db.client().await, 2).await;
    first.signal(Signal::SIGKILL);
    assert_eq!(provider.requests(ROWS).await, [2; ROWS]);
    first.exit().await;
    db.becomes("sent=20").await;
    assert_eq!(outcome(&db).await, "sent 2 20");
    assert_eq!(db.value("SELECT count(*) FROM notification_reactors").await, "1");
}

#[tokio::test]
async fn what_a_killed_process_was_sending_is_sent_by_its_successor() {
    let (db, mut provider) = (TestDb::new().await, Provider::new().await);
    let home = provider.home(&db, LONG_LEASE);
    let mut first = Process::run(&home.config(), &[]).await;
    insert(&db, ROWS).await;
    assert_eq!(provider.requests(ROWS).await, [1; ROWS]);
    first.signal(Signal::SIGKILL);
    first.exit().await;
    let _second = Process::run(&home.config(), &[]).await;
    assert_eq!(provider.requests(ROWS).await, [2; ROWS]);
    db.becomes("sent=20").await;
    assert_eq!(outcome(&db).await, "sent 2 20");
}

#[tokio::test]
async fn what_a_killed_process_was_sending_is_held_where_nothing_is_sent_twice() {
    let (db, mut provider) = (TestDb::new().await, Provider::new().await);
    let home = provider.home(&db, "");
    let text = read(home.config()) + "\non_unknown = 'hold'";
    home.configure(&text);
    let mut first = Process::run(&home.config(), &[]).await;
    insert(&db, 1).await;
    provider.requests(1).await;
    let _second = Process::run(&home.config(), &[]).await;
    on_duty(&db.client().await, 2).await;
    first.signal(Signal::SIGKILL);
    first.exit().await;
    db.becomes("failed=1").await;
    let row = db
        .value("SELECT concat_ws(' ', attempts, updated_at < created_at + interval '25 s', last_error) FROM notification_jobs")
        .await;
    assert!(row.starts_with("1 t held: the reactor died"), "{row}");
    assert!(provider.requests.is_empty(), "it was sent a second time");
}

#[tokio::test]
async fn a_frozen_process_loses_its_row_to_the_lease_alone_and_recovers_by_itself() {
    let (db, mut provider) = (TestDb::new().await, Provider::new().await);
    let home = provider.home(&db, "[reactor]\nlease = '3s'");
    let first = Process::run(&home.config(), &[]).await;
    insert(&db, 1).await;
    assert_eq!(provider.requests(1).await, [1]);
    let mut second = Process::run(&home.config(), &[]).await;
    on_duty(&db.client().await, 2).await;
    first.signal(Signal::SIGSTOP);
    assert_eq!(provider.requests(1).await, [2]);
    db.becomes("sent=1").await;
    let (row, dead) = (
        db.psql("SELECT * FROM notification_jobs").await,
        "SELECT count(*) FROM notification_reactors WHERE NOT dead AND lock_key <> 0",
    );
    db.psql("SELECT pg_sleep(2.5)").await;
    assert_eq!(db.value(dead).await, "2", "its lock lives on");
    second.signal(Signal::SIGTERM);
    second.exit().await;

    first.signal(Signal::SIGCONT);
    provider.answers.send_replace(true);
    insert(&db, 1).await;
    assert_eq!(provider.requests(1).await, [1]);
    db.becomes("sent=2").await;
    let id = row.split('|').next().unwrap();
    assert_eq!(
        db.psql(&format!("SELECT * FROM notification_jobs WHERE id = '{id}'"))
            .await,
        row
    );
}

#[tokio::test]
async fn a_row_that_kills_whoever_sends_it_runs_out_of_attempts_and_takes_no_other_along() {
    let db = TestDb::new().await;
    let script = "case $(cat) in *poison*) kill -9 $PPID; sleep 600;; *) sleep 0.2;; esac";
    let home = Home::with_script(&db, script, "");
    let restarting = (0..3).map(|_| async {
        loop {
            let mut process = Process::spawn(doorbell(["run", "--config"]).arg(home.config()));
            process.ended().await;
        }
    });
    let finished = async {
        on_duty(&db.client().await, 3).await;
        db.psql(
            "INSERT INTO notification_jobs (channel, recipient)
             SELECT 'ops', CASE n WHEN 5 THEN 'poison' ELSE n::text END FROM generate_series(1, 10) AS n",
        )
        .await;
        eventually(Duration::from_secs(100), || async {
            let now = db.statuses().await;
            expect(now == "failed=1 sent=9", now)
        })
        .await;
    };
    tokio::select! {
        () = finished => {}
        _ = join_all(restarting) => {}
    }
    let poison = "SELECT concat_ws(' ', attempts, last_error) FROM notification_jobs WHERE recipient = 'poison'";
    let poison = db.value(poison).await;
    assert!(poison.starts_with("5 gave up: "), "{poison}");
}

#[tokio::test]
async fn a_process_that_dies_of_the_first_row_that_it_sends_leaves_it_to_its_successor() {
    let db = TestDb::new().await;
    let script = "[ -e died ] || { touch died; kill -9 $PPID; sleep 600; }";
    let home = Home::with_script(&db, script, LONG_LEASE);
    insert(&db, 1).await;
    // Long enough that the row would be sent before.
    db.psql(
        "CREATE FUNCTION doze() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.1); RETURN NEW; END';
         CREATE TRIGGER slow_to_be_seen BEFORE UPDATE ON notification_reactors FOR EACH ROW EXECUTE FUNCTION doze()",
    )
    .await;
    let mut first = Process::spawn(doorbell(["run", "--config"]).arg(home.config()));
    first.ended().await;
    let _second = Process::run(&home.config(), &[]).await;
    db.becomes("sent=1").await;
    assert_eq!(outcome(&db).await, "sent 2 1");
}
