//! What a queue grows by in months, put there in minutes.

use std::num::NonZeroU32;
use std::time::Duration;

use tokio_postgres::Client as PgClient;

use super::probe::session;
use crate::connect::Database;
use crate::{Error, Queue};

/// So many rows are written in one transaction.
const STEP: u64 = 500_000;

/// Ids as the default makes them: the time, here of 2023, and then noise.
const TIMED: &str = "(lpad(to_hex(1700000000000 + i), 12, '0') || '7' || substr(md5(i::text), 14, 3)
    || '8' || substr(md5(i::text), 18))::uuid";
/// Ids that are noise all through.
const RANDOM: &str = "md5(i::text)::uuid";

/// Rows of one kind. The rows are the same in every run: even what is random about their ids follows from their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Sent long ago.
    Sent,
    /// Sent long ago, by producers that gave random ids of their own.
    SentWithRandomIds,
    /// Pending, and due from tomorrow on.
    Future,
    /// Pending and due, on channel `backlog`.
    Due,
    /// Inserted, claimed and sent one moment ago.
    Through,
}

impl Growth {
    /// The channel of these rows.
    pub fn channel(self) -> &'static str {
        match self {
            Growth::Due => "backlog",
            _ => "bench",
        }
    }

    /// Writes `rows` rows in steps, with all indexes in place, and vacuums as far as open snapshots allow; `written` is
    /// told of each step.
    ///
    /// # Errors
    ///
    /// The server's.
    pub async fn fill(self, database: &Database, rows: u64, written: impl Fn(u64)) -> Result<(), Error> {
        let session = session(database).await?;
        let run = |sql: String| run(&session, database, sql);
        run("SET synchronous_commit = off; SET doorbell.notify = off".to_owned()).await?;
        let mut first = 1;
        while first <= rows {
            let last = rows.min(first + STEP - 1);
            run(self.insert(first, last)).await?;
            if self == Growth::Through {
                // As a claim and a settle change them: each leaves a dead entry among those of the due rows.
                run(change(
                    "attempts = 1, claim = 1, next_attempt_at = clock_timestamp() + interval '30 s'",
                ))
                .await?;
                run(change(
                    "status = 'sent', sent_at = clock_timestamp(), next_attempt_at = clock_timestamp()",
                ))
                .await?;
            }
            written(last - first + 1);
            first = last + 1;
        }
        run(r#"VACUUM (ANALYZE) :"schema".notification_jobs"#.to_owned()).await
    }

    /// Purges all that is over, as `doorbell purge` does; answers how many rows that were.
    ///
    /// # Errors
    ///
    /// The server's.
    pub async fn purge(database: &Database, batch: NonZeroU32) -> Result<u64, Error> {
        let session = session(database).await?;
        let queue = Queue::in_schema(database.schema().name())?;
        queue.purge(&session, Duration::ZERO, batch).await
    }

    fn insert(self, first: u64, last: u64) -> String {
        let id = if self == Growth::SentWithRandomIds {
            RANDOM
        } else {
            TIMED
        };
        let (status, due) = match self {
            Growth::Sent | Growth::SentWithRandomIds => ("sent", "'2023-11-15'::timestamptz + i * interval '1 ms'"),
            Growth::Future => ("pending", "clock_timestamp() + interval '1 day' + i * interval '1 ms'"),
            Growth::Due => ("pending", "clock_timestamp() - interval '1 day' + i * interval '1 ms'"),
            Growth::Through => ("pending", "clock_timestamp()"),
        };
        format!(
            r#"INSERT INTO :"schema".notification_jobs (id, channel, recipient, payload, status, next_attempt_at)
               SELECT {id}, '{}', 'user-' || i || '@example.org', '{{"template": "welcome"}}', '{status}', {due}
               FROM generate_series({first}::bigint, {last}::bigint) AS i"#,
            self.channel()
        )
    }
}

/// Of all pending rows: as long as nothing else is at work, those of this step.
fn change(set: &str) -> String {
    format!(r#"UPDATE :"schema".notification_jobs SET {set} WHERE status = 'pending'"#)
}

async fn run(session: &PgClient, database: &Database, sql: String) -> Result<(), Error> {
    Ok(session.batch_execute(&database.schema().render(&sql)).await?)
}

/// A snapshot that is held open, as by a report or a dump that runs for hours: vacuum may not remove what dies after it.
pub struct Snapshot(#[expect(dead_code, reason = "the transaction lasts as long as its session")] PgClient);

impl Snapshot {
    /// Takes it; it is given up on drop.
    ///
    /// # Errors
    ///
    /// The server's.
    pub async fn take(database: &Database) -> Result<Self, Error> {
        let session = session(database).await?;
        let sql = r#"BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM :"schema".notification_jobs"#;
        session.batch_execute(&database.schema().render(sql)).await?;
        Ok(Snapshot(session))
    }
}
