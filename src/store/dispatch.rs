//! The statements of a reactor that find rows: claim, what is due next, what nobody serves. Those about rows that it holds
//! stand in `held`, those about large payloads in `large`, those about the list of reactors in `roster`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::Error;
use crate::connect::Database;
use crate::store::held::{Held, HeldStatements};
use crate::store::large::{Contents, LargeStatements};
use crate::store::roster::RosterStatements;
use crate::store::runner::{Parameter, Runner};
use crate::store::{Lookout, lossy, statements};

/// Runs the statements of one reactor.
#[derive(Clone)]
pub(crate) struct Store(Arc<Inner>);

struct Inner {
    runner: Runner,
    sql: DispatchStatements,
    roster: RosterStatements,
    held: HeldStatements,
    large: LargeStatements,
    /// To read what a claim left in the table.
    turn: Mutex<()>,
}

statements! {
    /// The statements that find rows, and the bell's.
    DispatchStatements { bell, claim, late, next_due, ring, rows_hidden, unserved }
}

/// What a claim found.
#[derive(Default)]
pub(crate) struct Claims {
    /// Rows to be sent.
    pub(crate) rows: Vec<Claimed>,
    /// Rows that the claim settled as `failed`: out of attempts, or held.
    pub(crate) failed: Vec<Uuid>,
    /// Rows that the claim settled as `expired`.
    pub(crate) expired: Vec<Uuid>,
    /// The channels that gave fewer rows than they were asked for.
    pub(crate) short: Vec<usize>,
}

/// What is asked of one channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// The caller's number for it.
    pub(crate) index: usize,
    pub(crate) channel: &'a str,
    /// How many rows at most.
    pub(crate) slots: u32,
    /// Rows that were due longer ago are not seen.
    pub(crate) reach: Option<Duration>,
}

/// What a claim is to take, and for whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) wanted: &'a [Wanted<'a>],
    /// These channels never send twice by themselves.
    pub(crate) hold: bool,
    /// All contents stay in the table.
    pub(crate) bare: bool,
    pub(crate) reactor: Uuid,
    pub(crate) lease: Duration,
}

/// When the next row is due.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct NextDue {
    /// So long from now, unless none is waiting.
    pub(crate) after: Option<Duration>,
    /// One is due already: if a claim has just come back short, somebody else holds its lock.
    pub(crate) already: bool,
}

/// One claimed row.
pub(crate) struct Claimed {
    pub(crate) held: Held,
    pub(crate) channel: String,
    /// `None`: some of it is still in the table; [`Store::payload`].
    pub(crate) contents: Option<Contents>,
    pub(crate) max_attempts: u32,
    /// Time since the row was created, at the claim.
    pub(crate) age: Duration,
    pub(crate) expires_in: Option<Duration>,
}

/// The keys of the bell's two locks, as (class, id), and its topic.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bell {
    pub(crate) asleep: (i32, i32),
    pub(crate) in_flight: (i32, i32),
    pub(crate) topic: String,
}

impl Store {
    pub(crate) fn new(database: Database) -> Self {
        Store(Arc::new(Inner {
            sql: DispatchStatements::new(database.schema()),
            roster: RosterStatements::new(database.schema()),
            held: HeldStatements::new(database.schema()),
            large: LargeStatements::new(database.schema()),
            turn: Mutex::default(),
            runner: Runner::new(database),
        }))
    }

    /// Finds out what the role's defaults are, and from now on shields the statements from them if need be.
    pub(crate) async fn adapt(&self) -> Result<(), Error> {
        self.0.runner.adapt().await
    }

    pub(super) fn roster(&self) -> &RosterStatements {
        &self.0.roster
    }

    pub(super) fn held(&self) -> &HeldStatements {
        &self.0.held
    }

    pub(super) fn large(&self) -> &LargeStatements {
        &self.0.large
    }

    pub(super) fn turn(&self) -> &Mutex<()> {
        &self.0.turn
    }

    /// See [`Database::may_be_pooled`]. The listening session may then have another role, which listens and no more.
    pub(crate) fn may_be_pooled(&self) -> bool {
        self.0.runner.may_be_pooled()
    }

    /// Whether a claim and the question for the next due row, asked one right after the other, arrive in this order.
    pub(crate) fn keeps_order(&self, lookout: &Lookout) -> bool {
        lookout.has(&self.0.sql.claim) && lookout.has(&self.0.sql.next_due)
    }

    /// Takes due rows. On the lookout if there is one, else on a connection of the pool.
    pub(crate) async fn claim(&self, lookout: Option<&Lookout>, ask: Ask<'_>) -> Result<Claims, Error> {
        let Ask {
            wanted,
            hold,
            bare,
            reactor,
            lease,
        } = ask;
        let channels = channels(wanted);
        let slots: Vec<i32> = wanted
            .iter()
            .map(|wanted| i32::try_from(wanted.slots).unwrap_or(i32::MAX))
            .collect();
        let lease = lease.as_secs_f64();
        let reaches = reaches(wanted);
        let parameters: [Parameter<'_>; 7] = [
            (&channels, Type::TEXT_ARRAY),
            (&slots, Type::INT4_ARRAY),
            (&reactor, Type::UUID),
            (&lease, Type::FLOAT8),
            (&hold, Type::BOOL),
            (&reaches, Type::FLOAT8_ARRAY),
            (&bare, Type::BOOL),
        ];
        let rows = self
            .0
            .runner
            .query_from(lookout, &self.0.sql.claim, &parameters)
            .await?;
        let mut claims = Claims {
            rows: Vec::with_capacity(rows.len()),
            ..Claims::default()
        };
        let mut left: HashMap<&str, u32> = wanted.iter().map(|wanted| (wanted.channel, wanted.slots)).collect();
        for row in &rows {
            if let Some(slots) = left.get_mut(row.try_get::<_, &str>("channel")?) {
                *slots = slots.saturating_sub(1);
            }
            match row.try_get("status")? {
                "pending" => claims.rows.push(Claimed::from_row(row, reactor)?),
                "expired" => claims.expired.push(row.try_get("id")?),
                _ => claims.failed.push(row.try_get("id")?),
            }
        }
        let short = wanted.iter().filter(|wanted| left[wanted.channel] > 0);
        claims.short = short.map(|wanted| wanted.index).collect();
        Ok(claims)
    }

    /// When the next row of these channels is due, our own claimed rows left out.
    pub(crate) async fn next_due(
        &self,
        lookout: Option<&Lookout>,
        wanted: &[Wanted<'_>],
        reactor: Uuid,
    ) -> Result<NextDue, Error> {
        let (channels, reaches) = (channels(wanted), reaches(wanted));
        let parameters: [Parameter<'_>; 3] = [
            (&channels, Type::TEXT_ARRAY),
            (&reactor, Type::UUID),
            (&reaches, Type::FLOAT8_ARRAY),
        ];
        let rows = self
            .0
            .runner
            .query_from(lookout, &self.0.sql.next_due, &parameters)
            .await?;
        let Some(row) = rows.first() else {
            return Ok(NextDue::default());
        };
        Ok(NextDue {
            after: row.try_get::<_, Option<f64>>("seconds")?.map(seconds_to_duration),
            already: row.try_get("due")?,
        })
    }

    /// Those of these channels on which a row is due for longer than the duration beside it.
    pub(crate) async fn late(&self, beyond: &[(&str, Duration)]) -> Result<Vec<String>, Error> {
        let channels: Vec<&str> = beyond.iter().map(|(channel, _)| *channel).collect();
        let reaches: Vec<f64> = beyond.iter().map(|(_, reach)| reach.as_secs_f64()).collect();
        let parameters: [Parameter<'_>; 2] = [(&channels, Type::TEXT_ARRAY), (&reaches, Type::FLOAT8_ARRAY)];
        let rows = self.query(&self.0.sql.late, &parameters).await?;
        rows.iter().map(|row| Ok(row.try_get("channel")?)).collect()
    }

    /// Channels with due rows that no listed reactor serves.
    pub(crate) async fn unserved(&self) -> Result<Vec<String>, Error> {
        let rows = self.query(&self.0.sql.unserved, &[]).await?;
        rows.iter().map(|row| lossy::text(row, "channel")).collect()
    }

    /// Whether row-level security keeps every row from this role.
    pub(crate) async fn rows_hidden(&self) -> Result<bool, Error> {
        let rows = self.query(&self.0.sql.rows_hidden, &[]).await?;
        rows.first().map_or(Ok(false), |row| Ok(row.try_get("hidden")?))
    }

    /// The keys of the bell.
    pub(crate) async fn bell(&self) -> Result<Bell, Error> {
        let rows = self.query(&self.0.sql.bell, &[]).await?;
        let row = rows
            .first()
            .ok_or_else(|| Error::schema("doorbell_bell() gave no row"))?;
        let id = row.try_get("lock_id")?;
        Ok(Bell {
            asleep: (row.try_get("asleep_class")?, id),
            in_flight: (row.try_get("in_flight_class")?, id),
            topic: row.try_get("topic")?,
        })
    }

    /// Makes every sleeping reactor look.
    pub(crate) async fn ring(&self) -> Result<(), Error> {
        self.query(&self.0.sql.ring, &[]).await?;
        Ok(())
    }

    pub(super) async fn query(&self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Error> {
        self.0.runner.query(sql, parameters).await
    }

    /// As [`Store::query`], for a statement that may take so long.
    pub(super) async fn query_within(
        &self,
        limit: Duration,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, Error> {
        self.0.runner.query_within(limit, sql, parameters).await
    }
}

impl Claimed {
    fn from_row(row: &Row, claimed_by: Uuid) -> Result<Self, Error> {
        let count = |column| -> Result<u32, Error> { Ok(u32::try_from(row.try_get::<_, i32>(column)?).unwrap_or(0)) };
        Ok(Claimed {
            held: Held {
                id: row.try_get("id")?,
                claim: row.try_get("claim")?,
                claimed_by,
                attempt: count("attempts")?,
            },
            channel: row.try_get("channel")?,
            contents: Option::zip(row.try_get("recipient")?, row.try_get("payload")?)
                .map(|(recipient, payload)| Contents { recipient, payload }),
            max_attempts: count("max_attempts")?,
            age: seconds_to_duration(row.try_get("age")?),
            expires_in: row.try_get::<_, Option<f64>>("expires_in")?.map(seconds_to_duration),
        })
    }
}

fn channels<'a>(wanted: &[Wanted<'a>]) -> Vec<&'a str> {
    wanted.iter().map(|wanted| wanted.channel).collect()
}

fn reaches(wanted: &[Wanted<'_>]) -> Vec<Option<f64>> {
    let seconds = |wanted: &Wanted<'_>| wanted.reach.map(|reach| reach.as_secs_f64());
    wanted.iter().map(seconds).collect()
}

/// Seconds that the server counted, as a duration: below zero is zero, and nothing overflows.
fn seconds_to_duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}
