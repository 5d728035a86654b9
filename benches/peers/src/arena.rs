//! The server, and an empty database for each measurement.

use anyhow::Result;
use doorbell::embedded::Server;
use tokio_postgres::{Client, NoTls};

/// What a measurement's database is called.
const DATABASE: &str = "peers";

/// A private server: durable, with its data in a temporary directory. Goes with all that is in it when it is dropped.
pub(crate) struct Arena {
    admin: Client,
    server: Server,
}

impl Arena {
    pub(crate) async fn open() -> Result<Self> {
        let server = tokio::task::spawn_blocking(|| Server::builder().start()).await??;
        let admin = connect(&server.url("postgres")).await?;
        Ok(Arena { admin, server })
    }

    /// The URL of a database that is empty, whatever was measured before.
    pub(crate) async fn clear(&mut self) -> Result<String> {
        // FORCE: a worker that was stopped may still have connections.
        self.admin
            .batch_execute(&format!("DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)"))
            .await?;
        self.admin.batch_execute(&format!("CREATE DATABASE {DATABASE}")).await?;
        // So that nobody pays for the writes of the one before.
        self.admin.batch_execute("CHECKPOINT").await?;
        Ok(self.server.url(DATABASE))
    }
}

/// A session that lasts as long as its client.
pub(crate) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // Its errors reach the client too.
    tokio::spawn(async { connection.await.ok() });
    Ok(client)
}
