//! The schema, brought up and down by embedded migrations.
//!
//! Each migration is one transaction: `migrations/begin.sql` (one migrator at a time, lock time-out), the migration, its
//! line in the history. What a DBA gets to [print](Migrator::print_up) is the same text.

use std::time::{Duration, Instant};

use tokio_postgres::Client as PgClient;

use crate::Error;
use crate::error::sqlstate::{DEADLOCK_DETECTED, LOCK_NOT_AVAILABLE};
use crate::generic_client::{GenericClient, Session};
use crate::schema::Schema;

mod history;
mod migration;

pub use history::MigrationStep;

use history::History;
use migration::{BEGIN, Direction, MIGRATIONS, Migration, NEWEST};

/// Between two tries to get a lock.
const PAUSE: Duration = Duration::from_secs(1);

/// Whether this program can work with a schema, and why not.
pub(crate) enum Fit {
    Fits,
    /// A migration is missing.
    Incomplete(Error),
    /// A newer program has changed what this one relies on.
    Outgrown(Error),
}

/// Brings the schema to the version that this program needs, or takes it away again.
///
/// The connection may go through a transaction pooler. The role needs the right to create in the schema, and in the
/// database where the schema is yet to be made. Nothing else in this crate runs DDL.
///
/// ```no_run
/// # async fn example(client: &mut tokio_postgres::Client) -> Result<(), doorbell::Error> {
/// use doorbell::Migrator;
///
/// for step in Migrator::new("public")?.up(client).await? {
///     println!("applied {} {}", step.version, step.name);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct Migrator {
    schema: Schema,
    patience: Duration,
    history: History,
}

impl Migrator {
    /// A migrator of the tables in this schema, any name that PostgreSQL takes.
    ///
    /// # Errors
    ///
    /// [`is_config`](Error::is_config): PostgreSQL would not take the name, or would cut it.
    pub fn new(schema: &str) -> Result<Self, Error> {
        let schema = Schema::new(schema)?;
        Ok(Migrator {
            history: History::new(&schema),
            schema,
            patience: Duration::from_secs(30),
        })
    }

    /// How long to go on trying for a table that others hold locked. One try waits 3 s, so that nobody queues behind it
    /// for longer; tries are a second apart, and there is always one. Default: 30 s.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Applies what is missing, in order, and returns it. Nothing missing: a look at the history, and no lock. Any
    /// number of processes may do this at once.
    ///
    /// A database that a newer program has migrated is left as it is, with a warning in the log.
    ///
    /// # Errors
    ///
    /// [`is_timeout`](Error::is_timeout): others held a table locked for too long; the message names them.
    /// [`is_database`](Error::is_database): a migration failed, and only the ones before it stay applied.
    /// [`is_schema`](Error::is_schema): the server is older than PostgreSQL 14.
    pub async fn up(&self, client: &mut PgClient) -> Result<Vec<MigrationStep>, Error> {
        let history = self.history.read(client.session()).await?;
        if let Some(newer) = history.keys().find(|version| **version > NEWEST) {
            tracing::warn!(schema = ?self.schema, version = newer, "migrated by a newer doorbell: left as it is");
            return Ok(Vec::new());
        }
        let mut applied = Vec::new();
        for migration in MIGRATIONS {
            if !history.contains_key(&migration.version) && self.apply(client, migration, Direction::Up).await? {
                applied.push(migration.version);
            }
        }
        self.steps(client.session(), &applied).await
    }

    /// Undoes every migration above `to`, the newest first, and returns them. `down(client, 0)` takes both tables away
    /// **with every notification in them**; the schema itself stays.
    ///
    /// # Errors
    ///
    /// As [`up`](Migrator::up); and [`is_schema`](Error::is_schema) where a newer program applied what is to be undone.
    pub async fn down(&self, client: &mut PgClient, to: i32) -> Result<Vec<MigrationStep>, Error> {
        let history = self.history.read(client.session()).await?;
        let above = |version: &i32| *version > to;
        if let Some(newer) = history.keys().copied().filter(above).find(|version| *version > NEWEST) {
            return Err(Error::schema(format!(
                "migration {newer} of schema {:?} is not known to this version: a newer doorbell has to undo it",
                self.schema
            )));
        }
        let mut undone = Vec::new();
        for migration in MIGRATIONS.iter().rev().filter(|migration| above(&migration.version)) {
            if history.contains_key(&migration.version) && self.apply(client, migration, Direction::Down).await? {
                undone.push(MigrationStep::of(migration));
            }
        }
        Ok(undone)
    }

    /// Every migration that this program knows or the database has, in order. Locks nothing, changes nothing.
    ///
    /// # Errors
    ///
    /// The history cannot be read, or [`is_schema`](Error::is_schema): the server is older than PostgreSQL 14.
    pub async fn status(&self, client: &impl GenericClient) -> Result<Vec<MigrationStep>, Error> {
        let mut steps = self.history.read(client.session()).await?;
        for migration in MIGRATIONS {
            let step = steps.entry(migration.version);
            step.or_insert_with(|| MigrationStep::of(migration));
        }
        Ok(steps.into_values().collect())
    }

    /// Does the database have what this program needs? A newer schema will do, unless a migration in its history says that
    /// it breaks older programs.
    ///
    /// # Errors
    ///
    /// [`is_schema`](Error::is_schema): no, and the message says what to run.
    pub async fn check(&self, client: &impl GenericClient) -> Result<(), Error> {
        match self.fit(client).await? {
            Fit::Fits => Ok(()),
            Fit::Incomplete(error) | Fit::Outgrown(error) => Err(error),
        }
    }

    pub(crate) async fn fit(&self, client: &impl GenericClient) -> Result<Fit, Error> {
        let history = self.history.read(client.session()).await?;
        if let Some(step) = history.values().find(|step| step.breaking && !step.known) {
            return Ok(Fit::Outgrown(Error::schema(format!(
                "schema {:?} was changed by a newer doorbell (migration {}, {}), and doorbell {} cannot work with it: update doorbell",
                self.schema,
                step.version,
                step.name,
                env!("CARGO_PKG_VERSION"),
            ))));
        }
        let Some(missing) = MIGRATIONS.iter().find(|m| !history.contains_key(&m.version)) else {
            return Ok(Fit::Fits);
        };
        let what = match history.is_empty() {
            true => "holds no doorbell tables".to_owned(),
            false => format!("lacks migration {} ({})", missing.version, missing.name),
        };
        Ok(Fit::Incomplete(Error::schema(format!(
            "schema {:?} {what}: run `{}`",
            self.schema,
            self.schema.migrate_command()
        ))))
    }

    /// The SQL of every migration above version `from`, for a person to read and to run as one transaction. 0: all.
    pub fn print_up(&self, from: i32) -> String {
        let wanted = MIGRATIONS.iter().filter(|migration| migration.version > from);
        self.print(wanted, Direction::Up)
    }

    /// The SQL that undoes every migration above version `to`, for a person to read and to run as one transaction.
    pub fn print_down(&self, to: i32) -> String {
        let wanted = MIGRATIONS.iter().rev().filter(|migration| migration.version > to);
        self.print(wanted, Direction::Down)
    }

    fn print<'a>(&self, migrations: impl Iterator<Item = &'a Migration>, direction: Direction) -> String {
        let mut text = format!(
            "-- doorbell {}, schema {:?}: migrate {direction}.\n\
             -- Run it as one transaction: psql -1 -v ON_ERROR_STOP=1 -f FILE\n\n{}",
            env!("CARGO_PKG_VERSION"),
            self.schema,
            self.schema.render(BEGIN),
        );
        for migration in migrations {
            let Migration { version, name, .. } = migration;
            let sql = self.schema.render(&migration.sql(direction));
            text.push_str(&format!("\n-- Migration {version}: {name}.\n\n{sql}"));
        }
        text
    }

    /// Applies or undoes one migration, patiently. `false`: somebody else has just done it.
    async fn apply(&self, client: &mut PgClient, migration: &Migration, direction: Direction) -> Result<bool, Error> {
        let start = Instant::now();
        loop {
            let error = match self.try_apply(client, migration, direction).await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let what = format!("migration {} ({}) {direction}", migration.version, migration.name);
            // lock_not_available, deadlock_detected
            if !matches!(error.sqlstate(), Some(LOCK_NOT_AVAILABLE | DEADLOCK_DETECTED)) {
                return Err(error.saying(format!("{what} failed")));
            }
            if start.elapsed() + PAUSE > self.patience {
                let holders = self.history.lock_holders(client.session()).await?;
                return Err(Error::timeout(format!("{what} waited too long for {holders}")).instead_of(error));
            }
            tracing::warn!(schema = ?self.schema, "{what} waits for a locked table");
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn try_apply(&self, client: &mut PgClient, migration: &Migration, to: Direction) -> Result<bool, Error> {
        let transaction = client.transaction().await?;
        transaction.batch_execute(&self.schema.render(BEGIN)).await?;
        let is_there = self
            .history
            .read(transaction.session())
            .await?
            .contains_key(&migration.version);
        if is_there == (to == Direction::Up) {
            return Ok(false);
        }
        transaction
            .batch_execute(&self.schema.render(&migration.sql(to)))
            .await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// These steps, as the history has them.
    async fn steps(&self, session: Session<'_>, versions: &[i32]) -> Result<Vec<MigrationStep>, Error> {
        if versions.is_empty() {
            return Ok(Vec::new());
        }
        let history = self.history.read(session).await?;
        Ok(history
            .into_values()
            .filter(|step| versions.contains(&step.version))
            .collect())
    }
}
