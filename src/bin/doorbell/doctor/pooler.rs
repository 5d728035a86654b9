//! Does a connection lead through a transaction pooler? Nobody can listen through one.

use doorbell::Database;

use super::finding::Finding;

/// `setting`: what says where reactors listen.
pub(super) async fn finding(database: &Database, setting: &str) -> Option<Finding> {
    match database.listens_through_pooler().await {
        Ok(true) => Some(
            Finding::bad(
                "pooler",
                format!(
                    "{setting} leads through a transaction pooler, where nobody can listen: rows wait for the next scan"
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
