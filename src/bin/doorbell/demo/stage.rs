//! Where the demo plays: a private server, or a schema of its own on a server that is given.

use std::time::Instant;

use doorbell::embedded::Server;
use doorbell::{Database, Uuid};
use tokio_postgres::types::Type;

use super::report;
use crate::failure::Failure;
use crate::private::Private;
use crate::target::quoted;

pub(super) struct Stage {
    server: Option<Private>,
    url: String,
    schema: String,
}

impl Stage {
    pub(super) async fn set(url: Option<&str>, schema: Option<&str>) -> Result<Self, Failure> {
        let begun = Instant::now();
        let (server, url) = match url {
            Some(url) => (None, url.to_owned()),
            None => {
                let server = Private::start(Server::builder()).await?;
                let url = server.url("postgres");
                (Some(server), url)
            }
        };
        let schema = schema.map_or_else(new_name, str::to_owned);
        let stage = Stage { server, url, schema };
        match stage.look_around().await {
            Ok(version) => {
                let whose = if stage.server.is_some() {
                    "private, temporary data, fsync on"
                } else {
                    "yours"
                };
                report::stage("server", begun.elapsed(), &format!("PostgreSQL {version}, {whose}"));
                Ok(stage)
            }
            Err(failure) => {
                stage.stop_server().await?;
                Err(failure)
            }
        }
    }

    pub(super) fn schema(&self) -> &str {
        &self.schema
    }

    pub(super) fn database(&self, application_name: &str) -> Result<Database, Failure> {
        let database = Database::builder(&self.url).schema(&self.schema);
        Ok(database.application_name(application_name).build()?)
    }

    /// Removes everything that the demo made.
    pub(super) async fn clear(self) -> Result<(), Failure> {
        // What is on a private server goes with it.
        if self.server.is_none() {
            let client = self.database("doorbell demo")?.client().await?;
            let drop = format!("DROP SCHEMA IF EXISTS {} CASCADE", quoted(&self.schema));
            client.batch_execute(&drop).await?;
        }
        self.stop_server().await
    }

    async fn stop_server(self) -> Result<(), Failure> {
        match self.server {
            Some(server) => server.stop().await,
            None => Ok(()),
        }
    }

    /// The server's version; refuses a schema that exists, since the demo drops its schema at the end.
    async fn look_around(&self) -> Result<String, Failure> {
        let client = self.database("doorbell demo")?.client().await?;
        let sql = "SELECT pg_catalog.current_setting('server_version'),
                          EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)";
        let row = client.query_typed_one(sql, &[(&self.schema, Type::TEXT)]).await?;
        match row.try_get(1)? {
            true => Err(Failure::new(format!(
                "schema {:?} exists already; the demo would drop it, so name another one",
                self.schema
            ))),
            false => Ok(row.try_get(0)?),
        }
    }
}

fn new_name() -> String {
    format!("doorbell_demo_{}", Uuid::now_v7().simple())
}
