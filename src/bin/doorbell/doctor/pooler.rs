//! Does a connection lead through a transaction pooler? Nobody can listen through one.

use deadpool_postgres::Client;
use doorbell::{Database, Error};

use super::finding::Finding;

/// How many sessions are compared at once.
pub(super) const SESSIONS: usize = 2;
/// How often. A pooler that has several backends to spare may hand out different ones now and then.
const ROUNDS: usize = 10;

pub(super) async fn findings(database: &Database, listen: Option<&Database>) -> Option<Finding> {
    let (where_to, database) = match listen {
        Some(listen) => ("listen_url leads", listen),
        None => ("this connection leads", database),
    };
    match shares_backends(database).await {
        Ok(true) => Some(
            Finding::bad(
                "pooler",
                format!(
                    "{where_to} through a transaction pooler, where nobody can listen: rows wait for the next scan"
                ),
            )
            .mended_by("export DOORBELL_LISTEN_URL=postgres://… (the server's own address), or database.listen_url"),
        ),
        Ok(false) => None,
        Err(error) => Some(Finding::warning(
            "pooler",
            format!("cannot compare two connections: {}", error.chain()),
        )),
    }
}

/// Two connections that are open at the same time are served by one backend only where a pooler gives it to one of them
/// for a transaction, and then to the other.
async fn shares_backends(database: &Database) -> Result<bool, Error> {
    let (one, other) = (database.client().await?, database.client().await?);
    for _ in 0..ROUNDS {
        if backend(&one).await? == backend(&other).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn backend(client: &Client) -> Result<i32, Error> {
    let row = client
        .query_typed_one("SELECT pg_catalog.pg_backend_pid()", &[])
        .await?;
    Ok(row.try_get(0)?)
}
