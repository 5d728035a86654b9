//! A reactor of this process that is measured, or runs beside what is.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};

use crate::{Error, Mode, ReactorBuilder};

/// Dropped, it ends as a crash would end it.
pub(super) struct Running {
    task: JoinHandle<Result<(), Error>>,
    stop: Option<oneshot::Sender<()>>,
}

impl Running {
    /// Starts it in a task of its own, and waits until it hears the bell.
    pub(super) async fn start(builder: ReactorBuilder) -> Result<Self, Error> {
        let reactor = Arc::new(builder.build()?);
        let (stop, asked) = oneshot::channel();
        let started = Arc::clone(&reactor);
        let task = tokio::spawn(async move { reactor.run(async { _ = asked.await }).await });
        let mut running = Running { task, stop: Some(stop) };
        tokio::select! {
            mode = started.started() => match mode {
                Mode::Polling { why } => Err(Error::connection(format!("the reactor cannot listen: {why}"))),
                _ => Ok(running),
            },
            ended = &mut running.task => {
                ended.map_err(panicked)??;
                Err(Error::connection("a measured reactor ended by itself"))
            }
        }
    }

    /// Stops it in order.
    pub(super) async fn stop(mut self) -> Result<(), Error> {
        // Whoever is gone has asked.
        drop(self.stop.take());
        (&mut self.task).await.map_err(panicked)?
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn panicked(error: JoinError) -> Error {
    Error::connection("a measured reactor panicked").because(error)
}
