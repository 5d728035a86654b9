//! A reactor that runs in this process, until it is told to stop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use doorbell::{ChannelConfig, Database, DatabaseBuilder, Error, Mode, Reactor, ReactorBuilder, Sender};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{Proxy, TestDb};

pub(crate) struct Running {
    pub(crate) reactor: Arc<Reactor>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

impl Running {
    /// Runs it, and waits until it listens.
    pub(crate) async fn start(builder: ReactorBuilder) -> Self {
        let running = Running::start_without_waiting(builder);
        let mode = tokio::time::timeout(super::SOON, running.reactor.started()).await;
        assert_eq!(mode, Ok(Mode::Listening));
        running
    }

    pub(crate) fn start_without_waiting(builder: ReactorBuilder) -> Self {
        let reactor = Arc::new(builder.build().unwrap());
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn({
            let reactor = Arc::clone(&reactor);
            async move { reactor.run(async { stopped.await.unwrap() }).await }
        });
        Running { reactor, stop, task }
    }

    /// Stops it in order; answers how long that took.
    pub(crate) async fn stop(self) -> Duration {
        let begun = Instant::now();
        self.stop.send(()).unwrap();
        self.task.await.unwrap().unwrap();
        begun.elapsed()
    }

    /// Ends it as a crash would: at once, with nothing written or given back.
    pub(crate) async fn crash(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

/// A reactor with one channel, `ops`, whose safety scan is far away, so that only the bell and the timers wake it.
pub(crate) fn reactor_on(database: Database, sender: impl Sender, config: ChannelConfig) -> ReactorBuilder {
    let scan = Duration::from_secs(600);
    Reactor::builder(database)
        .scan_interval(scan)
        .channel("ops", sender, config)
}

/// A channel whose sends may take for ever.
pub(crate) fn patient() -> ChannelConfig {
    ChannelConfig::default().timeout(Duration::from_secs(600))
}

impl TestDb {
    pub(crate) fn database(&self) -> Database {
        Database::builder(self.url()).build().unwrap()
    }

    pub(crate) async fn proxy(&self) -> Proxy {
        Proxy::start(self.url().parse().unwrap()).await.unwrap()
    }

    pub(crate) fn database_through(&self, proxy: &Proxy) -> DatabaseBuilder {
        Database::builder(proxy.url())
    }

    /// As [`reactor_on`], with the default settings of a channel.
    pub(crate) fn reactor(&self, sender: impl Sender) -> ReactorBuilder {
        self.reactor_with(sender, ChannelConfig::default())
    }

    pub(crate) fn reactor_with(&self, sender: impl Sender, config: ChannelConfig) -> ReactorBuilder {
        reactor_on(self.database(), sender, config)
    }

    /// Inserts one row on channel `ops`.
    pub(crate) async fn insert(&self, recipient: &str) {
        let sql = format!("INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', '{recipient}')");
        self.client().await.batch_execute(&sql).await.unwrap();
    }

    /// One value, as text.
    pub(crate) async fn value(&self, sql: &str) -> String {
        super::value(&self.client().await, sql).await
    }

    /// How many rows there are in each status, as `pending=1 sent=2`.
    pub(crate) async fn statuses(&self) -> String {
        let counts = "SELECT status, count(*) FROM notification_jobs GROUP BY status";
        self.value(&format!(
            "SELECT string_agg(status || '=' || count, ' ' ORDER BY status) FROM ({counts}) AS counts"
        ))
        .await
    }

    /// Waits until the statuses are as given.
    pub(crate) async fn becomes(&self, statuses: &str) {
        super::eventually(super::SOON, || async {
            let now = self.statuses().await;
            super::expect(now == statuses, format!("{now:?} instead of {statuses:?}"))
        })
        .await;
    }
}
