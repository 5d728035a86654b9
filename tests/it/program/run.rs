//! `doorbell run`, with each sender that ships.

use axum::Router;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::routing::post;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::{Home, read};
use crate::support::TestDb;
use crate::support::program::{Process, doorbell, output};

/// A payload that a JSON library would change.
const PAYLOAD: &str = r#"{"n": 9007199254740993, "big": 1e400, "text": "é"}"#;

/// The same as PostgreSQL prints it: jsonb spells numbers out and sorts members.
async fn insert(db: &TestDb) -> (String, String) {
    let row = db
        .psql(&format!(
            "INSERT INTO notification_jobs (channel, recipient, payload) VALUES ('ops', '#alerts', '{PAYLOAD}')
             RETURNING id, payload"
        ))
        .await;
    let (id, payload) = row.split_once('|').unwrap();
    (id.to_owned(), payload.to_owned())
}

/// What every sender hands on, without the time, which is any.
fn handed_on(text: &str, id: &str, payload: &str) {
    let start = format!(
        r##"{{"id":"{id}","channel":"ops","recipient":"#alerts","payload":{payload},"attempt":1,"max_attempts":5,"##
    );
    let rest = text.strip_prefix(&start).unwrap_or_else(|| panic!("{text}"));
    let micros = rest
        .strip_prefix(r#""enqueued_to_send_us":"#)
        .and_then(|rest| rest.trim_end().strip_suffix('}'));
    micros.unwrap().parse::<u64>().unwrap();
}

#[tokio::test]
async fn the_log_sender_prints_a_line_of_json_on_standard_output() {
    let db = TestDb::new().await;
    let home = Home::new(&db, "[channels.ops]\nsender = 'log'");
    let mut process = Process::run(&home.config(), &[]).await;
    let (id, payload) = insert(&db).await;
    handed_on(&process.prints(&id).await, &id, &payload);
    db.becomes("sent=1").await;

    process.signal(Signal::SIGTERM);
    assert_eq!(process.exit().await.code(), Some(0));
    assert_eq!(process.stdout().len(), 1, "logs go to standard error");
    let ready: Vec<_> = process
        .stderr()
        .into_iter()
        .filter(|line| line.contains("ready"))
        .collect();
    assert!(
        ready.len() == 1 && ready[0].contains("listening, channels ops"),
        "{ready:?}"
    );
}

#[tokio::test]
async fn the_webhook_sender_posts_the_json_with_the_id_in_a_header() {
    let (keep, mut requests) = mpsc::unbounded_channel();
    let hook = post(async move |headers: HeaderMap, body: Bytes| keep.send((headers, body)).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, Router::new().route("/hook", hook)).into_future());

    let db = TestDb::new().await;
    let channel = "[channels.ops]\nsender = 'webhook'\nheaders = { 'x-team' = 'night shift' }";
    let home = Home::new(&db, &format!("{channel}\nurl = 'http://{address}/hook'"));
    let _process = Process::run(&home.config(), &[]).await;
    let (id, payload) = insert(&db).await;
    let (headers, body) = requests.recv().await.unwrap();
    assert_eq!(headers["webhook-id"], id.as_str());
    assert_eq!(headers["x-team"], "night shift");
    assert!(headers.contains_key("webhook-timestamp"));
    handed_on(std::str::from_utf8(&body).unwrap(), &id, &payload);
    db.becomes("sent=1").await;
}

#[tokio::test]
async fn the_command_sender_runs_the_program_with_the_json_on_its_standard_input() {
    let db = TestDb::new().await;
    let script = r#"cat > input && echo "$DOORBELL_ID $DOORBELL_CHANNEL $DOORBELL_ATTEMPT""#;
    let home = Home::with_script(&db, script, "");
    let _process = Process::run(&home.config(), &[]).await;
    let (id, payload) = insert(&db).await;
    db.becomes("sent=1").await;
    handed_on(&read(home.path("input")), &id, &payload);
    assert_eq!(
        db.value("SELECT receipt FROM notification_jobs").await,
        format!("{id} ops 1")
    );
}

#[tokio::test]
async fn settings_of_a_channel_are_those_of_the_file() {
    let db = TestDb::new().await;
    let settings = "retry = { linear = '10ms' }\non_unknown = 'hold'\ntimeout = '100ms'";
    let home = Home::with_script(
        &db,
        "echo x >> tries && [ $DOORBELL_ATTEMPT != 3 ] && exit 75; sleep 600",
        settings,
    );
    let _process = Process::run(&home.config(), &[]).await;
    db.insert("me").await;
    db.becomes("failed=1").await;
    assert_eq!(
        read(home.path("tries")),
        "x\nx\nx\n",
        "two tries that failed, and one that was held"
    );
}

#[tokio::test]
async fn where_it_cannot_listen_it_says_so_and_polls() {
    let db = TestDb::new().await;
    let home = Home::new(&db, "");
    // Nobody listens on port 1.
    home.configure(&format!(
        "[database]\nurl = {:?}\nlisten_url = 'postgres://u@127.0.0.1:1/d'\n[channels.ops]\nsender = 'log'",
        db.url()
    ));
    let process = Process::run(&home.config(), &[]).await;
    let ready = process.says("ready").await;
    assert!(
        ready.contains("polling") && ready.contains("Connection refused"),
        "{ready}"
    );
    let (id, _) = insert(&db).await;
    process.prints(&id).await;
}

#[tokio::test]
async fn without_tables_it_says_what_to_run_and_with_migrate_it_makes_them() {
    let db = TestDb::empty().await;
    let home = Home::new(&db, "schema = 'Näh\"e'\n[channels.ops]\nsender = 'log'");
    let refused = output(doorbell(["run", "--config"]).arg(home.config())).await;
    let complaint = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(complaint.contains("doorbell migrate up"), "{complaint}");

    let process = Process::run(&home.config(), &["--migrate"]).await;
    db.psql("INSERT INTO \"Näh\"\"e\".notification_jobs (channel, recipient) VALUES ('ops', 'me')")
        .await;
    let line: Value = serde_json::from_str(&process.prints("me").await).unwrap();
    assert_eq!(line["payload"], json!({}));
}

#[tokio::test]
async fn the_file_and_the_environment_give_way_to_the_arguments() {
    let (db, other) = (TestDb::new().await, TestDb::empty().await);
    let home = Home::new(&other, "[channels.ops]\nsender = 'log'");
    let mut command = doorbell(["run", "--config"]);
    command.arg(home.config()).args(["--database-url", &db.url()]);
    let process = Process::spawn(
        command
            .env("DOORBELL_DATABASE_URL", other.url())
            .env("DOORBELL_LOG", "error"),
    );
    process.says("ready").await;
    let (id, _) = insert(&db).await;
    process.prints(&id).await;
}
