//! A private server, in asynchronous code.

use std::convert::Infallible;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use doorbell::Error;
use doorbell::embedded::{Builder, Server};
use tokio::task::{JoinError, spawn_blocking};

use crate::failure::Failure;

/// How often to see whether the server still runs.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A private PostgreSQL server.
///
/// It never stops by being dropped, which would block a thread of the runtime: where the process ends without
/// [`stop`](Private::stop), the server's watchdog stops it.
#[derive(Clone)]
pub(crate) struct Private(Arc<Mutex<Option<ManuallyDrop<Server>>>>);

impl Private {
    pub(crate) async fn start(builder: Builder) -> Result<Self, Failure> {
        let started = spawn_blocking(|| builder.start().map(ManuallyDrop::new)).await;
        let server = started.map_err(panicked)??;
        Ok(Private(Arc::new(Mutex::new(Some(server)))))
    }

    pub(crate) async fn stop(self) -> Result<(), Failure> {
        let stop = move || match self.lock().take() {
            Some(server) => ManuallyDrop::into_inner(server).stop(),
            None => Ok(()),
        };
        Ok(spawn_blocking(stop).await.map_err(panicked)??)
    }

    pub(crate) fn url(&self, database: &str) -> String {
        let server = self.lock();
        server.as_ref().map_or_else(String::new, |server| server.url(database))
    }

    /// Starts the server again when it has ended by itself, for as long as this is polled.
    pub(crate) async fn keep_running(&self) -> Infallible {
        let mut complained = false;
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let private = self.clone();
            match spawn_blocking(move || private.restart_if_ended()).await {
                Ok(Ok(restarted)) => {
                    if restarted {
                        tracing::warn!("the private server had ended; it runs again");
                    }
                    complained = false;
                }
                Ok(Err(error)) if !complained => {
                    tracing::error!(error = %error.chain(), "the private server has ended; trying to start it until it runs");
                    complained = true;
                }
                Ok(Err(error)) => tracing::debug!(error = %error.chain(), "the private server cannot be started"),
                Err(panicked) => tracing::error!(error = %panicked, "could not look after the private server"),
            }
        }
    }

    fn restart_if_ended(&self) -> Result<bool, Error> {
        let mut server = self.lock();
        let Some(server) = &mut *server else { return Ok(false) };
        if server.is_running()? {
            return Ok(false);
        }
        server.start_again()?;
        Ok(true)
    }

    fn lock(&self) -> MutexGuard<'_, Option<ManuallyDrop<Server>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn panicked(error: JoinError) -> Failure {
    Failure::new(format!("the private server: {error}"))
}
