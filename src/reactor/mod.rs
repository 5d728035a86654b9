//! A running dispatcher: how it is built, and in which order it starts and stops.
//!
//! - `builder`, `contact`, `stop`: what comes before it runs, and after.
//! - `bell`: when to look, when to sleep, and how to be woken. No I/O.
//! - `listener`: the session that hears the bell.
//! - `reconnect`: the pauses before a session of the reactor's own is made anew.
//! - `dispatcher`: the loop that decides when to look and when to wait.
//! - `claimer`: what a look takes, and the sends that begin with it.
//! - `releases`: what a claim took whose answer never came.
//! - `reach`: how far back a look reaches, and who asks for what lies beyond.
//! - `large`: payloads that are read when there is room for them.
//! - `send`: one send, from claimed row to outcome.
//! - `settler`: writes outcomes in batches.
//! - `lease`, `keeper`: what is claimed, and that it stays so while it is sent.
//! - `instance`, `rescue`: how others know that it lives, and what it does for those that have died.
//! - `mode`, `vitals`, `health`: what it tells of itself.

mod bell;
mod builder;
mod claimer;
mod contact;
mod dispatcher;
mod health;
mod instance;
mod keeper;
mod large;
mod lease;
pub(crate) mod listener;
mod mode;
pub(crate) mod reach;
mod reconnect;
mod releases;
mod rescue;
mod send;
mod settler;
mod state;
mod stop;
mod task;
mod vitals;
mod wake;

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::Error;
use crate::config::ReactorConfig;
use crate::connect::Database;
use crate::store::{Entry, Store};

pub use builder::ReactorBuilder;
use claimer::Claimer;
use dispatcher::Dispatcher;
pub use health::{Health, Trouble};
use instance::Anchor;
use listener::{Link, Listener};
pub use mode::Mode;
use mode::ModeSince;
use releases::release_if_due;
use rescue::Rescuer;
use settler::{QUEUE, Settle, Settler};
use state::{Channel, Shared};
use stop::{Parts, Sends};
use task::{Task, panicked};
use vitals::Vitals;

/// A dispatcher: claims due rows of its channels, hands them to their senders, and writes down what happened.
///
/// Many reactors may share one database, in one process or in many.
///
/// ```no_run
/// use doorbell::{ChannelConfig, Database, Reactor, senders};
///
/// # async fn example() -> Result<(), doorbell::Error> {
/// let database = Database::builder("postgres://app@localhost/app").build()?;
/// let reactor = Reactor::builder(database)
///     .channel("ops", senders::Log::default(), ChannelConfig::default())
///     .build()?;
/// reactor.run(async { /* resolves when it is time to stop */ }).await?;
/// # Ok(())
/// # }
/// ```
pub struct Reactor {
    database: Database,
    config: ReactorConfig,
    channels: Vec<Channel>,
    phase: watch::Sender<ModeSince>,
    /// Of the run that began last.
    vitals: Mutex<Arc<Vitals>>,
}

/// What [`Reactor::process_due`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Processed {
    /// Delivered.
    pub sent: u64,
    /// Failed, and to be tried again later.
    pub retried: u64,
    /// Given up.
    pub failed: u64,
    /// Not sent, because their `expires_at` had passed.
    pub expired: u64,
}

impl Reactor {
    /// Begins a reactor on this database.
    pub fn builder(database: Database) -> ReactorBuilder {
        ReactorBuilder {
            database,
            config: ReactorConfig::default(),
            channels: Vec::new(),
        }
    }

    /// Dispatches until `shutdown` resolves, then stops in order: no further claims; running sends may finish within
    /// `shutdown_grace`; what still runs is cut off and given back at no cost in attempts (on a channel that holds:
    /// parked as `failed`); every outcome is written; other reactors are told to look.
    ///
    /// While the server cannot be reached it waits and tries again, from the start on. Dropping the future stops at once;
    /// claimed rows are then rescued by another reactor, or wait for the end of their lease.
    ///
    /// # Errors
    ///
    /// The schema is missing, or a newer version has made it one that this version cannot work with, be it while the reactor
    /// runs ([`Error::is_schema`]); the server refuses the connection for good, for instance the password; or a part of the
    /// reactor panicked, which is a bug.
    pub async fn run(&self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let mut shutdown = pin!(shutdown);
        // However the run ends, dropped or not.
        let _ends = Ends(self);
        let shared = self.shared();
        *self.vitals() = Arc::clone(&shared.vitals);
        let entry = self.entry();
        let bell = tokio::select! {
            () = &mut shutdown => return Ok(()),
            bell = self.first_contact(&shared, &entry) => bell?,
        };
        let (settler, give_up, outcomes) = start_settler(&shared);
        let (listener, links) = Listener::new(self.database.clone(), bell, &shared);
        let dispatcher = Dispatcher::new(Arc::clone(&shared), outcomes.clone(), self.config.scan_interval);
        let mut helpers = JoinSet::new();
        helpers.spawn(listener.run());
        helpers.spawn(Anchor::new(self.database.clone(), Arc::clone(&shared.instance)).run());
        helpers.spawn(keeper::renew_leases(Arc::clone(&shared)));
        helpers.spawn(keeper::watch(Arc::clone(&shared)));
        helpers.spawn(Rescuer::new(Arc::clone(&shared), entry).run());
        helpers.spawn(reach::guard(Arc::clone(&shared)));
        let mut parts = Parts {
            helpers,
            dispatcher: Task::spawn(dispatcher.run(links.clone())),
            settler,
            _sends: Sends(Arc::clone(&shared)),
        };
        let ended = tokio::select! {
            () = shutdown => Ok(()),
            () = self.follow_mode(links) => Ok(()),
            error = self.outgrown() => Err(error),
            ended = parts.helpers.join_next() => Err(panicked("part", ended.and_then(Result::err))),
            ended = &mut parts.dispatcher.0 => Err(panicked("dispatcher", ended.err())),
            ended = &mut parts.settler.0 => Err(panicked("settler", ended.err())),
        };
        self.stop(&shared, parts, give_up, outcomes).await;
        ended
    }

    /// Sends what is due now, at most `limit` rows, waits until all of it is written, and says what became of it. For
    /// cron jobs and tests; needs no bell. A row that fails and is due again before the end may be tried again.
    ///
    /// # Errors
    ///
    /// The server cannot be reached or refuses ([`Error::is_connection`], [`Error::is_database`]), or the schema is not
    /// there ([`Error::is_schema`]). What was claimed before the error is still sent and written.
    pub async fn process_due(&self, limit: u32) -> Result<Processed, Error> {
        let shared = self.shared();
        self.prepare(&shared).await?;
        let (settler, give_up, outcomes) = start_settler(&shared);
        let claimer = Claimer::new(Arc::clone(&shared), outcomes);
        let _renewals = Task::spawn(keeper::renew_leases(Arc::clone(&shared)));
        let _sends = Sends(Arc::clone(&shared));
        let drained = Task::spawn(claimer.drain(limit)).join().await;
        shared.all_slots_free().await;
        // Beyond its lease a row is no longer ours to write.
        give_up.send_replace(Some(Instant::now() + self.config.lease));
        settler.join().await.map_err(|error| panicked("settler", Some(error)))?;
        release_if_due(&shared).await;
        shared.hand_over_retries().await;
        drained.map_err(|error| panicked("claimer", Some(error)))??;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &shared.counts;
        Ok(Processed {
            sent: read(&counts.sent),
            retried: read(&counts.retried),
            failed: read(&counts.failed),
            expired: read(&counts.expired),
        })
    }

    /// How the running reactor learns of new rows.
    pub fn mode(&self) -> Mode {
        self.phase.borrow().mode.clone()
    }

    /// Waits until the running reactor has found out how it learns of new rows, and says so.
    pub async fn started(&self) -> Mode {
        let mut phases = self.phase.subscribe();
        let known = phases.wait_for(|phase| phase.mode != Mode::Starting).await;
        known.map_or(Mode::Starting, |phase| phase.mode.clone())
    }

    fn shared(&self) -> Arc<Shared> {
        Arc::new(Shared::new(
            Store::new(self.database.clone()),
            self.channels.clone(),
            self.config.lease,
            Arc::default(),
        ))
    }

    fn vitals(&self) -> MutexGuard<'_, Arc<Vitals>> {
        self.vitals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self, mode: Mode) {
        self.phase.send_modify(|phase| phase.turn(mode));
    }

    fn entry(&self) -> Entry {
        Entry {
            host: host(),
            channels: self.channels.iter().map(|channel| channel.name.to_string()).collect(),
            lease: self.config.lease,
        }
    }

    /// Passes the listener's state on to [`Reactor::mode`]; never ends.
    async fn follow_mode(&self, mut links: watch::Receiver<Link>) {
        loop {
            let mode = match &*links.borrow_and_update() {
                Link::Connecting => Mode::Starting,
                Link::Listening(_) => Mode::Listening,
                Link::Polling { why } => Mode::Polling { why: why.clone() },
            };
            self.turn(mode);
            if links.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Says at the end of a run that none is running.
struct Ends<'a>(&'a Reactor);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.turn(Mode::Starting);
    }
}

fn start_settler(shared: &Arc<Shared>) -> (Task<()>, watch::Sender<Option<Instant>>, mpsc::Sender<Settle>) {
    let (outcomes, queue) = mpsc::channel(QUEUE);
    let (give_up, when) = watch::channel(None);
    (
        Task::spawn(Settler::new(Arc::clone(shared), queue, when).run()),
        give_up,
        outcomes,
    )
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::env::var("HOSTNAME"));
    name.map_or_else(|_| "unknown".to_owned(), |name| name.trim().to_owned())
}
