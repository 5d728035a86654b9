//! No server for a while.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use doorbell::{ChannelConfig, Database, Notification, Receipt, SendError, Sender, embedded};
use nix::sys::signal::Signal;

use super::{all_sent, each_once, insert};
use crate::support::program::{Process, doorbell};
use crate::support::{Gate, Running, SOON, Site, connect, eventually, expect, patient, reactor_on, value};

const LEASE: Duration = Duration::from_secs(1);
/// Well below the 20 s that the grace is by default.
const AT_ONCE: Duration = Duration::from_secs(3);

/// Notes with each send how many rows are written down as sent, if the server can be asked.
#[derive(Clone)]
struct Witness {
    gate: Gate,
    url: String,
    written: Arc<Mutex<Vec<String>>>,
}

impl Sender for Witness {
    async fn send(&self, notification: &Notification) -> Result<Receipt, SendError> {
        let sent = "SELECT count(*) FROM notification_jobs WHERE status = 'sent'";
        let written = value(&connect(&self.url).await, sent).await;
        self.written.lock().unwrap().push(written);
        self.gate.send(notification).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_meanwhile_is_written_before_anything_new_is_claimed_though_its_lease_is_over() {
    let mut site = Site::new(embedded::Server::builder()).await;
    let (gate, written) = (Gate::shut(), Arc::default());
    let witness = Witness {
        gate: gate.clone(),
        url: site.url(),
        written: Arc::clone(&written),
    };
    let database = Database::builder(site.url()).build().unwrap();
    let three = ChannelConfig::default()
        .timeout(Duration::from_secs(600))
        .max_in_flight(3);
    let running = Running::start(reactor_on(database, witness, three).lease(LEASE)).await;
    insert(&site.client().await, 6).await;
    assert_eq!(gate.wait_for(3, SOON).await.len(), 3);
    site.stop();
    gate.open();
    tokio::time::sleep(3 * LEASE).await;
    let back = site.start();
    let client = site.client().await;
    all_sent(&client, 6, back).await;
    running.stop().await;
    each_once(&client, &gate.sends()).await;
    let written = written.lock().unwrap();
    assert!(
        written[3..].iter().all(|written| written.as_str() >= "3"),
        "{written:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_that_outlast_it_and_their_lease_are_not_begun_again() {
    let mut site = Site::new(embedded::Server::builder()).await;
    let gate = Gate::shut();
    let database = Database::builder(site.url()).build().unwrap();
    let running = Running::start(reactor_on(database, gate.clone(), patient()).lease(LEASE)).await;
    insert(&site.client().await, 3).await;
    assert_eq!(gate.wait_for(3, SOON).await.len(), 3);
    site.stop();
    tokio::time::sleep(3 * LEASE).await;
    let back = site.start();
    let client = site.client().await;
    insert(&client, 1).await;
    gate.wait_for(4, SOON).await;
    gate.open();
    all_sent(&client, 4, back).await;
    running.stop().await;
    assert_eq!(gate.begun(), 4);
}

/// The program waits for its server that long, in the middle of sends that end meanwhile.
#[cfg(target_os = "linux")]
async fn waits_quietly(outage: Duration) {
    let mut site = Site::new(embedded::Server::builder()).await;
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join("doorbell.toml");
    let text = format!(
        "[database]\nurl = {:?}\n[channels.ops]\nsender = 'command'\ncommand = ['sh', '-c', 'echo >> {}; sleep 2']",
        site.url(),
        home.path().join("sends").display()
    );
    std::fs::write(&config, text).unwrap();
    let mut process = Process::run(&config, &[]).await;
    let sends = || {
        std::fs::read_to_string(home.path().join("sends"))
            .unwrap_or_default()
            .len()
    };
    insert(&site.client().await, 3).await;
    eventually(SOON, || async { expect(sends() == 3, sends()) }).await;
    site.stop();
    let (spent, said) = (process.cpu(), process.stderr().len());
    tokio::time::sleep(outage).await;
    let (spent, said) = (process.cpu() - spent, process.stderr().len() - said);
    println!("away for {outage:?}: {spent:?} of CPU, {said} lines");
    assert!(spent < Duration::from_secs(1), "{spent:?}");
    assert!(said < 40, "{:?}", process.stderr());
    let back = site.start();
    all_sent(&site.client().await, 3, back).await;
    process.signal(Signal::SIGTERM);
    assert_eq!((process.exit().await.code(), sends()), (Some(0), 3));
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn it_is_waited_for_quietly() {
    waits_quietly(Duration::from_secs(10)).await;
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
#[ignore = "it takes a minute"]
async fn a_minute_is_waited_for_quietly() {
    waits_quietly(Duration::from_secs(60)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_told_to_end_meanwhile_does() {
    let mut site = Site::new(embedded::Server::builder()).await;
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join("doorbell.toml");
    let text = format!("[database]\nurl = {:?}\n[channels.ops]\nsender = 'log'\n", site.url());
    std::fs::write(&config, text).unwrap();
    let mut running = Process::run(&config, &[]).await;
    site.stop();
    // One that never saw its server, besides.
    let mut starting = Process::spawn(doorbell(["run", "--config"]).arg(&config));
    starting.says("cannot be reached yet").await;
    for process in [&mut running, &mut starting] {
        let begun = Instant::now();
        process.signal(Signal::SIGTERM);
        assert_eq!(process.exit().await.code(), Some(0));
        assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_to_migrate_first_waits_for_its_server() {
    let mut site = Site::new(embedded::Server::builder()).await;
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join("doorbell.toml");
    let text = format!("[database]\nurl = {:?}\n[channels.ops]\nsender = 'log'\n", site.url());
    std::fs::write(&config, text).unwrap();
    site.stop();
    let process = Process::spawn(doorbell(["run", "--migrate", "--config"]).arg(&config));
    process.says("cannot be applied yet").await;
    let back = site.start();
    insert(&site.client().await, 1).await;
    all_sent(&site.client().await, 1, back).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_row_whose_turn_comes_while_the_server_is_away_waits_for_it() {
    let mut site = Site::new(embedded::Server::builder()).await;
    let client = site.client().await;
    let insert = "INSERT INTO notification_jobs (channel, recipient, payload, max_attempts)
                  SELECT 'ops', n::text, to_jsonb(repeat('x', 34000000)), 1 FROM generate_series(1, 2) AS n";
    client.batch_execute(insert).await.unwrap();
    let gate = Gate::shut();
    let database = Database::builder(site.url()).build().unwrap();
    let running = Running::start(reactor_on(database, gate.clone(), patient())).await;
    assert_eq!(gate.wait_for(1, SOON).await.len(), 1);
    site.stop();
    gate.open();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let back = site.start();
    all_sent(&site.client().await, 2, back).await;
    running.stop().await;
    each_once(&site.client().await, &gate.sends()).await;
}
