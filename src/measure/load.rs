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

/// How long after its time each row of a load got somewhere.
pub struct Passage {
    /// Until its INSERT was answered: what of the latency lies before the reactor, and at full load is its limit.
    pub to_commit: Latencies,
    /// Until its sender was entered.
    pub to_sender: Latencies,
}

/// The passage of rows that come at random times, `rate` a second on average (a Poisson process), for so long, to a
/// sender that takes so long.
///
/// # Errors
///
/// The server's, or [`Error::is_timeout`]: a minute after the last insert a row had still not arrived.
pub async fn under_load(
    database: &Database,
    rate: f64,
    lasts: Duration,
    sender_takes: Duration,
) -> Result<Passage, Error> {
    let (gong, arrivals) = Gong::taking(sender_takes);
    let _reactor = start(database, gong).await?;
    let rows = insert_and_collect(database, &OpenLoop::poisson(rate, lasts), arrivals).await?;
    Ok(passage(&rows))
}

/// How long after its time the INSERT of each row of such a load is answered while no reactor runs.
///
/// # Errors
///
/// The server's.
pub async fn inserts_alone(database: &Database, rate: f64, lasts: Duration) -> Result<Latencies, Error> {
    empty(database).await?;
    let committed = OpenLoop::poisson(rate, lasts).insert(database, || {}).await?;
    Ok(committed.into_iter().collect())
}

/// The passage of alerts, `rate` a second, and of those among them that came while a burst was on its way: each of `bursts`
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
) -> Result<(Passage, Passage), Error> {
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
    Ok((passage(&alone), passage(&beside)))
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
    to_commit: Duration,
    to_sender: Duration,
}

fn passage(rows: &[Row]) -> Passage {
    Passage {
        to_commit: rows.iter().map(|row| row.to_commit).collect(),
        to_sender: rows.iter().map(|row| row.to_sender).collect(),
    }
}

async fn insert_and_collect(
    database: &Database,
    load: &OpenLoop,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
) -> Result<Vec<Row>, Error> {
    let (committed, entered) = futures::join!(load.insert(database, || {}), collect(load.times(), arrivals));
    let passed = committed?.into_iter().zip(entered?);
    let row = |(intended, (to_commit, entered)): (&Instant, (Duration, Instant))| Row {
        intended: *intended,
        to_commit,
        to_sender: entered.saturating_duration_since(*intended),
    };
    Ok(load.times().iter().zip(passed).map(row).collect())
}

/// When the sender was entered with each row, by its number.
async fn collect(times: &[Instant], mut arrivals: mpsc::UnboundedReceiver<Arrival>) -> Result<Vec<Instant>, Error> {
    let last = times.last().map_or_else(Instant::now, |at| *at + PATIENCE);
    let mut all = vec![None; times.len()];
    let mut missing = times.len();
    while missing > 0 {
        let arrival = tokio::time::timeout_at(last.into(), arrivals.recv()).await;
        let late = || Error::timeout(format!("{missing} rows did not arrive within {PATIENCE:?}"));
        let (recipient, entered) = arrival.map_err(|_| late())?.ok_or_else(late)?;
        let row = recipient.parse::<usize>().ok();
        let first = row.and_then(|row| all.get_mut(row)).ok_or_else(|| stray(&recipient))?;
        missing -= usize::from(first.is_none());
        first.get_or_insert(entered);
    }
    Ok(all.into_iter().flatten().collect())
}

fn stray(recipient: &str) -> Error {
    Error::input(format!("a row of somebody else came, for {recipient:?}"))
}

/// A reactor that listens, with a channel for the load and one for bursts, and a table with nothing in it.
async fn start(database: &Database, gong: Gong) -> Result<Running, Error> {
    empty(database).await?;
    let config = ChannelConfig::default().max_in_flight(SLOTS);
    let reactor = Reactor::builder(database.clone())
        .channel("load", gong, config.clone())
        .channel("burst", Work::AtOnce, config)
        .scan_interval(Duration::from_secs(3600));
    Running::start(reactor).await
}

async fn empty(database: &Database) -> Result<(), Error> {
    let clear = database.schema().render(CLEAR);
    Ok(session(database).await?.batch_execute(&clear).await?)
}
