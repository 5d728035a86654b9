//! Reaching a server, and what it says when that fails.

mod server;
mod tls;

use std::fs::{Permissions, set_permissions, write};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use doorbell::{Database, Error};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::time::timeout;

use self::server::{PLAIN, one};
use crate::support::TestDb;

/// Far more than any limit that these tests set, and less than the 5 s that are the default.
const PATIENCE: Duration = Duration::from_secs(4);

/// Without its password, and without those of whoever runs the tests.
fn plain_url() -> String {
    format!(
        "host=127.0.0.1 port={} user=postgres dbname=postgres passfile=/nowhere",
        PLAIN.port()
    )
}

async fn refusal(url: &str) -> Error {
    let database = Database::builder(url).build().unwrap();
    database.client().await.unwrap_err()
}

#[tokio::test]
async fn connections_bear_the_name_they_are_given() {
    let db = TestDb::empty().await;
    let question = "SELECT current_setting('application_name')";
    assert_eq!(one(&Database::builder(db.url()), question).await, "doorbell");
    let named = format!("{}&application_name=shop", db.url());
    assert_eq!(one(&Database::builder(&named), question).await, "shop");
    assert_eq!(
        one(&Database::builder(&named).application_name("mail"), question).await,
        "mail"
    );
}

#[tokio::test]
async fn a_wrong_password_error_names_the_user_and_never_the_password() {
    let url = format!("{} password=hunter2", plain_url());
    let builder = Database::builder(&url);
    assert!(!format!("{builder:?}").contains("hunter2"));
    let database = builder.build().unwrap();
    assert!(!format!("{database:?}").contains("hunter2"));

    let error = database.client().await.unwrap_err();
    assert!(error.is_connection() && error.sqlstate() == Some("28P01"), "{error:?}");
    let place = format!(
        r#"database "postgres" at 127.0.0.1, port {} as user "postgres""#,
        PLAIN.port()
    );
    assert!(error.to_string().contains(&place), "{error}");
    assert!(error.chain().contains("password authentication failed"), "{error:?}");
    assert!(!format!("{error:?}").contains("hunter2"));
}

#[tokio::test]
async fn the_password_file_is_used_unless_others_may_read_it() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("pgpass");
    let line = format!("127.0.0.1:{}:*:postgres:{}\n", PLAIN.port(), PLAIN.password());
    write(&file, format!("# ours\nelsewhere:*:*:*:wrong\n{line}")).unwrap();
    let url = format!("{} passfile={}", plain_url(), file.display());

    set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    assert_eq!(
        one(&Database::builder(&url), "SELECT current_user::text").await,
        "postgres"
    );
    set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    let error = refusal(&url).await;
    assert!(error.chain().contains("password missing"), "{error:?}");
}

#[tokio::test]
async fn a_server_that_never_answers_costs_the_time_limit_and_no_more() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://app@{}/shop?sslmode=disable", silent.local_addr().unwrap());
    let limit = Duration::from_millis(100);
    let database = Database::builder(url).connect_timeout(limit).build().unwrap();
    let start = Instant::now();
    let error = timeout(PATIENCE, database.client()).await.unwrap().unwrap_err();
    assert!(
        error.is_timeout() && error.to_string().contains(r#"database "shop" at 127.0.0.1"#),
        "{error:?}"
    );
    assert!(start.elapsed() >= limit, "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_host_that_is_silent_or_down_makes_way_for_the_next() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let down = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (silent, port) = (silent.local_addr().unwrap().port(), PLAIN.port());
    let hosts = format!(
        "host=127.0.0.1,127.0.0.1,127.0.0.1 port={},{silent},{port}",
        down.port()
    );
    let url = format!("{hosts} user=postgres password={}", PLAIN.password());
    let builder = Database::builder(url).connect_timeout(Duration::from_millis(500));
    assert_eq!(one(&builder, "SELECT inet_server_port()::text").await, port.to_string());
}

#[tokio::test]
async fn a_session_that_cannot_write_is_refused_if_one_that_can_was_asked_for() {
    let db = TestDb::empty().await;
    db.set_default("default_transaction_read_only", "on").await;
    let error = refusal(&format!("{}&target_session_attrs=read-write", db.url())).await;
    assert!(error.chain().contains("does not allow writes"), "{error:?}");
    assert_eq!(
        one(&Database::builder(db.url()), "SHOW transaction_read_only").await,
        "on"
    );
}

#[tokio::test]
async fn waiting_for_a_connection_that_never_comes_back_ends_in_an_error() {
    let db = TestDb::empty().await;
    let builder = Database::builder(db.url())
        .pool_size(1)
        .wait_timeout(Duration::from_millis(50));
    let database = builder.build().unwrap();
    let taken = database.client().await.unwrap();
    let error = timeout(PATIENCE, database.client()).await.unwrap().unwrap_err();
    assert!(
        error.is_timeout() && error.to_string().contains("pool_size 1"),
        "{error:?}"
    );
    drop(taken);
    assert!(database.client().await.is_ok());
}

#[test]
fn a_wrong_setting_is_named_before_anything_connects() {
    let message = |builder: doorbell::DatabaseBuilder| {
        let error = builder.build().unwrap_err();
        assert!(error.is_config(), "{error:?}");
        error.to_string()
    };
    let good = || Database::builder("postgres://app@db/app");
    assert!(good().build().is_ok());
    assert!(message(Database::builder("postgres://app@db/app?sslmode=on")).starts_with("url: sslmode"));
    assert!(message(good().listen_url("user=u port=x")).starts_with("listen_url: port"));
    assert!(message(good().schema("pg_x")).contains("schema"));
    assert!(message(good().pool_size(0)).contains("pool_size"));
    assert!(message(good().wait_timeout(Duration::ZERO)).contains("wait_timeout"));
    assert!(message(good().connect_timeout(Duration::MAX)).contains("connect_timeout"));
    let missing = Database::builder("postgres://app@db/app?sslmode=verify-full&sslrootcert=/nowhere");
    assert!(message(missing).contains("/nowhere"));
}
