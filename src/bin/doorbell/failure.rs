//! Why a command failed, and what the shell is told.

use std::io;
use std::process::ExitCode;

use crate::config::ConfigError;
use crate::output::remark;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// For standard error, with every cause.
    Failed(String),
    /// The arguments make no sense together.
    Usage(String),
    /// Everything has been said already.
    Told,
    /// Nobody reads standard output any more: `doorbell list | head` is not an error.
    NoReader,
    /// A signal that was to end us did.
    Signal(u8),
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Failure::Failed(message.into())
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure::Usage(message.into())
    }

    /// Says what there is to say.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Failure::Failed(message) => {
                remark(format!("doorbell: {}", one_line(&message)));
                ExitCode::FAILURE
            }
            Failure::Usage(message) => {
                remark(format!("doorbell: {message}"));
                ExitCode::from(2)
            }
            Failure::Told => ExitCode::FAILURE,
            Failure::NoReader => ExitCode::SUCCESS,
            // As a shell reports a process that a signal ended.
            Failure::Signal(number) => ExitCode::from(128 + number),
        }
    }
}

impl From<doorbell::Error> for Failure {
    fn from(error: doorbell::Error) -> Self {
        Failure::Failed(error.chain())
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Failure::Failed(error.to_string())
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        doorbell::Error::from(error).into()
    }
}

/// A failure to write to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::NoReader,
            _ => Failure::Failed(format!("cannot write: {error}")),
        }
    }
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}
