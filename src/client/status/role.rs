//! What a role may do, and what its defaults are.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::generic_client::Session;
use crate::{Error, GenericClient, Queue};

/// The role that we are, as one that runs a reactor.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RoleStatus {
    /// Its name.
    pub name: String,
    /// The database that it is connected to.
    pub database: String,
    /// What it lacks to run a reactor, each as the middle of a GRANT: `SELECT, UPDATE ON public.notification_jobs`. What
    /// does not exist is not lacking.
    pub missing_rights: Vec<String>,
    /// Row-level security concerns it: it sees and changes what policies let it.
    pub row_security: bool,
    /// No policy lets it see rows, or none lets it change any: to a reactor it looks as if there were nothing to send.
    pub rows_hidden: bool,
    /// Session defaults that would break statements of a reactor, which therefore puts each into a transaction block; with
    /// values that would not.
    pub hostile_defaults: Vec<(String, String)>,
}

/// A role, as one that inserts notifications.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ProducerStatus {
    /// What it lacks to insert, each as the middle of a GRANT.
    pub missing_rights: Vec<String>,
    /// Row-level security concerns it, and no policy lets it insert.
    pub barred: bool,
}

impl Queue {
    /// What this role may do as a producer. `None`: there is no such role, or there are no tables.
    ///
    /// # Errors
    ///
    /// The database's own.
    pub async fn producer(&self, client: &impl GenericClient, role: &str) -> Result<Option<ProducerStatus>, Error> {
        let parameters = [(&self.0.schema.name() as _, Type::TEXT), (&role as _, Type::TEXT)];
        let session = client.session();
        let rows = self
            .query(session, &self.statements().status_producer, &parameters)
            .await?;
        rows.first().map(ProducerStatus::from_row).transpose()
    }

    pub(super) async fn role(&self, session: Session<'_>) -> Result<RoleStatus, Error> {
        let statements = self.statements();
        let schema = (&self.0.schema.name() as _, Type::TEXT);
        let role = self.query_one(session, &statements.status_role, &[schema]).await?;
        let hidden = self.query_one(session, &statements.rows_hidden, &[]).await?;
        let hostile = self.query(session, &statements.hostile, &[]).await?;
        let mut hostile_defaults = vec![];
        for default in &hostile {
            if default.try_get("hostile")? {
                hostile_defaults.push((default.try_get("name")?, default.try_get("harmless")?));
            }
        }
        Ok(RoleStatus {
            name: role.try_get("name")?,
            database: role.try_get("database")?,
            missing_rights: role.try_get("missing_rights")?,
            row_security: role.try_get("row_security")?,
            rows_hidden: hidden.try_get("hidden")?,
            hostile_defaults,
        })
    }
}

impl ProducerStatus {
    fn from_row(row: &Row) -> Result<Self, Error> {
        Ok(ProducerStatus {
            missing_rights: row.try_get("missing_rights")?,
            barred: row.try_get("barred")?,
        })
    }
}
