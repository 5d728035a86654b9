//! The listening session: a connection of its own that hears the bell and holds the reactor's half of its locks.
//!
//! On every connect LISTEN is acknowledged first and published second; the dispatcher then starts awake, since what rang
//! in between is gone. The task only ever sets a flag for a notification and reads on: a listener that stops reading is
//! what fills the server's notify queue and makes other people's commits fail.

use std::sync::Arc;
use std::time::Duration;

use backoff::ExponentialBackoff;
use backoff::backoff::Backoff;
use futures::{Stream, StreamExt};
use tokio::sync::{Notify, watch};
use tokio_postgres::AsyncMessage;
use tokio_postgres::types::{ToSql, Type};

use crate::Error;
use crate::connect::{Database, KEEPALIVES, Path};
use crate::error::sqlstate::LOCK_NOT_AVAILABLE;
use crate::reactor::instance::{self, Instance};
use crate::reactor::reconnect::pauses;
use crate::reactor::state::Shared;
use crate::reactor::vitals::Vitals;
use crate::reactor::wake::{Reasons, Wake};
use crate::store::{Bell, Lookout, NEW_REACTOR};

/// How long an answer on this session may take before the session counts as dead.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// How often the session is asked whether it still listens.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
/// How often to see whether a pooler is still in the way.
const EXPLORE_INTERVAL: Duration = Duration::from_secs(60);
/// What a listening session needs besides ([`instance::SETTINGS`]). The last four are for the claims: not to wait for their
/// flush, and to take the plan that reads by the index, made once, whatever the size of the table was when it was made.
const SETTINGS: &str = "SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off; SET synchronous_commit = off; \
     SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off";

/// Whether the reactor hears the bell.
#[derive(Clone)]
pub(crate) enum Link {
    /// Not yet known.
    Connecting,
    /// LISTEN was acknowledged on this session.
    Listening(Arc<Session>),
    /// There is no such session, and why; rows are found by looking.
    Polling { why: String },
}

/// A session on which LISTEN was acknowledged.
pub(crate) struct Session {
    lookout: Lookout,
    bell: Bell,
    broken: Notify,
}

impl Session {
    /// Takes `ASLEEP` in share mode, until [`Session::disarm`]. False: somebody kept it from us for a second.
    pub(crate) async fn arm(&self) -> Result<bool, Error> {
        match self
            .ask("SELECT pg_catalog.pg_advisory_lock_shared($1, $2)", self.bell.asleep)
            .await
        {
            Ok(_) => Ok(true),
            Err(error) if error.sqlstate() == Some(LOCK_NOT_AVAILABLE) => Ok(false),
            Err(error) => Err(self.give_up(error)),
        }
    }

    /// Gives `ASLEEP` back.
    pub(crate) async fn disarm(&self) -> Result<(), Error> {
        let asked = self
            .ask("SELECT pg_catalog.pg_advisory_unlock_shared($1, $2)", self.bell.asleep)
            .await;
        asked.map(drop).map_err(|error| self.give_up(error))
    }

    /// Was `IN_FLIGHT` free? Taken exclusively, for this statement's transaction only.
    pub(crate) async fn test(&self) -> Result<bool, Error> {
        let asked = self
            .ask(
                "SELECT pg_catalog.pg_try_advisory_xact_lock($1, $2)",
                self.bell.in_flight,
            )
            .await;
        asked.map_err(|error| self.give_up(error))
    }

    /// Claims run here: this session's backend is awake when the bell has rung.
    pub(crate) fn lookout(&self) -> &Lookout {
        &self.lookout
    }

    /// A claim failed here. Unless the server merely refused it, the session is of no use any more.
    pub(crate) fn doubt(&self, error: &Error) {
        if !error.is_refusal() {
            self.broken.notify_one();
        }
    }

    /// Asks for one lock. The functions that answer nothing count as true.
    async fn ask(&self, sql: &str, (class, id): (i32, i32)) -> Result<bool, Error> {
        let parameters: [(&(dyn ToSql + Sync), Type); 2] = [(&class, Type::INT4), (&id, Type::INT4)];
        let rows = within(self.lookout.client().query_typed(sql, &parameters)).await?;
        let row = rows
            .first()
            .ok_or_else(|| Error::connection("the listening session gave no answer"))?;
        if *row.columns()[0].type_() == Type::BOOL {
            Ok(row.try_get(0)?)
        } else {
            Ok(true)
        }
    }

    /// The session is of no use any more: let the listener make a new one.
    fn give_up(&self, error: Error) -> Error {
        self.broken.notify_one();
        error
    }
}

/// Keeps a listening session up, for as long as the future is polled.
pub(crate) struct Listener {
    database: Database,
    bell: Bell,
    instance: Arc<Instance>,
    wake: Arc<Wake>,
    vitals: Arc<Vitals>,
    link: watch::Sender<Link>,
}

impl Listener {
    pub(crate) fn new(database: Database, bell: Bell, shared: &Shared) -> (Self, watch::Receiver<Link>) {
        let (link, links) = watch::channel(Link::Connecting);
        (
            Listener {
                database,
                bell,
                instance: Arc::clone(&shared.instance),
                wake: Arc::clone(&shared.wake),
                vitals: Arc::clone(&shared.vitals),
                link,
            },
            links,
        )
    }

    /// Connects, listens, reads; and again, ever more slowly, when that ends. Only a LISTEN that was acknowledged
    /// resets the pauses.
    pub(crate) async fn run(self) {
        let mut pauses = pauses();
        loop {
            let error = self.connect_and_listen(&mut pauses).await;
            let why = error.chain();
            if !matches!(&*self.link.borrow(), Link::Polling { why: known } if *known == why) {
                tracing::warn!(error = %why, "not listening; rows are found by looking");
            }
            self.publish(Link::Polling { why });
            let pause = match self.database.path() {
                Path::Pooled => EXPLORE_INTERVAL,
                Path::Unknown | Path::Direct => {
                    // Whoever cut us off may have put a pooler in between.
                    self.database.forget_path();
                    pauses.next_backoff().unwrap_or(pauses.max_interval)
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// One session, from connect to its end; answers with why it ended.
    async fn connect_and_listen(&self, pauses: &mut ExponentialBackoff) -> Error {
        if let Err(error) = self.find_direct_path().await {
            return error;
        }
        let dedicated = match self.database.connect_dedicated("doorbell listener").await {
            Ok(dedicated) => dedicated,
            Err(error) => return error,
        };
        let session = Arc::new(Session {
            lookout: Lookout::new(dedicated.client),
            bell: self.bell.clone(),
            broken: Notify::new(),
        });
        tokio::select! {
            error = self.read(dedicated.messages) => error,
            error = self.attend(&session, pauses) => error,
            () = session.broken.notified() => Error::connection("the listening session does not answer"),
        }
    }

    /// Nothing is to be set or taken on a session that is not ours alone.
    async fn find_direct_path(&self) -> Result<(), Error> {
        if self.database.path() == Path::Direct || self.database.explore().await? == Path::Direct {
            return Ok(());
        }
        let which = if self.database.has_listen_url() {
            "listen_url"
        } else {
            "the database's URL"
        };
        Err(Error::config(format!(
            "{which} leads through a transaction pooler, where nobody can listen; give the server's own address as listen_url"
        )))
    }

    /// Reads what the server sends, which also moves every answer of this session.
    async fn read(
        &self,
        mut messages: impl Stream<Item = Result<AsyncMessage, tokio_postgres::Error>> + Unpin,
    ) -> Error {
        while let Some(message) = messages.next().await {
            match message {
                Ok(AsyncMessage::Notification(notification)) => {
                    if notification.payload() == NEW_REACTOR {
                        self.instance.not_alone();
                    } else {
                        self.wake.poke(Reasons::RING);
                    }
                }
                Ok(_) => {}
                Err(error) => return Error::from(error),
            }
        }
        Error::connection("the server closed the listening session")
    }

    /// Listens, says so, takes the instance's lock, and then probes the session until it fails.
    async fn attend(&self, session: &Arc<Session>, pauses: &mut ExponentialBackoff) -> Error {
        if let Err(error) = within(session.lookout.client().batch_execute(&listen_sql(&self.bell.topic))).await {
            return error;
        }
        pauses.reset();
        self.vitals.probed();
        tracing::info!("listening");
        self.publish(Link::Listening(Arc::clone(session)));
        let mut hold = None;
        loop {
            if hold.is_none() {
                // Without it the bell is heard all the same; asked for again after the next probe.
                hold = self.instance.hold(session.lookout.client()).await.ok();
            }
            tokio::time::sleep(PROBE_INTERVAL).await;
            if let Err(error) = self.probe(session).await {
                return error;
            }
        }
    }

    /// Does the session answer, and does the server still know that it listens?
    async fn probe(&self, session: &Session) -> Result<(), Error> {
        let sql = "SELECT true FROM pg_catalog.pg_listening_channels() AS topic WHERE topic = $1";
        let rows = within(
            session
                .lookout
                .client()
                .query_typed(sql, &[(&self.bell.topic, Type::TEXT)]),
        )
        .await?;
        if rows.is_empty() {
            Err(Error::connection("the session lost its LISTEN"))
        } else {
            self.vitals.probed();
            Ok(())
        }
    }

    fn publish(&self, link: Link) {
        self.link.send_replace(link);
        self.wake.poke(Reasons::NEWS);
    }
}

/// What a listening session needs, whatever its role's defaults are, and LISTEN.
fn listen_sql(topic: &str) -> String {
    format!(
        "{}; {KEEPALIVES}; LISTEN \"{}\"",
        settings(),
        topic.replace('"', "\"\"")
    )
}

/// What a session needs on which claims run, whatever its role's defaults are.
pub(crate) fn settings() -> String {
    format!("{}; {SETTINGS}", instance::SETTINGS)
}

/// The answer, if it comes in time.
async fn within<T>(answer: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, Error> {
    match tokio::time::timeout(ANSWER_LIMIT, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Error::timeout(format!(
            "the listening session did not answer within {ANSWER_LIMIT:?}"
        ))),
    }
}
