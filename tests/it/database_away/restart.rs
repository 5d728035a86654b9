//! Restarts under load.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use doorbell::{ChannelConfig, Database, Notification, Receipt, SendError, Sender, Uuid, embedded};
use tokio::task::JoinSet;
use tokio_postgres::{NoTls, connect};

use super::all_sent;
use crate::support::{Running, Site, reactor_on, value};

/// A claim does not wait for its flush, and a crash may undo one that is younger than this.
const UNFLUSHED: Duration = Duration::from_secs(1);
const PRODUCERS: usize = 4;

/// When each row was sent.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<HashMap<Uuid, Vec<Instant>>>>);

impl Sender for Ledger {
    async fn send(&self, notification: &Notification) -> Result<Receipt, SendError> {
        let now = Instant::now();
        self.0.lock().unwrap().entry(notification.id()).or_default().push(now);
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok(Receipt::none())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orderly_one_loses_nothing_and_repeats_nothing() {
    let (sends, _) = restarts(|site| tokio::task::block_in_place(|| site.server.restart_fast()).unwrap()).await;
    assert!(sends.values().all(|sends| sends.len() == 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_loses_nothing_and_repeats_only_what_was_on_its_way() {
    let (sends, crashes) = restarts(|site| {
        site.stop();
        site.start();
    })
    .await;
    for sends in sends.values().filter(|sends| sends.len() > 1) {
        let on_its_way = |crash: &Instant| sends[0] + UNFLUSHED > *crash && sends[0] < *crash + UNFLUSHED;
        assert!(
            sends.len() == 2 && crashes.iter().any(on_its_way),
            "{sends:?}, crashes at {crashes:?}"
        );
    }
}

/// Restarts the server three times under load; answers with the sends, and when it began to go.
async fn restarts(restart: impl Fn(&mut Site)) -> (HashMap<Uuid, Vec<Instant>>, Vec<Instant>) {
    let (mut site, ledger) = (Site::new(embedded::Server::builder()).await, Ledger::default());
    let database = Database::builder(site.url()).build().unwrap();
    let running = Running::start(reactor_on(database, ledger.clone(), ChannelConfig::default())).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut producers = JoinSet::new();
    for _ in 0..PRODUCERS {
        producers.spawn(produce(site.url(), Arc::clone(&over)));
    }
    let mut gone = vec![];
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        gone.push(Instant::now());
        restart(&mut site);
    }
    let back = Instant::now();
    tokio::time::sleep(Duration::from_millis(700)).await;
    over.store(true, Ordering::Relaxed);
    let acknowledged: usize = producers.join_all().await.into_iter().sum();
    let client = site.client().await;
    // An insert whose answer was lost may be there too.
    let rows = value(&client, "SELECT count(*) FROM notification_jobs").await;
    let rows: usize = rows.parse().unwrap();
    assert!(rows >= acknowledged && rows > 100, "{rows} of {acknowledged}");
    all_sent(&client, rows, back).await;
    running.stop().await;
    let sends = std::mem::take(&mut *ledger.0.lock().unwrap());
    assert_eq!(sends.len(), rows);
    (sends, gone)
}

/// Inserts row upon row until it is over, however often it must connect; answers how many were acknowledged.
async fn produce(url: String, over: Arc<AtomicBool>) -> usize {
    let insert = "INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', 'me')";
    let mut acknowledged = 0;
    while !over.load(Ordering::Relaxed) {
        let Ok((client, connection)) = connect(&url, NoTls).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        tokio::spawn(connection);
        while !over.load(Ordering::Relaxed) && client.batch_execute(insert).await.is_ok() {
            acknowledged += 1;
        }
    }
    acknowledged
}
