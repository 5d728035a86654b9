//! What producers and operators do with the queue: put in, look up, retry, cancel, purge.

use std::sync::{Arc, LazyLock};

use tokio_postgres::Row;
use uuid::Uuid;

use crate::generic_client::{Parameter, Session};
use crate::schema::Schema;
use crate::store::QueueStatements;
use crate::{Error, GenericClient, NewNotification};

mod enqueue;
mod jobs;
mod mend;
mod purge;
mod status;

pub use jobs::{Job, JobFilter};
pub use mend::{Cancelled, Retried, RetriedAll};
pub use purge::PurgeStep;
pub use status::{
    BellStatus, ChannelStatus, InFlight, OpenTransaction, ProducerStatus, QueueStatus, ReactorMode, ReactorStatus,
    RoleStatus, ServerStatus, Surroundings, TableStatus, TriggerState,
};

/// The queue of one schema. Cheap to clone; holds no connection: every method is given one, or a transaction.
///
/// ```no_run
/// # async fn example(pool: deadpool_postgres::Pool) -> Result<(), Box<dyn std::error::Error>> {
/// use doorbell::{NewNotification, Queue};
///
/// let queue = Queue::in_schema("app")?;
/// let mut client = pool.get().await?;
/// let transaction = client.transaction().await?;
/// // … whatever the notification is about, then:
/// let id = queue.enqueue(&transaction, &NewNotification::new("email", "ada@example.org")).await?;
/// transaction.commit().await?;
/// # let _ = id;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Queue(Arc<Inner>);

struct Inner {
    schema: Schema,
    statements: QueueStatements,
}

impl Default for Queue {
    /// The queue in schema `public`.
    fn default() -> Self {
        static PUBLIC: LazyLock<Queue> = LazyLock::new(|| Queue::new(Schema::default()));
        PUBLIC.clone()
    }
}

impl Queue {
    /// The queue in this schema, any name that PostgreSQL takes.
    ///
    /// # Errors
    ///
    /// [`is_config`](Error::is_config): PostgreSQL would not take the name, or would cut it.
    pub fn in_schema(schema: &str) -> Result<Self, Error> {
        Ok(Queue::new(Schema::new(schema)?))
    }

    fn new(schema: Schema) -> Self {
        let statements = QueueStatements::new(&schema);
        Queue(Arc::new(Inner { schema, statements }))
    }

    fn statements(&self) -> &QueueStatements {
        &self.0.statements
    }

    async fn query(&self, session: Session<'_>, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Error> {
        session
            .query(sql, parameters)
            .await
            .map_err(|error| self.explain(error))
    }

    async fn query_one(&self, session: Session<'_>, sql: &str, parameters: &[Parameter<'_>]) -> Result<Row, Error> {
        session
            .query_one(sql, parameters)
            .await
            .map_err(|error| self.explain(error))
    }

    /// A missing table means a missing migration.
    fn explain(&self, error: Error) -> Error {
        match error.sqlstate() {
            // undefined_table, undefined_column, undefined_function, invalid_schema_name
            Some("42P01" | "42703" | "42883" | "3F000") => Error::schema(format!(
                "schema {:?} is not what this version of doorbell needs: run `{}`",
                self.0.schema,
                self.0.schema.migrate_command()
            ))
            .instead_of(error),
            _ => error,
        }
    }
}

/// Enqueues one notification in schema `public`: [`Queue::enqueue`].
///
/// # Errors
///
/// As [`Queue::enqueue`].
pub async fn enqueue(client: &impl GenericClient, new: &NewNotification) -> Result<Uuid, Error> {
    Queue::default().enqueue(client, new).await
}

/// Enqueues many notifications in schema `public`: [`Queue::enqueue_many`].
///
/// # Errors
///
/// As [`Queue::enqueue_many`].
pub async fn enqueue_many<'a, I>(client: &impl GenericClient, new: I) -> Result<Vec<Uuid>, Error>
where
    I: IntoIterator<Item = &'a NewNotification>,
{
    Queue::default().enqueue_many(client, new).await
}
