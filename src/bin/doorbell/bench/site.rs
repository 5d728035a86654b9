//! The server that is measured, and a schema on it that goes when we go.

use doorbell::Database;
use doorbell::embedded::Server;
use doorbell::measure::Scratch;

use crate::config::DatabaseSettings;
use crate::failure::Failure;
use crate::output::remark;
use crate::private::Private;
use crate::signals::Stop;

#[derive(clap::Args)]
#[command(next_help_heading = "Database")]
pub(super) struct Site {
    /// The server to measure: a URL or key=value words, as for psql [default: DOORBELL_DATABASE_URL, else DATABASE_URL,
    /// else a private server, durable, with temporary data]
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,

    /// The schema to measure in, which must not exist: it is dropped at the end [default: a new name]
    #[arg(long, value_name = "NAME")]
    schema: Option<String>,

    #[arg(skip)]
    slow_commits: bool,
}

impl Site {
    /// With commits that cost a millisecond more, or as they are.
    pub(super) fn slow_commits(mut self, slow: bool) -> Self {
        self.slow_commits = slow;
        self
    }

    /// Prepares the place, does the work there, and cleans up, whatever becomes of the work. A signal ends the work.
    pub(super) async fn visit<T>(
        self,
        stop: Stop,
        work: impl AsyncFnOnce(&Database) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if let Some(url) = self.database_url.clone().or(DatabaseSettings::of_environment().url) {
            return self.on(&url, stop, work).await;
        }
        remark("starting a private server");
        let private = Private::start(Server::builder()).await?;
        let worked = self.on(&private.url("postgres"), stop, work).await;
        private.stop().await?;
        worked
    }

    async fn on<T>(
        self,
        url: &str,
        mut stop: Stop,
        work: impl AsyncFnOnce(&Database) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let schema = self.schema.unwrap_or_else(Scratch::new_name);
        let scratch = match self.slow_commits {
            true => Scratch::with_slow_commits(url, &schema).await?,
            false => Scratch::create(url, &schema).await?,
        };
        let worked = tokio::select! {
            worked = work(scratch.database()) => worked,
            signal = stop.asked() => Err(Failure::Signal(signal)),
        };
        let removed = scratch.remove().await;
        let worked = worked?;
        removed?;
        Ok(worked)
    }
}
