//! A database for each test. A schema would not do: notifications are per database.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::process;

use doorbell::{Migrator, Uuid};
use tokio::sync::OnceCell;
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{Client, Config, Connection, NoTls, Socket};

use super::server::{Server, client_program};

/// A fresh database with the tables in schema `public`. Dropped with the value, whoever is still connected.
pub(crate) struct TestDb {
    name: String,
}

impl TestDb {
    pub(crate) async fn new() -> Self {
        TestDb::clone_of(template().await).await
    }

    /// A database without the tables.
    pub(crate) async fn empty() -> Self {
        TestDb::clone_of("template0").await
    }

    /// A database with the tables that takes any bytes for text.
    pub(crate) async fn of_any_bytes() -> Self {
        let db = TestDb::clone_of("template0 ENCODING 'SQL_ASCII' LOCALE 'C'").await;
        Migrator::new("public")
            .unwrap()
            .up(&mut db.client().await)
            .await
            .unwrap();
        db
    }

    async fn clone_of(template: &str) -> Self {
        let name = format!("doorbell_test_{}", Uuid::now_v7().simple());
        let admin = connect(&Server::get().url("postgres")).await;
        admin
            .batch_execute(&format!("CREATE DATABASE {name} TEMPLATE {template}"))
            .await
            .unwrap();
        TestDb { name }
    }

    pub(crate) fn url(&self) -> String {
        Server::get().url(&self.name)
    }

    /// A connection of its own, as if nobody had set any defaults.
    pub(crate) async fn client(&self) -> Client {
        let mut config: Config = self.url().parse().unwrap();
        let config = config.options("-c statement_timeout=0 -c search_path=public");
        drive(config.connect(NoTls).await.unwrap())
    }

    /// A connection that the server knows by this `application_name`.
    pub(crate) async fn client_named(&self, application_name: &str) -> Client {
        let mut config: Config = self.url().parse().unwrap();
        drive(config.application_name(application_name).connect(NoTls).await.unwrap())
    }

    /// What the real `psql` prints for these statements: values apart by `|`, rows by line ends. Fails if one fails.
    pub(crate) async fn psql(&self, sql: &str) -> String {
        let mut psql = tokio::process::Command::new(client_program("psql"));
        psql.args(["--no-psqlrc", "-qAt", "-v", "ON_ERROR_STOP=1", "-c", sql, &self.url()]);
        let output = psql.kill_on_drop(true).output().await.unwrap();
        assert!(
            output.status.success(),
            "{sql}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// Cuts off every session of this database whose `application_name` is `LIKE` the pattern, and counts them.
    pub(crate) async fn terminate_backends(&self, application_name: &str) -> i64 {
        let admin = connect(&Server::get().url("postgres")).await;
        let statement = "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
                         WHERE datname = $1 AND application_name LIKE $2";
        admin
            .query_one(statement, &[&self.name, &application_name])
            .await
            .unwrap()
            .try_get(0)
            .unwrap()
    }

    /// Whether new sessions are let in. Those that there are stay.
    pub(crate) async fn let_in(&self, allow: bool) {
        let admin = connect(&Server::get().url("postgres")).await;
        let statement = format!("ALTER DATABASE {} ALLOW_CONNECTIONS {allow}", self.name);
        admin.batch_execute(&statement).await.unwrap();
    }

    /// What a setting is in every session of this database that begins from now on.
    pub(crate) async fn set_default(&self, setting: &str, value: &str) {
        let admin = connect(&Server::get().url("postgres")).await;
        let statement = format!("ALTER DATABASE {} SET {setting} = '{value}'", self.name);
        admin.batch_execute(&statement).await.unwrap();
    }
}

impl Drop for TestDb {
    fn drop(&mut self) {
        // By psql, since the runtime of this test may be blocked or gone.
        let statement = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let mut psql = process::Command::new(client_program("psql"));
        let dropped = psql.args(["-Xqc", &statement, &Server::get().url("postgres")]).output();
        if !std::thread::panicking() {
            assert!(dropped.unwrap().status.success(), "{} cannot be dropped", self.name);
        }
    }
}

/// Connects, and drives the connection for as long as the runtime lives.
pub(crate) async fn connect(url: &str) -> Client {
    drive(tokio_postgres::connect(url, NoTls).await.unwrap())
}

fn drive((client, connection): (Client, Connection<Socket, NoTlsStream>)) -> Client {
    tokio::spawn(connection);
    client
}

/// The database that all others are copies of. Its name says what is in it, since on a server that is not ours it stays,
/// and another version of the tables may come by.
async fn template() -> &'static str {
    static TEMPLATE: OnceCell<String> = OnceCell::const_new();
    let made = TEMPLATE.get_or_init(|| async {
        let mut hasher = DefaultHasher::new();
        Migrator::new("public").unwrap().print_up(0).hash(&mut hasher);
        let name = format!("doorbell_template_{:016x}", hasher.finish());
        make_template(&name).await;
        name
    });
    made.await
}

async fn make_template(name: &str) {
    let admin = connect(&Server::get().url("postgres")).await;
    // Another test process may be at it. The lock goes with the session.
    admin
        .batch_execute("SELECT pg_advisory_lock(hashtext('doorbell test template'))")
        .await
        .unwrap();
    let exists = admin
        .query("SELECT FROM pg_database WHERE datname = $1", &[&name])
        .await
        .unwrap();
    if !exists.is_empty() {
        return;
    }
    // Renamed when it is complete: what an interrupted run leaves is not taken for a template.
    let unfinished = format!("{name}_new");
    admin
        .batch_execute(&format!("DROP DATABASE IF EXISTS {unfinished}"))
        .await
        .unwrap();
    admin
        .batch_execute(&format!("CREATE DATABASE {unfinished} TEMPLATE template0"))
        .await
        .unwrap();
    migrate(&Server::get().url(&unfinished)).await;
    admin
        .batch_execute(&format!("ALTER DATABASE {unfinished} RENAME TO {name}"))
        .await
        .unwrap();
}

async fn migrate(url: &str) {
    let (mut client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let driven = tokio::spawn(connection);
    Migrator::new("public").unwrap().up(&mut client).await.unwrap();
    // Nobody may be connected to a database that is renamed or copied.
    drop(client);
    driven.await.unwrap().unwrap();
}
