//! Whatever can run a statement: a connection or a transaction, of tokio-postgres or of deadpool.

use deadpool_postgres::{Client as PoolClient, ClientWrapper, Transaction as PoolTransaction};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client as PgClient, Row, Transaction as PgTransaction};

use crate::Error;

/// Whatever can run a statement: `tokio_postgres::{Client, Transaction}` and
/// `deadpool_postgres::{Client, ClientWrapper, Transaction}`.
///
/// What runs on a transaction is part of it: committed with it, rolled back with it. A database error aborts it, as
/// PostgreSQL does; put a savepoint around the call where the transaction has to go on.
///
/// The trait is sealed: this crate alone implements it.
pub trait GenericClient: sealed::Sealed + Sync {
    #[doc(hidden)]
    fn session(&self) -> Session<'_>;
}

mod sealed {
    pub trait Sealed {}
}

/// A borrowed connection or transaction. Statements are unnamed and typed: one round trip, nothing left behind on a
/// connection that a pooler may hand to somebody else.
#[derive(Clone, Copy)]
pub enum Session<'a> {
    #[doc(hidden)]
    Client(&'a PgClient),
    #[doc(hidden)]
    Transaction(&'a PgTransaction<'a>),
}

/// A parameter with its type, so that nobody has to ask the server for it.
pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

impl Session<'_> {
    pub(crate) async fn query(self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Error> {
        let rows = match self {
            Session::Client(client) => client.query_typed(sql, parameters).await,
            Session::Transaction(transaction) => transaction.query_typed(sql, parameters).await,
        };
        Ok(rows?)
    }

    /// A statement that always answers with one row.
    pub(crate) async fn query_one(self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Row, Error> {
        let row = match self {
            Session::Client(client) => client.query_typed_one(sql, parameters).await,
            Session::Transaction(transaction) => transaction.query_typed_one(sql, parameters).await,
        };
        Ok(row?)
    }
}

macro_rules! sessions {
    ($($client:ty => |$it:ident| $session:expr),* $(,)?) => {
        $(
            impl sealed::Sealed for $client {}

            impl GenericClient for $client {
                fn session(&self) -> Session<'_> {
                    let $it = self;
                    $session
                }
            }
        )*
    };
}

sessions! {
    PgClient => |client| Session::Client(client),
    ClientWrapper => |client| Session::Client(client),
    PoolClient => |client| Session::Client(client),
    PgTransaction<'_> => |transaction| Session::Transaction(transaction),
    PoolTransaction<'_> => |transaction| Session::Transaction(transaction),
}
