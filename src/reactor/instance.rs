//! Who a running reactor is, and the lock by which the others know that it lives.
//!
//! The lock is an advisory one, held in share mode by two sessions at once: the listening one and an [`Anchor`] that does
//! nothing else, because a session dies more easily than a process. Its key is of the kind with one number, which never
//! meets the bell's, of two; it is drawn at random for each run. When the process is gone the server gives the lock up,
//! and somebody else can take it (`rescue`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use backoff::ExponentialBackoff;
use backoff::backoff::Backoff;
use tokio::sync::{Notify, watch};
use tokio_postgres::Client as PgClient;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use crate::Error;
use crate::connect::{Database, Dedicated, KEEPALIVES, end_of};
use crate::reactor::reconnect::pauses;
use crate::retry::random;

/// How long the server may take to give the lock. Somebody who looks whether we live keeps it for a moment.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// What a session that only holds a lock needs, whatever its role's defaults are. One of the limits is unknown before
/// PostgreSQL 17.
pub(crate) const SETTINGS: &str = "SET idle_session_timeout = 0; SET statement_timeout = 0; SET lock_timeout = '1s'; \
     SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name = 'transaction_timeout'";

/// A run of a reactor, as the list of reactors has it.
pub(crate) struct Instance {
    lock_key: i64,
    /// Every id that this run has borne; the last is the one it goes by.
    ids: Mutex<Vec<Uuid>>,
    /// Since when each session that holds the lock has it.
    holds: Mutex<Vec<Instant>>,
    changed: Notify,
    /// The others see the lock.
    shown: watch::Sender<bool>,
}

impl Instance {
    pub(crate) fn new() -> Self {
        Instance {
            lock_key: 1 + (random() * 9e15) as i64,
            ids: Mutex::new(vec![Uuid::now_v7()]),
            holds: Mutex::default(),
            changed: Notify::new(),
            shown: watch::Sender::new(false),
        }
    }

    /// What claims made from now on bear in `claimed_by`.
    pub(crate) fn id(&self) -> Uuid {
        lock(&self.ids).last().copied().unwrap_or_default()
    }

    /// Every id that this run has borne.
    pub(crate) fn ids(&self) -> Vec<Uuid> {
        lock(&self.ids).clone()
    }

    /// Is this the id of this run, or one that it has borne before?
    pub(crate) fn bears(&self, id: Uuid) -> bool {
        lock(&self.ids).contains(&id)
    }

    /// Takes a new id: under the old one this run was given up for dead. Each claim remembers the id that it was made
    /// under, so running sends are not concerned. The lock stays the same.
    pub(crate) fn rename(&self) -> Uuid {
        let id = Uuid::now_v7();
        lock(&self.ids).push(id);
        id
    }

    /// The key of the lock, while some session of ours holds it as far as we know.
    pub(crate) fn held_key(&self) -> Option<i64> {
        self.held_since().map(|_| self.lock_key)
    }

    /// Since when the session that has held the lock longest has it.
    pub(crate) fn held_since(&self) -> Option<Instant> {
        lock(&self.holds).iter().min().copied()
    }

    /// Notes whether the others see the lock; answers whether they did before.
    pub(crate) fn show(&self, shown: bool) -> bool {
        self.shown.send_replace(shown)
    }

    pub(crate) fn is_shown(&self) -> bool {
        *self.shown.borrow()
    }

    /// Waits until the others see the lock.
    pub(crate) async fn shown(&self) {
        // An error would mean that the other half is gone, which `self` holds.
        let _ = self.shown.subscribe().wait_for(|shown| *shown).await;
    }

    /// There is one more reactor.
    pub(crate) fn not_alone(&self) {
        self.changed.notify_one();
    }

    /// Waits until a session has taken the lock or lost it, or there is one more reactor. Safe to drop at any time. For one
    /// waiter.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Takes the lock on this session; to be dropped with the session.
    pub(crate) async fn hold(self: &Arc<Self>, client: &PgClient) -> Result<LockHeld, Error> {
        let sql = "SELECT pg_catalog.pg_advisory_lock_shared($1)";
        let key = [(&self.lock_key as &(dyn ToSql + Sync), Type::INT8)];
        match tokio::time::timeout(ANSWER_LIMIT, client.query_typed(sql, &key)).await {
            Ok(answer) => answer?,
            Err(_) => {
                let what = format!("the reactor's own lock was not given within {ANSWER_LIMIT:?}");
                return Err(Error::timeout(what));
            }
        };
        let since = Instant::now();
        lock(&self.holds).push(since);
        self.changed.notify_one();
        Ok(LockHeld {
            instance: Arc::clone(self),
            since,
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// That one session holds the lock.
pub(crate) struct LockHeld {
    instance: Arc<Instance>,
    since: Instant,
}

impl Drop for LockHeld {
    fn drop(&mut self) {
        let mut holds = lock(&self.instance.holds);
        if let Some(place) = holds.iter().position(|since| *since == self.since) {
            holds.swap_remove(place);
        }
        drop(holds);
        self.instance.changed.notify_one();
    }
}

/// The second session that holds the lock. Costs the server no statement while it lasts.
pub(crate) struct Anchor {
    database: Database,
    instance: Arc<Instance>,
}

impl Anchor {
    pub(crate) fn new(database: Database, instance: Arc<Instance>) -> Self {
        Anchor { database, instance }
    }

    /// Holds on for as long as it is polled. Only a lock that was given resets the pauses.
    pub(crate) async fn run(self) {
        let mut pauses = pauses();
        loop {
            // The lock of a session that a pooler lends would stay with somebody else.
            self.database.direct_path().await;
            let error = self.hold_on(&mut pauses).await;
            tracing::debug!(error = %error.chain(), "the second session that shows that this reactor lives is gone");
            tokio::time::sleep(pauses.next_backoff().unwrap_or(pauses.max_interval)).await;
        }
    }

    /// One session, from connect to its end; answers with why it ended.
    async fn hold_on(&self, pauses: &mut ExponentialBackoff) -> Error {
        let Dedicated { client, messages } = match self.database.connect_dedicated("doorbell instance").await {
            Ok(dedicated) => dedicated,
            Err(error) => return error,
        };
        let hold = async {
            client.batch_execute(&format!("{SETTINGS}; {KEEPALIVES}")).await?;
            let _hold = self.instance.hold(&client).await?;
            pauses.reset();
            std::future::pending::<Result<(), Error>>().await
        };
        tokio::select! {
            error = end_of(messages) => error,
            Err(error) = hold => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold_since(instance: &Arc<Instance>, since: Instant) -> LockHeld {
        lock(&instance.holds).push(since);
        LockHeld {
            instance: Arc::clone(instance),
            since,
        }
    }

    #[test]
    fn the_lock_is_held_for_as_long_as_any_session_has_it_and_as_long_as_the_oldest() {
        let (instance, now) = (Arc::new(Instance::new()), Instant::now());
        assert_eq!(instance.held_key(), None);
        let newer = hold_since(&instance, now);
        let older = hold_since(&instance, now - Duration::from_secs(1));
        assert_eq!(instance.held_since(), Some(now - Duration::from_secs(1)));
        drop(older);
        assert_eq!(instance.held_since(), Some(now));
        assert_eq!(instance.held_key(), Some(instance.lock_key));
        drop(newer);
        assert_eq!(instance.held_key(), None);
    }

    #[test]
    fn a_new_name_leaves_the_lock_as_it_is() {
        let instance = Instance::new();
        let (before, key) = (instance.id(), instance.lock_key);
        let after = instance.rename();
        assert!(instance.id() == after && after != before);
        assert!(instance.bears(before) && instance.bears(after) && !instance.bears(Uuid::now_v7()));
        assert_eq!(instance.lock_key, key);
    }
}
