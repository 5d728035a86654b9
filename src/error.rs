//! The error of everything that talks to the database or reads settings.

pub(crate) mod sqlstate;

use std::error::Error as StdError;
use std::fmt;
use std::iter;

use tokio_postgres::error::DbError;

/// Why an operation of this crate failed.
///
/// The value is opaque: ask it what it is with the `is_*` methods, and follow [`source`](StdError::source) for the
/// cause. `Display` prints one line without the cause; [`Error::chain`] prints the line with every cause behind it.
///
/// A delivery that fails is not one of these, it is a [`SendError`](crate::SendError).
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Config,
    Input,
    Connection,
    Timeout,
    /// A time-out, of a statement that was sent.
    Unanswered,
    Database,
    Schema,
    Server,
}

impl Error {
    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner {
            kind,
            message: message.into(),
            source: None,
        }))
    }

    /// A setting is missing, unknown, out of range or contradicts another one.
    pub(crate) fn config(message: impl Into<String>) -> Self {
        Error::new(Kind::Config, message)
    }

    /// What the caller handed over cannot be stored.
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Error::new(Kind::Input, message)
    }

    /// No connection to the server could be made, or the one in use broke.
    pub(crate) fn connection(message: impl Into<String>) -> Self {
        Error::new(Kind::Connection, message)
    }

    /// The server did not answer in time.
    pub(crate) fn timeout(message: impl Into<String>) -> Self {
        Error::new(Kind::Timeout, message)
    }

    /// A statement was sent, and the server did not answer in time.
    pub(crate) fn unanswered(message: impl Into<String>) -> Self {
        Error::new(Kind::Unanswered, message)
    }

    /// The schema is absent, too old or not one that this version knows.
    pub(crate) fn schema(message: impl Into<String>) -> Self {
        Error::new(Kind::Schema, message)
    }

    /// A private server could not be found, started or stopped.
    #[cfg_attr(
        not(feature = "embedded"),
        expect(dead_code, reason = "only the embedded server makes these")
    )]
    pub(crate) fn server(message: impl Into<String>) -> Self {
        Error::new(Kind::Server, message)
    }

    /// The same error with its cause.
    pub(crate) fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// This error in place of another one that it explains better, with that one's cause.
    pub(crate) fn instead_of(mut self, other: Error) -> Self {
        self.0.source = other.0.source;
        self
    }

    /// The same error, with a line of its own that says what was being done.
    pub(crate) fn saying(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    /// A setting is missing, unknown, out of range or contradicts another one; the message names it.
    pub fn is_config(&self) -> bool {
        self.0.kind == Kind::Config
    }

    /// What the caller handed over cannot be stored (an empty channel, text with a NUL, a payload that is not JSON).
    pub fn is_input(&self) -> bool {
        self.0.kind == Kind::Input
    }

    /// The server could not be reached, or the connection broke: worth trying again.
    pub fn is_connection(&self) -> bool {
        self.0.kind == Kind::Connection
    }

    /// The server did not answer in time. What was asked may have been done all the same.
    pub fn is_timeout(&self) -> bool {
        matches!(self.0.kind, Kind::Timeout | Kind::Unanswered)
    }

    /// The server answered with an error of its own; [`Error::sqlstate`] tells which.
    pub fn is_database(&self) -> bool {
        self.0.kind == Kind::Database
    }

    /// The schema is absent, too old or not one that this version knows: `doorbell migrate` mends it.
    pub fn is_schema(&self) -> bool {
        self.0.kind == Kind::Schema
    }

    /// A private server could not be found, started or stopped.
    pub fn is_server(&self) -> bool {
        self.0.kind == Kind::Server
    }

    /// The server's five-character error code, where a server's answer is behind this error.
    pub fn sqlstate(&self) -> Option<&str> {
        self.database().map(|error| error.code().code())
    }

    /// The same may work later: the server is away, full, starting or does not answer, or somebody else was in the way.
    pub fn is_transient(&self) -> bool {
        self.sqlstate().is_some_and(sqlstate::may_pass)
            || !self.is_refusal() && (self.is_database() || self.is_connection() || self.is_timeout())
    }

    /// The server is well, and did nothing of what was asked. Otherwise it is away, or nobody knows what it did.
    pub(crate) fn is_refusal(&self) -> bool {
        self.sqlstate().is_some_and(|code| !sqlstate::is_of_the_server(code))
    }

    /// A statement was sent, and no answer came in time.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.0.kind == Kind::Unanswered
    }

    /// What some row holds may be the reason: the server cannot give it to us, lacks the memory for it, or takes too long.
    pub(crate) fn may_be_over_a_row(&self) -> bool {
        self.is_unanswered() || self.sqlstate().is_some_and(sqlstate::is_over_a_row)
    }

    /// The server refuses what is to be written, so that trying again as it is cannot help.
    pub(crate) fn is_over_content(&self) -> bool {
        self.sqlstate().is_some_and(sqlstate::is_over_content)
    }

    /// The server's answer that is behind this error.
    pub(crate) fn database(&self) -> Option<&DbError> {
        causes(self).find_map(|cause| cause.downcast_ref())
    }

    /// One line with every cause, outermost first, separated by `: `. For logs and for standard error: what the server
    /// says about the values of a row is left out.
    pub fn chain(&self) -> String {
        let mut line = self.0.message.clone();
        for cause in causes(self) {
            let text = match cause.downcast_ref::<DbError>() {
                // Our own line has the server's message already.
                Some(database) if line.ends_with(database.message()) => {
                    line.push_str(&footnote(database));
                    continue;
                }
                Some(database) => format!("{}{}", database.message(), footnote(database)),
                // What tokio-postgres calls an answer of the server; the answer itself comes next.
                None if cause.to_string() == "db error" => continue,
                None => cause.to_string(),
            };
            line.push_str(": ");
            line.push_str(&text);
        }
        line
    }
}

/// What is behind an error, outermost first.
pub(crate) fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    iter::successors(error.source(), |&cause| cause.source())
}

/// What goes after a server's message, on the same line.
fn footnote(error: &DbError) -> String {
    let state = error.code().code();
    // Of data exceptions and broken constraints the detail is the row: recipient, payload and all.
    let is_about_data = state.starts_with("22") || state.starts_with("23");
    let detail = error.detail().filter(|_| !is_about_data);
    let detail = detail.map_or_else(String::new, |detail| format!(", {}", detail.replace('\n', " ")));
    format!(" (SQLSTATE {state}){detail}")
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.chain())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| &**source as _)
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        let (kind, message) = match error.as_db_error() {
            Some(database) => (Kind::Database, format!("the database refused: {}", database.message())),
            None if error.is_closed() => (Kind::Connection, "the connection to the database is closed".to_owned()),
            None => (Kind::Connection, "talking to the database failed".to_owned()),
        };
        Error::new(kind, message).because(error)
    }
}

impl From<deadpool_postgres::PoolError> for Error {
    fn from(error: deadpool_postgres::PoolError) -> Self {
        use deadpool_postgres::PoolError;
        match error {
            PoolError::Backend(error) => Error::connection("no connection to the database").because(error),
            PoolError::Timeout(_) => Error::timeout("no connection to the database in time").because(error),
            other => Error::connection("no connection to the database").because(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_names_every_cause_and_display_only_the_first() {
        let root = std::io::Error::other("disk on fire");
        let error = Error::connection("no connection to the database").because(root);
        assert_eq!(error.to_string(), "no connection to the database");
        assert_eq!(error.chain(), "no connection to the database: disk on fire");
        assert!(error.is_connection() && !error.is_timeout() && error.sqlstate().is_none());
    }
}
