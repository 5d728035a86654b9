//! A schema of our own on the server that is measured.

use crate::connect::{Database, DatabaseBuilder};
use crate::{Error, Migrator, Uuid};

/// Whoever flushes waits 1 ms before, whether or not others are about to commit; all that commit meanwhile share it.
const SLOW_COMMITS: &str = "-c commit_delay=1000 -c commit_siblings=0";

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
        Scratch::make(Database::builder(url), schema).await
    }

    /// Makes the schema where each commit costs a millisecond more, in every session of this database, as if the disk
    /// were slow or a standby had to answer.
    ///
    /// # Errors
    ///
    /// As [`create`](Scratch::create), and [`Error::is_input`]: the role may not have it so.
    pub async fn with_slow_commits(url: &str, schema: &str) -> Result<Self, Error> {
        let builder = Database::builder(url).session_options(SLOW_COMMITS);
        let tried = builder.clone().build()?.client().await;
        drop(tried.map_err(|error| match error.sqlstate() {
            // insufficient_privilege
            Some("42501") => Error::input("slow commits (commit_delay) take a superuser").because(error),
            _ => error,
        })?);
        Scratch::make(builder, schema).await
    }

    async fn make(builder: DatabaseBuilder, schema: &str) -> Result<Self, Error> {
        let database = builder.schema(schema).build()?;
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
    let client = super::probe::session(database).await?;
    Ok(client.batch_execute(&database.schema().render(sql)).await?)
}
