//! Latency under load, by an open loop: rows are inserted when their time has come, whether or not those before them are
//! through, and a row's latency counts from that time. Waiting is counted, which a loop that waits for its own rows hides.

use std::ops::Range;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::latencies::Latencies;
use super::open_loop::OpenLoop;
use super::probe::{Arrival, in_time, session};
use super::reactor::Running;
use super::senders::{Gong, Work};
use crate::connect::Database;
use crate::{ChannelConfig, Error, Reactor};

/// How many sends may run at once: more than any load here needs.
const SLOTS: u32 = 1000;
/// How long after the last insert all must be through.
const PATIENCE: Duration = Duration::from_secs(60);
const BETWEEN_BURSTS: Duration = Duration::from_secs(2);
const BURST: &str = r#"INSERT INTO :"schema".notification_jobs (channel, recipient)
    SELECT 'burst', n::text FROM generate_series(1, $1::bigint) AS n"#;
/// What an ended reactor had not settled.
const CLEAR: &str = r#"TRUNCATE :"schema".notification_jobs"#;
const UNFINISHED: &str =
    r#"SELECT EXISTS (SELECT FROM :"schema".notification_jobs WHERE channel = 'burst' AND status = 'pending')"#;

/// Latencies of rows that come at random times, `rate` a second on average (a Poisson process), for so long, to a sender
/// that takes so long.
///
/// # Errors
///
/// The server's, or [`Error::is_timeout`]: a minute after the last insert a row had still not arrived.
pub async fn under_load(
    database: &Database,
    rate: f64,
    lasts: Duration,
    sender_takes: Duration,
) -> Result<Latencies, Error> {
    let (gong, arrivals) = Gong::taking(sender_takes);
    let _reactor = start(database, gong).await?;
    let rows = insert_and_collect(database, &OpenLoop::poisson(rate, lasts), arrivals).await?;
    Ok(rows.iter().map(|row| row.latency).collect())
}

/// Latencies of alerts, `rate` a second, and of those among them that came while a burst was on its way: each of `bursts`
/// inserts `rows` rows in one statement on another channel, two seconds after the last one was through.
///
/// # Errors
///
/// As those of [`under_load`].
pub async fn beside_bursts(
    database: &Database,
    rate: f64,
    bursts: u32,
    rows: u32,
) -> Result<(Latencies, Latencies), Error> {
    let (gong, arrivals) = Gong::taking(Duration::ZERO);
    let _reactor = start(database, gong).await?;
    let alerts = OpenLoop::poisson(rate, BETWEEN_BURSTS * (bursts + 1) + Duration::from_secs(1));
    let (alerts, bursts) = futures::join!(
        insert_and_collect(database, &alerts, arrivals),
        insert_bursts(database, bursts, rows)
    );
    let (alerts, bursts) = (alerts?, bursts?);
    let (beside, alone): (Vec<Row>, Vec<Row>) = alerts
        .into_iter()
        .partition(|row| bursts.iter().any(|burst| burst.contains(&row.intended)));
    let latencies = |rows: Vec<Row>| rows.iter().map(|row| row.latency).collect();
    Ok((latencies(alone), latencies(beside)))
}

/// Answers with when each burst was on its way.
async fn insert_bursts(database: &Database, bursts: u32, rows: u32) -> Result<Vec<Range<Instant>>, Error> {
    let producer = session(database).await?;
    let burst = producer.prepare(&database.schema().render(BURST)).await?;
    let unfinished = producer.prepare(&database.schema().render(UNFINISHED)).await?;
    let mut times = Vec::new();
    for _ in 0..bursts {
        tokio::time::sleep(BETWEEN_BURSTS).await;
        let begun = Instant::now();
        producer.execute(&burst, &[&i64::from(rows)]).await?;
        in_time(PATIENCE, "a burst was not through", async {
            while producer.query_one(&unfinished, &[]).await?.try_get(0)? {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        })
        .await?;
        times.push(begun..Instant::now());
    }
    Ok(times)
}

/// A row that has arrived.
struct Row {
    intended: Instant,
    latency: Duration,
}

async fn insert_and_collect(
    database: &Database,
    load: &OpenLoop,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
) -> Result<Vec<Row>, Error> {
    let (inserted, rows) = futures::join!(load.insert(database, || {}), collect(load.times(), arrivals));
    inserted?;
    rows
}

async fn collect(times: &[Instant], mut arrivals: mpsc::UnboundedReceiver<Arrival>) -> Result<Vec<Row>, Error> {
    let last = times.last().map_or_else(Instant::now, |at| *at + PATIENCE);
    let mut rows = Vec::with_capacity(times.len());
    while rows.len() < times.len() {
        let arrival = tokio::time::timeout_at(last.into(), arrivals.recv()).await;
        let late = || {
            Error::timeout(format!(
                "{} rows did not arrive within {PATIENCE:?}",
                times.len() - rows.len()
            ))
        };
        let (recipient, entered) = arrival.map_err(|_| late())?.ok_or_else(late)?;
        let row = recipient.parse::<usize>().ok();
        let intended = *row.and_then(|row| times.get(row)).ok_or_else(|| stray(&recipient))?;
        let latency = entered.saturating_duration_since(intended);
        rows.push(Row { intended, latency });
    }
    Ok(rows)
}

fn stray(recipient: &str) -> Error {
    Error::input(format!("a row of somebody else came, for {recipient:?}"))
}

/// A reactor that listens, with a channel for the load and one for bursts, and a table with nothing in it.
async fn start(database: &Database, gong: Gong) -> Result<Running, Error> {
    let clear = database.schema().render(CLEAR);
    session(database).await?.batch_execute(&clear).await?;
    let config = ChannelConfig::default().max_in_flight(SLOTS);
    let reactor = Reactor::builder(database.clone())
        .channel("load", gong, config.clone())
        .channel("burst", Work::AtOnce, config)
        .scan_interval(Duration::from_secs(3600));
    Running::start(reactor).await
}
