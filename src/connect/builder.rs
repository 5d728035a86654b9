//! Settings of a [`Database`], checked in one place.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Pool, QueueMode, RecyclingMethod, Runtime};
use tokio::sync::watch;
use tokio_postgres::Config;

use super::connector::Connector;
use super::parameters::Environment;
use super::settings::Settings;
use super::{Database, Inner, Path};
use crate::Error;
use crate::schema::Schema;

/// How long a connection that comes back to the pool may take to be found in order.
const RECYCLE_TIMEOUT: Duration = Duration::from_secs(2);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(600);

/// Settings of a [`Database`]; see [`Database::builder`].
#[derive(Clone)]
#[must_use]
pub struct DatabaseBuilder {
    url: String,
    listen_url: Option<String>,
    schema: String,
    pool_size: usize,
    application_name: Option<String>,
    session_options: Option<&'static str>,
    connect_timeout: Option<Duration>,
    wait_timeout: Duration,
}

impl DatabaseBuilder {
    pub(super) fn new(url: String) -> Self {
        DatabaseBuilder {
            url,
            listen_url: None,
            schema: "public".to_owned(),
            pool_size: 4,
            application_name: None,
            session_options: None,
            connect_timeout: None,
            wait_timeout: Duration::from_secs(5),
        }
    }

    /// Where to connect for LISTEN, in the same forms as the URL. Give it when the URL goes through a pooler such as
    /// PgBouncer: LISTEN needs an address without one. Statements on the pool are then never prepared by name, since
    /// the pooler may hand each to another session. Default: the URL.
    pub fn listen_url(mut self, url: impl Into<String>) -> Self {
        self.listen_url = Some(url.into());
        self
    }

    /// The schema of Doorbell's tables. Any name of 1 to 63 bytes that does not begin with `pg_`. Default: `public`.
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// The most connections in the pool, beside the two that a reactor keeps for itself. They are opened when needed. 1 to
    /// 1,000; a reactor needs 2. Default: 4, so that a reactor's claim, settle and lease renewal and one call of the
    /// application's never wait for each other. Sends hold none, except while the one whose turn it is reads a large payload.
    pub fn pool_size(mut self, connections: usize) -> Self {
        self.pool_size = connections;
        self
    }

    /// The name that `pg_stat_activity` shows for the pool's connections. Default: what the URL or `PGAPPNAME` says,
    /// else `doorbell`.
    pub fn application_name(mut self, name: impl Into<String>) -> Self {
        self.application_name = Some(name.into());
        self
    }

    /// Settings of every session beside those of the URL and `PGOPTIONS`, and in the same form: `-c name=value`. They
    /// outrank those.
    #[cfg(feature = "program")]
    pub(crate) fn session_options(mut self, options: &'static str) -> Self {
        self.session_options = Some(options);
        self
    }

    /// How long one host may take to give a session, from the look-up of its name to the end of the log-in, and each of
    /// its addresses half as long to accept. Several hosts may each take as long. 1 ms to 10 minutes. Default: what the
    /// URL or `PGCONNECT_TIMEOUT` says, else 5 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// How long to wait for a connection while all of the pool are in use. 1 ms to 10 minutes. Default: 5 s.
    pub fn wait_timeout(mut self, timeout: Duration) -> Self {
        self.wait_timeout = timeout;
        self
    }

    /// Checks every setting and reads the files they name (password file, root certificates), without connecting.
    ///
    /// # Errors
    ///
    /// [`Error::is_config`]: a setting is wrong, and the message names it; it never shows a password.
    pub fn build(self) -> Result<Database, Error> {
        self.build_in(&Environment::of_process())
    }

    pub(super) fn build_in(self, environment: &Environment) -> Result<Database, Error> {
        self.check_ranges()?;
        let schema = Schema::new(self.schema.as_str())?;
        let connector = self.connector("url", &self.url, environment)?;
        let listener = match &self.listen_url {
            Some(url) => self.connector("listen_url", url, environment)?,
            None => connector.clone(),
        };
        let named = connector.application_name().map(str::to_owned);
        let application_name = self.application_name.or(named).unwrap_or_else(|| "doorbell".to_owned());
        let path = watch::Sender::new(Path::Unknown);
        let mut connector = connector.named(&application_name);
        if self.listen_url.is_none() {
            connector = connector.on(path.subscribe());
        }
        Ok(Database(Arc::new(Inner {
            pool: pool(&connector, self.pool_size, self.wait_timeout)?,
            connector,
            listener,
            has_listen_url: self.listen_url.is_some(),
            path,
            schema,
        })))
    }

    fn check_ranges(&self) -> Result<(), Error> {
        if !(1..=1000).contains(&self.pool_size) {
            let size = self.pool_size;
            return Err(Error::config(format!("pool_size is {size}; it must be from 1 to 1000")));
        }
        let timeouts = [
            ("connect_timeout", self.connect_timeout.unwrap_or(LONGEST_TIMEOUT)),
            ("wait_timeout", self.wait_timeout),
        ];
        for (name, timeout) in timeouts {
            if timeout < Duration::from_millis(1) || timeout > LONGEST_TIMEOUT {
                return Err(Error::config(format!(
                    "{name} is {timeout:?}; it must be from 1ms to 10m"
                )));
            }
        }
        Ok(())
    }

    fn connector(&self, setting: &str, url: &str, environment: &Environment) -> Result<Connector, Error> {
        let settings = Settings::read(url, environment);
        let mut settings = settings.map_err(|flaw| Error::config(format!("{setting}: {flaw}")))?;
        if let Some(options) = self.session_options {
            settings.add_options(options);
        }
        Connector::new(&settings, self.connect_timeout)
    }
}

/// Hides the URLs: they may have passwords in them.
impl fmt::Debug for DatabaseBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseBuilder")
            .field("schema", &self.schema)
            .field("pool_size", &self.pool_size)
            .field("application_name", &self.application_name)
            .field("connect_timeout", &self.connect_timeout)
            .field("wait_timeout", &self.wait_timeout)
            .finish_non_exhaustive()
    }
}

fn pool(connector: &Connector, size: usize, wait_timeout: Duration) -> Result<Pool, Error> {
    let config = ManagerConfig {
        recycling_method: RecyclingMethod::Fast,
    };
    // The connector has the settings, one set for each host; the manager's own stay empty.
    let manager = Manager::from_connect(Config::new(), connector.clone(), config);
    Pool::builder(manager)
        .max_size(size)
        // The connection that was used last: its backend is awake, and its plans are made.
        .queue_mode(QueueMode::Lifo)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(wait_timeout))
        .create_timeout(Some(connector.limit()))
        .recycle_timeout(Some(RECYCLE_TIMEOUT))
        .build()
        .map_err(|error| Error::config("the pool cannot be set up").because(error))
}
