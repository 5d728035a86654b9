//! A role that may do little.

use std::process::Command;

use doorbell::Uuid;
use tokio_postgres::Client;

use super::{TestDb, client_program};

/// A login role of one test's own. Goes before its database does: declare it after.
pub(crate) struct Role {
    pub(crate) name: String,
    /// As whoever made it.
    url: String,
}

impl Role {
    pub(crate) async fn new(db: &TestDb, what: &str) -> Self {
        let name = format!("{what}_{}", Uuid::now_v7().simple());
        db.psql(&format!("CREATE ROLE {name} LOGIN")).await;
        Role { name, url: db.url() }
    }

    /// A connection string of the database of [`Role::new`] that connects as this role.
    pub(crate) fn url(&self) -> String {
        let and = if self.url.contains('?') { '&' } else { '?' };
        format!("{}{and}user={}", self.url, self.name)
    }

    pub(crate) async fn client(&self, db: &TestDb) -> Client {
        let client = db.client().await;
        client
            .batch_execute(&format!("SET SESSION AUTHORIZATION {}", self.name))
            .await
            .unwrap();
        client
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let sql = format!("DROP OWNED BY {0} CASCADE; DROP ROLE {0}", self.name);
        let mut psql = Command::new(client_program("psql"));
        let dropped = psql.args(["-Xqc", &sql, &self.url]).output();
        if !std::thread::panicking() {
            assert!(dropped.unwrap().status.success(), "{} cannot be dropped", self.name);
        }
    }
}
