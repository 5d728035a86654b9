//! Makes sessions: host by host, each within a time limit that covers all of it.

use std::error::Error as StdError;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::Pin;
use std::time::Duration;

use deadpool_postgres::Connect;
use futures::future::BoxFuture;
use futures::{Stream, StreamExt, stream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Socket};

use super::hosts::Host;
use super::passfile;
use super::path::Path;
use super::settings::Settings;
use super::tls::{self, Tls};
use crate::Error;

/// How long one host may take, where nobody says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes the server notice within a minute that we are gone without a word, as we notice that it is. By default it would keep
/// a place among `max_connections` for us for hours, with all that the session holds.
pub(crate) const KEEPALIVES: &str = "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; \
     SET tcp_keepalives_count = 3; SET tcp_user_timeout = 30000";

/// The task of a session, which somebody has to drive.
type Driver = Connection<Socket, <Tls as MakeTlsConnect<Socket>>::Stream>;

/// A session that is no part of the pool.
pub(crate) struct Dedicated {
    /// The session lasts as long as this does.
    pub(crate) client: Client,
    /// What the server sends by itself. Nothing of the session moves unless this is polled. An error is the end, as is
    /// the end: do not poll again.
    pub(crate) messages: Messages,
}

/// The messages of a [`Dedicated`] session: notifications, notices, and what became of it.
pub(crate) type Messages = Pin<Box<dyn Stream<Item = Result<AsyncMessage, tokio_postgres::Error>> + Send>>;

/// Lets a session move on, and answers with why it ended.
pub(crate) async fn end_of(mut messages: Messages) -> Error {
    while let Some(message) = messages.next().await {
        if let Err(error) = message {
            return Error::from(error);
        }
    }
    Error::connection("the server closed the session")
}

/// Everything needed to make a session with a server that may have several hosts.
#[derive(Clone)]
pub(super) struct Connector {
    /// One for each host, since password and TLS depend on the host. At least one.
    targets: Vec<Config>,
    shuffle: bool,
    tls: Tls,
    /// For one host.
    limit: Duration,
    /// Database, hosts and user, for messages.
    description: String,
    /// To where this leads, as far as that is found out. None: not to where that is found out.
    path: Option<watch::Receiver<Path>>,
}

impl Connector {
    /// Reads the files that the settings name: password file and root certificates.
    pub(super) fn new(settings: &Settings, limit: Option<Duration>) -> Result<Self, Error> {
        let limit = limit.or(settings.connect_timeout).unwrap_or(CONNECT_TIMEOUT);
        let passwords = match settings.session.get_password() {
            None => settings.passfile.as_deref().and_then(passfile::read),
            Some(_) => None,
        };
        let target = |host| target(settings, host, passwords.as_deref(), limit);
        Ok(Connector {
            targets: settings.hosts.iter().map(target).collect(),
            shuffle: settings.shuffle,
            tls: tls::connector(settings)?,
            limit,
            description: settings.to_string(),
            path: None,
        })
    }

    /// The same, which learns to where it leads.
    pub(super) fn on(mut self, path: watch::Receiver<Path>) -> Self {
        self.path = Some(path);
        self
    }

    /// The same, with a name that `pg_stat_activity` shows.
    pub(super) fn named(&self, application_name: &str) -> Self {
        let mut named = self.clone();
        for target in &mut named.targets {
            target.application_name(application_name);
        }
        named
    }

    /// The name that the connection string or the environment gives.
    pub(super) fn application_name(&self) -> Option<&str> {
        self.targets.first()?.get_application_name()
    }

    pub(super) fn description(&self) -> &str {
        &self.description
    }

    /// How long all hosts together may take.
    pub(super) fn limit(&self) -> Duration {
        let hosts = u32::try_from(self.targets.len()).unwrap_or(u32::MAX);
        self.limit.saturating_mul(hosts)
    }

    /// A session that is no part of the pool.
    pub(super) async fn dedicated(&self) -> Result<Dedicated, Error> {
        let (client, mut connection) = timeout(self.limit(), self.connect_any())
            .await
            .map_err(|_| self.timed_out())?
            .map_err(|error| self.failed(error))?;
        let messages = stream::poll_fn(move |cx| connection.poll_message(cx));
        Ok(Dedicated {
            client,
            messages: Box::pin(messages),
        })
    }

    /// Tries host after host. The caller's time limit cuts the last one short.
    async fn connect_any(&self) -> Result<(Client, Driver), tokio_postgres::Error> {
        let mut targets: Vec<&Config> = self.targets.iter().collect();
        if self.shuffle {
            targets.sort_by_cached_key(|_| RandomState::new().build_hasher().finish());
        }
        while targets.len() > 1 {
            let target = targets.remove(0);
            let host = target.get_hosts();
            match timeout(self.limit, self.connect(target)).await {
                Ok(Ok(session)) => return Ok(session),
                Ok(Err(error)) => tracing::debug!(?host, error = &error as &dyn StdError, "next host"),
                Err(_) => tracing::debug!(?host, limit = ?self.limit, "no answer in time, next host"),
            }
        }
        self.connect(targets[0]).await
    }

    async fn connect(&self, target: &Config) -> Result<(Client, Driver), tokio_postgres::Error> {
        let result = target.connect(Tls::clone(&self.tls)).await;
        match result {
            // As libpq does: a preference is no demand.
            Err(error) if target.get_ssl_mode() == SslMode::Prefer && tls::is_handshake_failure(&error) => {
                let host = target.get_hosts();
                tracing::warn!(?host, error = &error as &dyn StdError, "no TLS, going on in plain text");
                let mut plain = target.clone();
                plain.ssl_mode(SslMode::Disable);
                plain.connect(Tls::clone(&self.tls)).await
            }
            result => result,
        }
    }

    /// Asks the server to cancel what runs on a session, and waits for nothing. A backend that waits for a lock does not
    /// notice that its client is gone: given up without this, it would stay and take a place among `max_connections`.
    pub(super) fn cancel(&self, client: &Client) {
        // Whoever drops what waits for the answer may do so outside of the runtime.
        let Ok(runtime) = Handle::try_current() else { return };
        let (token, tls, limit) = (client.cancel_token(), Tls::clone(&self.tls), self.limit);
        runtime.spawn(async move {
            if let Ok(Err(error)) = timeout(limit, token.cancel_query(tls)).await {
                tracing::debug!(error = &error as &dyn StdError, "a statement could not be cancelled");
            }
        });
    }

    /// The error for a server that did not give a session.
    pub(super) fn failed(&self, cause: tokio_postgres::Error) -> Error {
        Error::connection(format!("cannot connect to {}", self.description)).because(cause)
    }

    /// The error for a server that did not give a session in time.
    pub(super) fn timed_out(&self) -> Error {
        let (description, limit) = (&self.description, self.limit());
        Error::timeout(format!("cannot connect to {description}: no session within {limit:?}"))
    }
}

/// For the pool, which has the time limit.
impl Connect for Connector {
    fn connect(&self, _: &Config) -> BoxFuture<'_, Result<(Client, JoinHandle<()>), tokio_postgres::Error>> {
        Box::pin(async {
            let (client, connection) = self.connect_any().await?;
            let driver = tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::warn!(error = &error as &dyn StdError, "a connection of the pool broke");
                }
            });
            if self.path.as_ref().is_some_and(|path| *path.borrow() == Path::Direct) {
                client.batch_execute(KEEPALIVES).await?;
            }
            Ok((client, driver))
        })
    }
}

/// Everything about the session with one host.
fn target(settings: &Settings, host: &Host, passwords: Option<&str>, limit: Duration) -> Config {
    let Settings { user, dbname, .. } = settings;
    let mut target = settings.session.clone();
    target.host(&host.name).port(host.port);
    if let Some(address) = host.address {
        target.hostaddr(address);
    }
    // A name may have an address that swallows packets: leave time for the next one.
    target.connect_timeout(limit / 2);
    if let Some(password) = passwords.and_then(|lines| passfile::find(lines, &host.name, host.port, dbname, user)) {
        target.password(password);
    }
    if host.is_socket() {
        // There is no TLS on a Unix socket; libpq disregards sslmode there.
        target.ssl_mode(SslMode::Disable);
    }
    target
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use futures::StreamExt;
    use tokio_postgres::AsyncMessage;

    use super::{Dedicated, Duration, timeout};
    use crate::{Database, embedded};

    #[tokio::test]
    async fn a_dedicated_connection_goes_to_listen_url_under_its_own_name_and_hears_what_the_server_says() {
        let server = embedded::Server::builder().fast_and_fragile().start().unwrap();
        let database = Database::builder("postgres://app@pooler.invalid/app").listen_url(server.url("postgres"));
        let database = database.build().unwrap();
        assert!(database.may_be_pooled());

        let Dedicated { client, mut messages } = database.connect_dedicated("doorbell listener").await.unwrap();
        let listening = tokio::spawn(async move {
            let mut heard = Vec::new();
            while let Some(message) = messages.next().await {
                if let AsyncMessage::Notification(notification) = message.unwrap() {
                    heard.push(notification.payload().to_owned());
                }
            }
            heard
        });
        let statements = "LISTEN bell; SELECT pg_notify('bell', current_setting('application_name'))";
        client.batch_execute(statements).await.unwrap();
        drop(client);
        assert_eq!(listening.await.unwrap(), ["doorbell listener"]);
    }

    #[tokio::test]
    async fn a_dedicated_connection_to_a_server_that_never_answers_ends_at_the_time_limit() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("postgres://app@{}/shop", silent.local_addr().unwrap());
        let database = Database::builder(url)
            .connect_timeout(Duration::from_millis(50))
            .build()
            .unwrap();
        let connecting = database.connect_dedicated("doorbell listener");
        let connecting = timeout(Duration::from_secs(4), connecting).await.unwrap();
        assert!(connecting.is_err_and(|error| error.is_timeout()));
    }
}
