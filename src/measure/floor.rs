//! The floor: a notification and one claim, by the least program that can do it.

use std::time::Instant;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client as PgClient, Statement};

use super::probe::{Arrival, Probe, Receiver};
use crate::connect::{Database, Dedicated};
use crate::{Error, Uuid};

const TOPIC: &str = "doorbell_bench_floor";
/// The same columns, defaults, checks and indexes as the queue itself, so that what differs is what Doorbell does.
const SETUP: &str = r#"
    CREATE TABLE :"schema".floor (LIKE :"schema".notification_jobs INCLUDING ALL);
    CREATE FUNCTION :"schema".floor_notify() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_catalog.pg_notify(TG_ARGV[0], ''''); RETURN NULL; END';
    CREATE TRIGGER floor_notify AFTER INSERT ON :"schema".floor
        FOR EACH STATEMENT EXECUTE FUNCTION :"schema".floor_notify('doorbell_bench_floor')"#;
const INSERT: &str = r#"INSERT INTO :"schema".floor (channel, recipient) VALUES ('bench', $1)"#;
const CLAIM: &str = r#"
    UPDATE :"schema".floor SET attempts = attempts + 1, next_attempt_at = clock_timestamp() + interval '30 s'
    WHERE id = (SELECT id FROM :"schema".floor
                WHERE channel = 'bench' AND status = 'pending' AND next_attempt_at <= clock_timestamp()
                ORDER BY next_attempt_at LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id, channel, recipient, payload::text"#;
const SETTLE: &str = r#"UPDATE :"schema".floor SET status = 'sent' WHERE id = $1"#;
const UNFINISHED: &str = r#"SELECT EXISTS (SELECT FROM :"schema".floor WHERE status = 'pending')"#;

impl Probe {
    /// From just before an INSERT into a table like the queue, whose trigger notifies, until the session that listens
    /// has the answer to one claim of one row, prepared, not waiting for its flush: the least that a dispatcher can take
    /// which claims what it was told of.
    ///
    /// # Errors
    ///
    /// The server's.
    pub async fn floor(database: &Database) -> Result<Self, Error> {
        let dedicated = database.connect_dedicated("doorbell bench").await?;
        let render = |sql| database.schema().render(sql);
        let (heard, arrivals) = mpsc::unbounded_channel();
        let (ready, began) = tokio::sync::oneshot::channel();
        let setup = format!("{}; SET synchronous_commit = off; LISTEN {TOPIC}", render(SETUP));
        let (claim, settle) = (render(CLAIM), render(SETTLE));
        let receiver = Receiver::Task(tokio::spawn(async move {
            // One task for all of it, so that no hand-over between tasks counts.
            let Dedicated { client, mut messages } = dedicated;
            let prepare = async {
                client.batch_execute(&setup).await?;
                Ok::<_, Error>((client.prepare(&claim).await?, client.prepare(&settle).await?))
            };
            let prepared = tokio::select! {
                prepared = prepare => prepared,
                _ = async { while messages.next().await.is_some() {} } => Err(Error::connection("the session is gone")),
            };
            let (claim, settle) = match prepared {
                Ok(prepared) => {
                    let _ = ready.send(Ok(()));
                    prepared
                }
                Err(error) => return drop(ready.send(Err(error))),
            };
            let mut work = FuturesUnordered::new();
            loop {
                tokio::select! {
                    message = messages.next() => match message {
                        Some(Ok(AsyncMessage::Notification(_))) => work.push(take(&client, &claim, &settle, &heard)),
                        Some(Ok(_)) => {}
                        _ => return,
                    },
                    Some(done) = work.next(), if !work.is_empty() => if done.is_err() {
                        return;
                    },
                }
            }
        }));
        began.await.map_err(|_| Error::connection("the session is gone"))??;
        Probe::new(database, &render(INSERT), Some(&render(UNFINISHED)), arrivals, receiver).await
    }
}

async fn take(
    client: &PgClient,
    claim: &Statement,
    settle: &Statement,
    heard: &mpsc::UnboundedSender<Arrival>,
) -> Result<(), tokio_postgres::Error> {
    if let Some(row) = client.query_opt(claim, &[]).await? {
        let arrival = (row.try_get("recipient")?, Instant::now());
        // Nobody waits any more when the probe is gone.
        let _ = heard.send(arrival);
        client.execute(settle, &[&row.try_get::<_, Uuid>("id")?]).await?;
    }
    Ok(())
}
