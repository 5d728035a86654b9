//! The database goes away and comes back: a server of the test's own is stopped, filled, locked, or succeeded by another.
//! Whatever it was, no row is lost, none is sent twice, and the reactor is at work again soon after the server is.

mod connections;
mod disk;
mod outage;
mod password;
mod read_only;
mod restart;
mod standby;

use std::time::{Duration, Instant};

use doorbell::{Database, Notification};
use tokio_postgres::Client;

use crate::support::{Gate, Running, SOON, eventually, expect, patient, reactor_on, value};

/// How long after the server's return everything is to be done.
const RECOVERY: Duration = Duration::from_secs(5);
/// Long enough for every part of a reactor to notice that the database is away.
const AWAY: &str = "SELECT pg_sleep(3)";

/// A reactor in the middle of three sends, which end when the gate is opened.
async fn three_in_flight(url: &str, client: &Client) -> (Running, Gate) {
    let gate = Gate::shut();
    let database = Database::builder(url).build().unwrap();
    let running = Running::start(reactor_on(database, gate.clone(), patient())).await;
    insert(client, 3).await;
    assert_eq!(gate.wait_for(3, SOON).await.len(), 3);
    (running, gate)
}

async fn insert(client: &Client, rows: i32) {
    let insert =
        "INSERT INTO notification_jobs (channel, recipient) SELECT 'ops', n::text FROM generate_series(1, $1) n";
    client.execute(insert, &[&rows]).await.unwrap();
}

/// So many rows are in the table, and all are `sent` before the time for that is over.
async fn all_sent(client: &Client, rows: usize, back: Instant) {
    let sent = "SELECT count(*) || ' ' || count(*) FILTER (WHERE status = 'sent') FROM notification_jobs";
    let left = RECOVERY.saturating_sub(back.elapsed());
    eventually(left, || async {
        let now = value(client, sent).await;
        expect(now == format!("{rows} {rows}"), format!("{now} of {rows} rows"))
    })
    .await;
}

/// The ledger of sends has each row of the table once, and nothing else.
async fn each_once(client: &Client, sends: &[Notification]) {
    let mut sent: Vec<String> = sends.iter().map(|sent| sent.id().to_string()).collect();
    sent.sort();
    let rows = client
        .query(
            "SELECT id::text FROM notification_jobs ORDER BY id::text COLLATE \"C\"",
            &[],
        )
        .await
        .unwrap();
    let rows: Vec<String> = rows.iter().map(|row| row.try_get(0).unwrap()).collect();
    assert_eq!(sent, rows);
}
