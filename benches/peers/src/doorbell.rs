//! Doorbell as it comes: a reactor with its default settings, and producers that INSERT.

use anyhow::Result;
use doorbell::{ChannelConfig, Database, Migrator, Notification, Reactor, Receipt, SendError, Sender};
use futures::FutureExt;
use tokio_postgres::{Client, Statement};
use tokio_util::sync::CancellationToken;

use crate::arena::connect;
use crate::queue::{Load, Producer, Queue, Work};
use crate::working::Entries;

const INSERT: &str = "INSERT INTO notification_jobs (channel, recipient) VALUES ('bench', $1)";
const FILL: &str = "INSERT INTO notification_jobs (channel, recipient)
    SELECT 'bench', job::text FROM generate_series(0, $1::bigint - 1) job";

/// For a backlog as many sends at once as the others are given jobs at once.
const MANY_IN_FLIGHT: u32 = 500;

pub(crate) struct Doorbell {
    url: String,
    database: Database,
}

impl Queue for Doorbell {
    type Producer = Inserts;

    const UNFINISHED: &str = "SELECT EXISTS (SELECT FROM notification_jobs WHERE status = 'pending')";

    async fn install(url: &str) -> Result<Self> {
        let database = Database::builder(url).build()?;
        Migrator::new("public")?.up(&mut *database.client().await?).await?;
        Ok(Doorbell {
            url: url.to_owned(),
            database,
        })
    }

    async fn producer(&self) -> Result<Inserts> {
        let client = connect(&self.url).await?;
        let insert = client.prepare(INSERT).await?;
        Ok(Inserts { client, insert })
    }

    async fn fill(&self, jobs: u64) -> Result<()> {
        connect(&self.url)
            .await?
            .execute(FILL, &[&i64::try_from(jobs)?])
            .await?;
        Ok(())
    }

    async fn worker(&self, load: Load, entries: Entries, stop: CancellationToken) -> Result<Work> {
        let config = match load {
            Load::Urgent => ChannelConfig::default(),
            Load::Backlog => ChannelConfig::default().max_in_flight(MANY_IN_FLIGHT),
        };
        let reactor = Reactor::builder(self.database.clone())
            .channel("bench", Gong(entries), config)
            .build()?;
        Ok(async move { Ok(reactor.run(stop.cancelled_owned()).await?) }.boxed())
    }
}

/// A prepared INSERT, on a connection of its own.
pub(crate) struct Inserts {
    client: Client,
    insert: Statement,
}

impl Producer for Inserts {
    async fn enqueue(&mut self, job: u64) -> Result<()> {
        self.client.execute(&self.insert, &[&job.to_string()]).await?;
        Ok(())
    }
}

/// Says when it is entered, and delivers nothing.
struct Gong(Entries);

impl Sender for Gong {
    async fn send(&self, notification: &Notification) -> Result<Receipt, SendError> {
        self.0.enter(notification.recipient().parse()?);
        Ok(Receipt::none())
    }
}
