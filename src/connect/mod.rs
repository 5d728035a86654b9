//! How to reach the server: connection strings, the pool, connections of their own, TLS.
//!
//! `conninfo` takes a string apart, `parameters` adds the environment, `settings` makes sense of both with `hosts`,
//! `session`, `trust` and `identity` (all pure); `passfile` and `tls` read files, `connector` makes sessions, `builder` puts it
//! together; `loan` lends a connection of the pool, `path` finds out what lies between us and the server.

mod builder;
mod connector;
mod conninfo;
mod hosts;
mod identity;
mod loan;
mod parameters;
mod passfile;
mod path;
mod session;
mod settings;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod trust;

use std::fmt;
use std::sync::Arc;

use deadpool_postgres::{Client, Pool, PoolError, TimeoutType};
use tokio::sync::watch;
use tokio_postgres::Client as PgClient;

pub use self::builder::DatabaseBuilder;
use self::connector::Connector;
pub(crate) use self::connector::{Dedicated, KEEPALIVES, end_of};
pub(crate) use self::loan::Loan;
use self::parameters::Environment;
pub(crate) use self::path::Path;
use crate::Error;
use crate::schema::Schema;

/// A database with Doorbell's tables in one of its schemas, and a pool of connections to it. Cheap to clone: clones share
/// the pool.
///
/// # Connection strings
///
/// They are what `psql` takes: a URL, or words `key=value`. What they leave out comes from the `PG*` variables, from the
/// password file (`PGPASSFILE` or `~/.pgpass`), and from libpq's defaults; the user's name is that of `USER`. An empty
/// string leaves out everything. Several hosts are tried in turn. A parameter that cannot be honoured (`service`,
/// `sslcrl`, …) is an error, not disregarded.
///
/// A few differ from libpq: a connection attempt is limited to 5 s a host unless `connect_timeout` says otherwise, and
/// TCP notices a dead peer within a minute (`keepalives_idle` 30, `keepalives_interval` 10, `keepalives_count` 3,
/// `tcp_user_timeout` 30000).
///
/// # TLS
///
/// With the crate's feature `tls`, by `sslmode`:
///
/// | mode | encrypted | the server's certificate |
/// | --- | --- | --- |
/// | `disable` | no | |
/// | `prefer` (default), `allow` | if the server can | not looked at |
/// | `require` | yes | its chain is checked if there is a root certificate, else not looked at |
/// | `verify-ca` | yes | its chain is checked |
/// | `verify-full` | yes | its chain and its name are checked |
///
/// Root certificates are those of the PEM file `sslrootcert`, else of `~/.postgresql/root.crt` if it exists, else, for
/// `verify-full` alone, the operating system's, which are also had by `sslrootcert=system`. Names are those of the
/// certificate's subjectAltName, never its common name. On a Unix socket `sslmode` means nothing.
///
/// A certificate of our own is that of the PEM files `sslcert` and `sslkey`, else of `~/.postgresql/postgresql.crt` and
/// `postgresql.key` if there is the former. The key must not be encrypted, nor readable by others.
///
/// ```
/// use doorbell::Database;
///
/// let database = Database::builder("postgres://app@db/app?sslmode=verify-full").schema("notify").build();
/// # let wrong = Database::builder("postgres://app:secret@db/app?sslmode=perhaps").build().unwrap_err();
/// # assert!(wrong.is_config() && wrong.to_string().contains("sslmode"));
/// # let _ = database;
/// ```
#[derive(Clone)]
pub struct Database(Arc<Inner>);

struct Inner {
    pool: Pool,
    /// For the pool.
    connector: Connector,
    /// For sessions outside the pool.
    listener: Connector,
    has_listen_url: bool,
    /// To where `listener` leads.
    path: watch::Sender<Path>,
    schema: Schema,
}

impl Database {
    /// Begins the settings of a database, with its connection string.
    pub fn builder(url: impl Into<String>) -> DatabaseBuilder {
        DatabaseBuilder::new(url.into())
    }

    /// Begins the settings of the database that the environment names: `DOORBELL_DATABASE_URL`, else `DATABASE_URL`,
    /// else the `PG*` variables alone.
    pub fn from_env() -> DatabaseBuilder {
        DatabaseBuilder::new(Environment::of_process().database_url().to_owned())
    }

    /// A connection of the pool, for the application's own statements too. It goes back when it is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::is_connection`]: the server cannot be reached or lets nobody in; the message names host, database and
    /// user. [`Error::is_timeout`]: it did not answer in time, or every connection of the pool stayed in use.
    pub async fn client(&self) -> Result<Client, Error> {
        self.0.pool.get().await.map_err(|error| self.0.explain(error))
    }

    /// The most connections in the pool.
    pub(crate) fn pool_size(&self) -> usize {
        self.0.pool.status().max_size
    }

    /// The schema of the tables.
    pub(crate) fn schema(&self) -> &Schema {
        &self.0.schema
    }

    /// A connection outside the pool, straight to the server: from `listen_url` if there is one.
    pub(crate) async fn connect_dedicated(&self, application_name: &str) -> Result<Dedicated, Error> {
        self.0.listener.named(application_name).dedicated().await
    }

    /// Asks the server to cancel what runs on a connection, which is to be thrown away; waits for nothing.
    pub(crate) fn cancel(&self, client: &PgClient) {
        self.0.connector.cancel(client);
    }

    /// Whether the pool may lead through a transaction pooler, where two statements of one connection may run in two
    /// sessions: another address was given for LISTEN, or none is known not to be in between.
    pub(crate) fn may_be_pooled(&self) -> bool {
        self.0.has_listen_url || self.path() != Path::Direct
    }

    /// Whether sessions outside the pool have another address.
    pub(crate) fn has_listen_url(&self) -> bool {
        self.0.has_listen_url
    }
}

impl Inner {
    fn explain(&self, error: PoolError) -> Error {
        match error {
            PoolError::Backend(error) => self.connector.failed(error),
            PoolError::Timeout(TimeoutType::Wait) => {
                let size = self.pool.status().max_size;
                Error::timeout(format!("every connection of the pool (pool_size {size}) stayed in use"))
            }
            PoolError::Timeout(_) => self.connector.timed_out(),
            other => Error::from(other),
        }
    }
}

/// Names host, database and user; no password.
impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("connection", &self.0.connector.description())
            .field("schema", &self.0.schema)
            .field("pool_size", &self.0.pool.status().max_size)
            .field("may_be_pooled", &self.may_be_pooled())
            .finish_non_exhaustive()
    }
}
