//! A part of the reactor that runs beside the others.

use tokio::task::{JoinError, JoinHandle};

use crate::Error;

/// A task that ends when its handle is dropped.
pub(super) struct Task<T>(pub(super) JoinHandle<T>);

impl<T: Send + 'static> Task<T> {
    pub(super) fn spawn(work: impl Future<Output = T> + Send + 'static) -> Self {
        Task(tokio::spawn(work))
    }

    /// Waits for its end.
    pub(super) async fn join(mut self) -> Result<T, JoinError> {
        (&mut self.0).await
    }

    /// Waits for its end, if that was not seen before.
    pub(super) async fn ended(&mut self) {
        if !self.0.is_finished() {
            let _ = (&mut self.0).await;
        }
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The error of a part that ended though nobody had asked it to.
pub(super) fn panicked(part: &str, error: Option<JoinError>) -> Error {
    let stopped = Error::connection(format!("the reactor's {part} stopped unexpectedly"));
    match error {
        Some(error) => stopped.because(error),
        None => stopped,
    }
}
