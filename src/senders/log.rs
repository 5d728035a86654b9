//! The sender that prints.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use crate::{Notification, Receipt, SendError, Sender};

/// Prints each notification as one line of JSON on standard output, or on another writer.
///
/// Lines are written whole and flushed one by one, never mixed, and only then does the send succeed. A writer that fails
/// (a closed pipe, a full disk) is a transient failure; the line after a torn one starts afresh, so an empty line may
/// stand between. Clones share their writer.
///
/// A reader that does not read holds up at most one thread, however many sends wait for it; those that are dropped
/// meanwhile print nothing.
#[derive(Clone)]
pub struct Log {
    output: Arc<Mutex<Output>>,
}

impl Log {
    /// Prints on standard output.
    pub fn new() -> Self {
        Log::to(io::stdout())
    }

    /// Prints on this writer.
    pub fn to(writer: impl Write + Send + 'static) -> Self {
        let output = Output {
            writer: Box::new(writer),
            torn: false,
        };
        Log {
            output: Arc::new(Mutex::new(output)),
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Log::new()
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").finish_non_exhaustive()
    }
}

impl Sender for Log {
    async fn send(&self, notification: &Notification) -> Result<Receipt, SendError> {
        let mut line = notification.to_json();
        line.push('\n');
        // The lock goes with the write, not with this future: a send that is dropped while its line is being written
        // leaves the writer locked until the line is complete.
        let mut output = Arc::clone(&self.output).lock_owned().await;
        match spawn_blocking(move || output.write_line(line.as_bytes())).await {
            Ok(Ok(())) => Ok(Receipt::none()),
            Ok(Err(error)) => Err(SendError::transient(format!("cannot write the line: {error}"))),
            Err(error) => Err(SendError::transient(format!("cannot write the line: {error}"))),
        }
    }
}

struct Output {
    writer: Box<dyn Write + Send>,
    /// The last line may have been written in part.
    torn: bool,
}

impl Output {
    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        if self.torn {
            self.writer.write_all(b"\n")?;
        }
        self.torn = true;
        self.writer.write_all(line)?;
        self.writer.flush()?;
        self.torn = false;
        Ok(())
    }
}
