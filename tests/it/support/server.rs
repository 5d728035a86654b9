//! The server of this test process: one of our own, or the one that `DOORBELL_TEST_URL` names (as a superuser).

use std::env;
use std::path::PathBuf;
use std::sync::OnceLock;

use doorbell::embedded;

pub(crate) enum Server {
    // Never dropped, as nothing static is; its watchdog ends it with this process.
    Own(Box<embedded::Server>),
    Existing(String),
}

impl Server {
    pub(crate) fn get() -> &'static Server {
        static SERVER: OnceLock<Server> = OnceLock::new();
        SERVER.get_or_init(|| match env::var("DOORBELL_TEST_URL") {
            Ok(url) => Server::Existing(url),
            Err(_) => Server::Own(Box::new(start())),
        })
    }

    /// The URL of a database. Its name needs no encoding.
    pub(crate) fn url(&self, database: &str) -> String {
        match self {
            Server::Own(server) => server.url(database),
            Server::Existing(url) => with_database(url, database),
        }
    }
}

/// A client program (`psql`, `pg_dump`): the one that came with our own server, or the one on `PATH`, where not every
/// package puts it.
pub(crate) fn client_program(name: &str) -> PathBuf {
    let own = match Server::get() {
        Server::Own(server) => Some(server.bin_dir().join(name)),
        Server::Existing(_) => None,
    };
    own.filter(|program| program.exists())
        .unwrap_or_else(|| PathBuf::from(name))
}

fn start() -> embedded::Server {
    // Two-phase producers are among the tests; so are many tests at once.
    let server = embedded::Server::builder().fast_and_fragile();
    let server = server
        .setting("max_prepared_transactions", "10")
        .setting("max_connections", "300");
    server.start().unwrap()
}

/// The same URL with another database.
fn with_database(url: &str, database: &str) -> String {
    let (address, parameters) = url.split_at(url.find('?').unwrap_or(url.len()));
    let (scheme, path) = address.split_once("://").unwrap();
    let server = path.split('/').next().unwrap();
    format!("{scheme}://{server}/{database}{parameters}")
}

#[test]
fn the_database_of_a_url_is_replaced() {
    assert_eq!(with_database("postgres://u@h:1/a?b=c", "x"), "postgres://u@h:1/x?b=c");
    assert_eq!(with_database("postgres:///a?host=/tmp", "x"), "postgres:///x?host=/tmp");
    assert_eq!(with_database("postgres://h", "x"), "postgres://h/x");
}
