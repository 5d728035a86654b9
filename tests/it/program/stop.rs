//! How `doorbell run` ends: in order, at once, or killed.

use std::fs;
use std::time::Duration;

use axum::Router;
use axum::http::HeaderMap;
use axum::routing::post;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::{Home, read};
use crate::support::program::{Process, doorbell};
use crate::support::{TestDb, eventually, expect};

const LIMIT: Duration = Duration::from_secs(20);

async fn exists(home: &Home, name: &str) {
    eventually(LIMIT, || async {
        expect(!read(home.path(name)).is_empty(), format!("no {name}"))
    })
    .await;
}

#[tokio::test]
async fn a_running_send_may_finish_after_the_first_signal() {
    let db = TestDb::new().await;
    let script = "echo begun > begun; until [ -e go ]; do sleep 0.02; done";
    let home = Home::with_script(&db, script, "");
    let mut process = Process::run(&home.config(), &[]).await;
    db.insert("me").await;
    exists(&home, "begun").await;
    process.signal(Signal::SIGTERM);
    process.says("stopping").await;
    fs::write(home.path("go"), "").unwrap();
    assert_eq!(process.exit().await.code(), Some(0));
    assert_eq!(db.statuses().await, "sent=1");
}

#[tokio::test]
async fn a_send_that_outlasts_the_grace_is_cut_off_and_given_back() {
    let db = TestDb::new().await;
    let home = Home::with_script(
        &db,
        "echo begun > begun; sleep 600",
        "[reactor]\nshutdown_grace = '100ms'",
    );
    let mut process = Process::run(&home.config(), &[]).await;
    db.insert("me").await;
    exists(&home, "begun").await;
    process.signal(Signal::SIGINT);
    assert_eq!(process.exit().await.code(), Some(0));
    let row = "SELECT concat_ws(' ', status, attempts, claimed_by) FROM notification_jobs";
    assert_eq!(db.value(row).await, "pending 0");
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once_with_what_it_runs() {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let db = TestDb::new().await;
        let home = Home::with_script(&db, "echo $$ > pid; sleep 600", "");
        let mut process = Process::run(&home.config(), &[]).await;
        db.insert("me").await;
        exists(&home, "pid").await;
        process.signal(signal);
        process.says("stopping").await;
        process.signal(signal);
        assert_eq!(process.exit().await.code(), Some(code));
        let script = Pid::from_raw(read(home.path("pid")).trim().parse().unwrap());
        eventually(LIMIT, || async {
            expect(kill(script, None).is_err(), "the script still runs")
        })
        .await;
        assert_eq!(db.statuses().await, "pending=1");
    }
}

#[tokio::test]
async fn signals_are_heard_while_the_server_cannot_be_reached() {
    let home = Home::new(&TestDb::empty().await, "");
    home.configure("[database]\nurl = 'postgres://u@127.0.0.1:1/d'\n[channels.ops]\nsender = 'log'");
    let mut process = Process::spawn(doorbell(["run", "--config"]).arg(home.config()));
    process.says("cannot be reached").await;
    process.signal(Signal::SIGTERM);
    assert_eq!(process.exit().await.code(), Some(0));
}

#[tokio::test]
async fn what_a_killed_process_was_sending_is_sent_again_with_the_same_id() {
    let (keep, mut requests) = mpsc::unbounded_channel();
    let answers_no_first_attempt = async move |headers: HeaderMap, body: String| {
        let body: Value = serde_json::from_str(&body).unwrap();
        let attempt = body["attempt"].as_u64().unwrap();
        keep.send((headers["webhook-id"].to_str().unwrap().to_owned(), attempt))
            .unwrap();
        if attempt == 1 {
            std::future::pending::<()>().await;
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(post(answers_no_first_attempt));
    tokio::spawn(axum::serve(listener, router).into_future());

    let db = TestDb::new().await;
    let tables = format!("[reactor]\nlease = '1s'\n[channels.ops]\nsender = 'webhook'\nurl = 'http://{address}/'");
    let home = Home::new(&db, &tables);
    let mut first = Process::run(&home.config(), &[]).await;
    db.insert("me").await;
    let (id, attempt) = requests.recv().await.unwrap();
    assert_eq!(attempt, 1);
    first.signal(Signal::SIGKILL);
    assert_eq!(first.exit().await.code(), None);

    let _second = Process::run(&home.config(), &[]).await;
    let again = tokio::time::timeout(LIMIT, requests.recv()).await.unwrap();
    assert_eq!(again.unwrap(), (id, 2));
    db.becomes("sent=1").await;
}
