//! The first contact with the server: reached, its schema checked, the reactor listed.

use std::time::Duration;

use crate::connect::{Loan, Path};
use crate::migrate::Fit;
use crate::reactor::Reactor;
use crate::reactor::state::Shared;
use crate::retry::{RetryPolicy, random};
use crate::store::{Bell, Entry};
use crate::{Error, Migrator};

/// What the role's defaults are is not to end a question, which takes several round trips.
const PATIENT: &str = "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";
/// How long these may take together.
const FIT_LIMIT: Duration = Duration::from_secs(10);
/// How often to see whether a newer program has changed the schema.
const FIT_INTERVAL: Duration = Duration::from_secs(30);

impl Reactor {
    /// Waits until the server can be reached, checks the schema, and lists this reactor.
    pub(super) async fn first_contact(&self, shared: &Shared, entry: &Entry) -> Result<Bell, Error> {
        let pauses = RetryPolicy::exponential(Duration::from_millis(100), Duration::from_millis(1300)).jitter(0.5);
        let mut failures = 0;
        loop {
            let error = match self.try_contact(shared, entry).await {
                Ok(bell) => return Ok(bell),
                Err(error) if error.is_transient() => error,
                Err(error) => return Err(error),
            };
            shared.vitals.cannot_look(&error);
            if failures == 0 {
                tracing::warn!(error = %error.chain(), "the database cannot be reached yet; trying until it can");
            }
            failures += 1;
            tokio::time::sleep(pauses.delay(failures, random())).await;
        }
    }

    async fn try_contact(&self, shared: &Shared, entry: &Entry) -> Result<Bell, Error> {
        self.prepare(shared).await?;
        let bell = shared.store.bell().await?;
        shared.store.register(shared.instance.id(), entry).await?;
        Ok(bell)
    }

    /// Learns what sort of sessions this role gets, checks the schema, and finds out whether the rows can be seen.
    pub(super) async fn prepare(&self, shared: &Shared) -> Result<(), Error> {
        if !self.database.has_listen_url() && self.database.path() == Path::Unknown {
            // Before the first statement: behind a pooler none may be prepared by name.
            self.database.explore().await?;
        }
        shared.store.adapt().await?;
        match self.fit().await? {
            Fit::Fits => shared.check_visibility().await,
            Fit::Incomplete(error) | Fit::Outgrown(error) => Err(error),
        }
    }

    /// Returns when a newer program has changed the schema so that this one cannot work with it. What is merely missing may
    /// come back.
    pub(super) async fn outgrown(&self) -> Error {
        loop {
            tokio::time::sleep(FIT_INTERVAL).await;
            match self.fit().await {
                Ok(Fit::Outgrown(error)) => return error,
                Ok(Fit::Fits | Fit::Incomplete(_)) => {}
                Err(error) => tracing::debug!(error = %error.chain(), "could not look for newer migrations"),
            }
        }
    }

    async fn fit(&self) -> Result<Fit, Error> {
        let migrator = Migrator::new(self.database.schema().name())?;
        let loan = Loan::of(&self.database).await?;
        let asked = tokio::time::timeout(FIT_LIMIT, async {
            let client = loan.client()?;
            client.batch_execute("BEGIN").await?;
            client.batch_execute(PATIENT).await?;
            let fit = migrator.fit(client).await?;
            client.batch_execute("COMMIT").await?;
            Ok(fit)
        });
        let fit = asked.await;
        let fit =
            fit.map_err(|_| Error::unanswered(format!("the history of migrations was not read within {FIT_LIMIT:?}")))?;
        loan.end(fit.is_ok());
        fit
    }
}
