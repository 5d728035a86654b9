//! Which database, and which schema in it: what every command that needs one takes.

use std::path::PathBuf;

use deadpool_postgres::Client;
use doorbell::{Database, DatabaseBuilder, Queue, Uuid};

use crate::config::{Config, DatabaseSettings};
use crate::failure::Failure;

/// Global, so that a command with subcommands takes these before and after the subcommand's name.
#[derive(clap::Args)]
#[command(next_help_heading = "Database")]
pub(crate) struct Target {
    /// Where the server is: a URL or key=value words, as for psql
    ///
    /// Other users of this machine can read the arguments of a process, so a password is better off in
    /// DOORBELL_DATABASE_URL or in the password file.
    #[arg(long, value_name = "URL", global = true)]
    database_url: Option<String>,

    /// The schema of the tables [default: DOORBELL_SCHEMA, else public]
    #[arg(long, value_name = "NAME", global = true)]
    schema: Option<String>,

    /// A configuration file; commands other than `run` take only its database
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
}

impl Target {
    /// A connection, and the queue to use it on.
    pub(crate) async fn open(&self) -> Result<(Client, Queue), Failure> {
        let settings = self.settings()?;
        let queue = Queue::in_schema(schema(&settings))?;
        Ok((connect(&settings).await?, queue))
    }

    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        connect(&self.settings()?).await
    }

    pub(crate) fn schema(&self) -> Result<String, Failure> {
        Ok(schema(&self.settings()?).to_owned())
    }

    /// What the arguments say, over what environment and file say.
    pub(crate) fn over(&self, mut settings: DatabaseSettings) -> DatabaseSettings {
        if let Some(url) = &self.database_url {
            settings.url = Some(url.clone());
            // It belongs to the other URL.
            settings.listen_url = None;
        }
        settings.schema = self.schema.clone().or(settings.schema);
        settings
    }

    pub(crate) fn settings(&self) -> Result<DatabaseSettings, Failure> {
        Ok(self.over(match &self.config {
            Some(file) => Config::load(file)?.database,
            None => DatabaseSettings::of_environment(),
        }))
    }
}

/// What is not said is left to the `PG*` variables.
pub(crate) fn database(settings: &DatabaseSettings) -> DatabaseBuilder {
    let mut builder = Database::builder(settings.url.clone().unwrap_or_default()).schema(schema(settings));
    if let Some(url) = &settings.listen_url {
        builder = builder.listen_url(url);
    }
    builder
}

pub(crate) fn schema(settings: &DatabaseSettings) -> &str {
    settings.schema.as_deref().unwrap_or("public")
}

/// A name as an identifier in a statement.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// An id on the command line.
pub(crate) fn id(text: &str) -> Result<Uuid, String> {
    text.parse()
        .map_err(|_| "not an id: it is a UUID, as `doorbell list` shows it".to_owned())
}

async fn connect(settings: &DatabaseSettings) -> Result<Client, Failure> {
    let database = database(settings).pool_size(1).build()?;
    let connected = database.client().await;
    connected.map_err(|error| match settings.url {
        Some(_) => error.into(),
        None => Failure::new(format!(
            "{}; no --database-url and no DOORBELL_DATABASE_URL says which database",
            error.chain()
        )),
    })
}
