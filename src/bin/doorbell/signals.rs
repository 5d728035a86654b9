//! SIGINT and SIGTERM: the first asks to stop, the second is not asked about.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::failure::Failure;
use crate::output::remark;

/// Whether a signal has asked us to stop. Clones wait for the same one.
#[derive(Clone)]
pub(crate) struct Stop(watch::Receiver<Option<u8>>);

impl Stop {
    /// Waits until a signal has asked, and gives its number.
    pub(crate) async fn asked(&mut self) -> u8 {
        match self.0.wait_for(Option::is_some).await.map(|number| *number) {
            Ok(Some(number)) => number,
            // Nobody is left who could ask.
            _ => std::future::pending().await,
        }
    }

    /// The signal that has asked, if one has.
    pub(crate) fn signal(&self) -> Option<u8> {
        *self.0.borrow()
    }
}

/// Does work that stops in order on the first signal. On the second, the work is dropped where it stands.
pub(crate) async fn until_stopped<W>(work: impl FnOnce(Stop) -> W) -> Result<(), Failure>
where
    W: Future<Output = Result<(), Failure>>,
{
    let cannot = |error| Failure::new(format!("cannot wait for signals: {error}"));
    let interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    let terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    let (ask, asked) = watch::channel(None);
    tokio::select! {
        ended = work(Stop(asked)) => ended,
        number = second_signal(interrupt, terminate, &ask) => {
            remark("doorbell: stopped at once");
            Err(Failure::Signal(number))
        }
    }
}

async fn second_signal(mut interrupt: Signal, mut terminate: Signal, ask: &watch::Sender<Option<u8>>) -> u8 {
    let mut next = async || {
        tokio::select! {
            _ = interrupt.recv() => number(SignalKind::interrupt()),
            _ = terminate.recv() => number(SignalKind::terminate()),
        }
    };
    ask.send_replace(Some(next().await));
    next().await
}

fn number(kind: SignalKind) -> u8 {
    u8::try_from(kind.as_raw_value()).unwrap_or_default()
}
