//! A reactor to be measured, in a task of its own.

use std::future::pending;
use std::sync::Arc;

use super::probe::Receiver;
use crate::{Error, Mode, ReactorBuilder};

/// Starts it, and waits until it hears the bell. It ends, as a crash would end it, with what is answered.
pub(super) async fn listening(builder: ReactorBuilder) -> Result<Receiver, Error> {
    let reactor = Arc::new(builder.build()?);
    let running = Arc::clone(&reactor);
    let receiver = Receiver::Task(tokio::spawn(async move {
        if let Err(error) = running.run(pending()).await {
            tracing::error!(error = %error.chain(), "the measured reactor ended");
        }
    }));
    match reactor.started().await {
        Mode::Polling { why } => Err(Error::connection(format!("the reactor cannot listen: {why}"))),
        _ => Ok(receiver),
    }
}
