//! A schema of our own on the server that is measured.

use crate::connect::Database;
use crate::{Error, Migrator, Uuid};

/// A schema that did not exist before, with Doorbell's tables; to be dropped with all that is in it.
pub struct Scratch {
    database: Database,
}

impl Scratch {
    /// A name that nobody has: `doorbell_bench_` and a UUID.
    pub fn new_name() -> String {
        format!("doorbell_bench_{}", Uuid::now_v7().simple())
    }

    /// Makes the schema.
    ///
    /// # Errors
    ///
    /// The settings' or the server's, for instance that the schema exists or that the role may not make one.
    pub async fn create(url: &str, schema: &str) -> Result<Self, Error> {
        let database = Database::builder(url).schema(schema).build()?;
        let made = execute(&database, r#"CREATE SCHEMA :"schema""#).await;
        made.map_err(|error| match error.sqlstate() {
            // duplicate_schema
            Some("42P06") => Error::input(format!(
                "schema {schema:?} exists already; it would be dropped at the end, so name another one"
            )),
            _ => error,
        })?;
        let scratch = Scratch { database };
        match scratch.migrate().await {
            Ok(()) => Ok(scratch),
            Err(error) => {
                scratch.remove().await?;
                Err(error)
            }
        }
    }

    async fn migrate(&self) -> Result<(), Error> {
        let mut client = self.database.client().await?;
        Migrator::new(self.database.schema().name())?.up(&mut client).await?;
        Ok(())
    }

    /// The database, with this schema.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Drops the schema and all that is in it.
    ///
    /// # Errors
    ///
    /// The server's; the message says what to run by hand.
    pub async fn remove(self) -> Result<(), Error> {
        let dropped = execute(
            &self.database,
            r#"SET client_min_messages = warning; SET lock_timeout = '5s'; DROP SCHEMA :"schema" CASCADE"#,
        );
        dropped.await.map_err(|error| {
            let sql = self.database.schema().render(r#"DROP SCHEMA :"schema" CASCADE"#);
            Error::schema(format!("could not clean up, please run: {sql}")).because(error)
        })
    }
}

/// On a connection of its own: sessions of the pool are not to keep settings.
async fn execute(database: &Database, sql: &str) -> Result<(), Error> {
    let client = super::probe::open(database, |_| {}).await?;
    Ok(client.batch_execute(&database.schema().render(sql)).await?)
}
