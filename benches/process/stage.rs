//! The schema that the processes work on, and a session in it.

use std::fs;
use std::process::Command;

use doorbell::measure::Scratch;
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

use super::{Outcome, Process};

/// A schema of our own with a session in it, and a configuration file for `doorbell run`.
pub(crate) struct Stage {
    pub(crate) scratch: Scratch,
    pub(crate) session: Client,
    pub(crate) url: String,
    pub(crate) schema: String,
    directory: TempDir,
}

impl Stage {
    /// The delivery channel that they serve.
    pub(crate) const CHANNEL: &str = "load";

    /// The reactors print their rows, look once in ten minutes, and send so many rows at once.
    pub(crate) async fn set(url: &str, max_in_flight: u32) -> Outcome<Self> {
        let directory = tempfile::tempdir()?;
        let config = format!(
            "[reactor]\nscan_interval = \"10m\"\n[channels.{}]\nsender = \"log\"\nmax_in_flight = {max_in_flight}\n",
            Stage::CHANNEL
        );
        fs::write(directory.path().join("doorbell.toml"), config)?;
        let schema = Scratch::new_name();
        let scratch = Scratch::create(url, &schema).await?;
        let (session, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        session
            .batch_execute(&format!("SET search_path = \"{schema}\""))
            .await?;
        Ok(Stage {
            scratch,
            session,
            url: url.to_owned(),
            schema,
            directory,
        })
    }

    /// `doorbell run`. `heard` gets a line of JSON for each row that it sends.
    pub(crate) fn run(&self, heard: impl FnMut(String) + Send + 'static) -> Outcome<Process> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
        command.args(["run", "--database-url", &self.url, "--schema", &self.schema, "--config"]);
        Process::start(command.arg(self.directory.path().join("doorbell.toml")), heard)
    }

    /// One value, which fits a bigint.
    pub(crate) async fn number(&self, sql: &str) -> Outcome<i64> {
        let row = self.session.query_one(&format!("SELECT ({sql})::bigint"), &[]).await?;
        Ok(row.try_get(0)?)
    }

    pub(crate) async fn clear(self) -> Outcome<()> {
        Ok(self.scratch.remove().await?)
    }
}
