//! The reactors that run while producers insert.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::variant::Work;
use crate::connect::Database;
use crate::{ChannelConfig, Error, Mode, Notification, Reactor, Receipt, SendError, Sender};

/// Enough that no reactor that sends at once is ever without a free slot.
const SLOTS: u32 = 1000;

/// Longer than any measurement.
const NEVER: Duration = Duration::from_secs(86_400);

impl Work {
    fn slots(self) -> u32 {
        match self {
            Work::AtOnce => SLOTS,
            Work::Never => 1,
        }
    }
}

impl Sender for Work {
    async fn send(&self, _: &Notification) -> Result<Receipt, SendError> {
        if *self == Work::Never {
            pending::<()>().await;
        }
        Ok(Receipt::none())
    }
}

/// Running reactors. Dropped, they end at once.
pub(super) struct Company {
    running: JoinSet<Result<(), Error>>,
    leave: watch::Sender<bool>,
}

impl Company {
    /// Starts a reactor for each of these delivery channels, and waits until all of them listen.
    pub(super) async fn start(
        database: &Database,
        reactors: &[(&str, Work)],
        scan_interval: Duration,
    ) -> Result<Self, Error> {
        let (leave, _) = watch::channel(false);
        let mut company = Company {
            running: JoinSet::new(),
            leave,
        };
        for (channel, work) in reactors {
            company.join(database, channel, *work, scan_interval).await?;
        }
        Ok(company)
    }

    async fn join(
        &mut self,
        database: &Database,
        channel: &str,
        work: Work,
        scan_interval: Duration,
    ) -> Result<(), Error> {
        let config = ChannelConfig::default().max_in_flight(work.slots()).timeout(NEVER);
        let reactor = Reactor::builder(database.clone())
            .channel(channel, work, config)
            .scan_interval(scan_interval)
            .shutdown_grace(Duration::ZERO)
            .build()?;
        let reactor = Arc::new(reactor);
        let (running, mut asked) = (Arc::clone(&reactor), self.leave.subscribe());
        self.running.spawn(async move {
            let asked = async move {
                // An error is our own end.
                let _ = asked.wait_for(|asked| *asked).await;
            };
            running.run(asked).await
        });
        let mode = tokio::select! {
            mode = reactor.started() => mode,
            Some(ended) = self.running.join_next() => return Err(too_early(ended)),
        };
        match mode {
            Mode::Polling { why } => Err(Error::connection(format!("the reactor cannot listen: {why}"))),
            _ => Ok(()),
        }
    }

    /// Stops all of them in order.
    pub(super) async fn leave(mut self) -> Result<(), Error> {
        self.leave.send_replace(true);
        while let Some(ended) = self.running.join_next().await {
            ended.map_err(panicked)??;
        }
        Ok(())
    }
}

fn too_early(ended: Result<Result<(), Error>, JoinError>) -> Error {
    match ended {
        Ok(Err(error)) => error,
        Ok(Ok(())) => Error::connection("a measured reactor ended by itself"),
        Err(error) => panicked(error),
    }
}

fn panicked(error: JoinError) -> Error {
    Error::connection("a measured reactor panicked").because(error)
}
