//! How one statement is run: on which session, prepared or not, for how long, and what becomes of its connection.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use deadpool_postgres::Object;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::{Lookout, render};
use crate::Error;
use crate::connect::{Database, Loan};
use crate::error::sqlstate::READ_ONLY;

/// How long a statement may take before its connection is thrown away. What it asked for may be done all the same.
const STATEMENT_LIMIT: Duration = Duration::from_secs(5);

/// Around a statement where the role's defaults would break it. No setting outlives the transaction: the session may be a
/// transaction pooler's, and somebody else's the next moment.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE; SET LOCAL statement_timeout = 0";
/// The same from PostgreSQL 17 on, where there is one limit more.
const BEGIN_17: &str = "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE; SET LOCAL transaction_timeout = 0; \
     SET LOCAL statement_timeout = 0";
/// The same around a question, for a server that perhaps only reads.
const BEGIN_QUESTION: &str = "BEGIN ISOLATION LEVEL READ COMMITTED, READ ONLY; SET LOCAL statement_timeout = 0";

/// Is a prepared statement so slow that it had better be prepared anew the next time? Its plan may have been made, and
/// kept, when the table was so small that to read all of it was best. The server itself finds that out at its next
/// ANALYZE only.
pub(super) fn is_suspicious(took: Duration, rows: usize) -> bool {
    let rows = u32::try_from(rows).unwrap_or(u32::MAX);
    took > Duration::from_millis(5).saturating_add(Duration::from_micros(100).saturating_mul(rows))
}

pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

pub(super) struct Runner {
    database: Database,
    shield: Mutex<Shield>,
    hostile: String,
}

/// What keeps the role's defaults from our statements.
#[derive(Clone, Copy)]
struct Shield {
    /// How a transaction begins that they do not reach.
    begin: &'static str,
    /// Each statement gets one: the defaults would break it.
    always: bool,
}

impl Runner {
    pub(super) fn new(database: Database) -> Self {
        Runner {
            shield: Mutex::new(Shield {
                begin: BEGIN,
                always: false,
            }),
            hostile: render(database.schema(), include_str!("hostile.sql")),
            database,
        }
    }

    pub(super) fn may_be_pooled(&self) -> bool {
        self.database.may_be_pooled()
    }

    /// Finds out what the role's defaults are, and from now on shields the statements from them if need be.
    pub(super) async fn adapt(&self) -> Result<(), Error> {
        let rows = self
            .run(Some(BEGIN_QUESTION), STATEMENT_LIMIT, &self.hostile, &[])
            .await?;
        let mut shield = Shield {
            begin: BEGIN,
            always: false,
        };
        for row in &rows {
            if row.try_get::<_, &str>("name")? == "transaction_timeout" {
                shield.begin = BEGIN_17;
            }
            shield.always |= row.try_get::<_, bool>("hostile")?;
        }
        *self.shield.lock().unwrap_or_else(PoisonError::into_inner) = shield;
        Ok(())
    }

    /// Runs one statement on the lookout if there is one, else on a connection of the pool.
    pub(super) async fn query_from(
        &self,
        lookout: Option<&Lookout>,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, Error> {
        let Some(lookout) = lookout else {
            return self.query(sql, parameters).await;
        };
        match tokio::time::timeout(STATEMENT_LIMIT, lookout.query(sql, parameters)).await {
            Ok(answer) => Ok(answer?),
            Err(_) => {
                self.database.cancel(lookout.client());
                Err(no_answer(STATEMENT_LIMIT))
            }
        }
    }

    /// Runs one statement on a pooled connection, shielded from the role's defaults if they call for it.
    pub(super) async fn query(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Error> {
        self.query_within(STATEMENT_LIMIT, sql, parameters).await
    }

    /// The same for a statement that may take so long. One that may take longer than others is shielded in any case: a limit
    /// of the role's may be longer than theirs and shorter than its.
    pub(super) async fn query_within(
        &self,
        limit: Duration,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, Error> {
        let shield = *self.shield.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = (shield.always || limit > STATEMENT_LIMIT).then_some(shield.begin);
        let answer = self.run(begin, limit, sql, parameters).await;
        if let Err(error) = &answer
            && error.sqlstate() == Some(READ_ONLY)
        {
            // The role's defaults may have changed; or it is a standby now, and there is nothing to be done but wait.
            let adapted = self.adapt().await;
            tracing::debug!(?adapted, "the session only reads");
        }
        answer
    }

    /// Runs one statement on a pooled connection, in a transaction that begins like this if one is given. Whatever goes
    /// wrong, that connection is thrown away: the error may mean that it is dead, that it leads to a read-only server, or
    /// that what it has prepared is out of date. Safe to drop at any time.
    async fn run(
        &self,
        begin: Option<&str>,
        limit: Duration,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, Error> {
        let loan = Loan::of(&self.database).await?;
        let answer = tokio::time::timeout(limit, async {
            let client = loan.client()?;
            let rows = match begin {
                Some(begin) => query_shielded(client, begin, sql, parameters).await,
                // The name of a prepared statement may mean nothing.
                None if self.may_be_pooled() => client.query_typed(sql, parameters).await,
                None => query_prepared(client, sql, parameters).await,
            };
            Ok(rows?)
        });
        let answer = answer.await.map_err(|_| no_answer(limit))?;
        loan.end(answer.is_ok());
        answer
    }
}

/// In a transaction of its own, whose beginning and end go out with the statement: it is sent at the first poll.
async fn query_shielded(
    client: &Object,
    begin: &str,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let (begun, rows, ended) = futures::join!(
        client.batch_execute(begin),
        client.query_typed(sql, parameters),
        client.batch_execute("COMMIT")
    );
    begun?;
    let rows = rows?;
    ended?;
    Ok(rows)
}

async fn query_prepared(
    client: &Object,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let types = types(parameters);
    let values: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|(value, _)| *value).collect();
    let statement = client.prepare_typed_cached(sql, &types).await?;
    let begun = Instant::now();
    let rows = client.query(&statement, &values).await?;
    if is_suspicious(begun.elapsed(), rows.len()) {
        client.statement_cache.remove(sql, &types);
    }
    Ok(rows)
}

pub(super) fn types(parameters: &[Parameter<'_>]) -> Vec<Type> {
    parameters.iter().map(|(_, of)| of.clone()).collect()
}

fn no_answer(limit: Duration) -> Error {
    Error::unanswered(format!("the database did not answer within {limit:?}"))
}
