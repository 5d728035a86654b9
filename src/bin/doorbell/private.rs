//! A private server, in asynchronous code.

use std::mem::ManuallyDrop;

use doorbell::embedded::{Builder, Server};
use tokio::task::{JoinError, spawn_blocking};

use crate::failure::Failure;

/// A private PostgreSQL server.
///
/// It never stops by being dropped, which would block a thread of the runtime: where the process ends without
/// [`stop`](Private::stop), the server's watchdog stops it.
pub(crate) struct Private(ManuallyDrop<Server>);

impl Private {
    pub(crate) async fn start(builder: Builder) -> Result<Self, Failure> {
        let started = spawn_blocking(|| builder.start().map(ManuallyDrop::new)).await;
        Ok(Private(started.map_err(panicked)??))
    }

    pub(crate) async fn stop(self) -> Result<(), Failure> {
        let stopped = spawn_blocking(|| ManuallyDrop::into_inner(self.0).stop()).await;
        Ok(stopped.map_err(panicked)??)
    }

    pub(crate) fn server(&self) -> &Server {
        &self.0
    }
}

fn panicked(error: JoinError) -> Failure {
    Failure::new(format!("the private server: {error}"))
}
