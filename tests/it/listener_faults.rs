//! The session that hears the bell fails, in every way that it can: rows go on being sent, found by looking; the reactor says
//! why; and it listens again by itself soon after the fault's end.

use std::fs;
use std::time::{Duration, Instant};

use doorbell::senders::Recording;
use doorbell::{ChannelConfig, Database, Mode, embedded};

use crate::support::program::{Process, doorbell};
use crate::support::{Proxy, Running, SOON, Site, TestDb, Traffic, eventually, expect, reactor_on};

const SCAN: Duration = Duration::from_secs(2);
/// So many rows, one after the other, that scans alone would take minutes over them.
const HEARD: usize = 30;
/// How soon after a fault's end a reactor is to hear again; and after the loss of a mere backend.
const BACK: Duration = Duration::from_secs(15);
const BACK_FROM_A_KILL: Duration = Duration::from_secs(2);
/// A probe every ten seconds, five for its answer, and as long to connect.
const NOTICED: Duration = Duration::from_secs(25);

/// A reactor whose listening session goes through a proxy.
struct Stage {
    db: TestDb,
    proxy: Proxy,
    recording: Recording,
    running: Running,
}

impl Stage {
    async fn new() -> Self {
        let (db, recording) = (TestDb::new().await, Recording::new());
        let proxy = db.proxy().await;
        let database = Database::builder(db.url()).listen_url(proxy.url()).build().unwrap();
        let builder = reactor_on(database, recording.clone(), ChannelConfig::default()).scan_interval(SCAN);
        let running = Running::start(builder).await;
        Stage {
            db,
            proxy,
            recording,
            running,
        }
    }

    /// Rows go out, whatever the listener does.
    async fn sends(&self) {
        let before = self.recording.recorded().len();
        for row in 1..=3 {
            self.db.insert("me").await;
            let sent = self.recording.wait_for(before + row, SOON).await;
            assert_eq!(sent.len(), before + row);
        }
    }

    async fn polls(&self, why: &str) {
        eventually(NOTICED, || async {
            let mode = self.running.reactor.mode();
            let is_so = matches!(&mode, Mode::Polling { why: known } if known.contains(why));
            expect(is_so, format!("{mode:?}"))
        })
        .await;
    }

    /// The fault is over.
    async fn recovers(self) {
        self.proxy.set(Traffic::Pass);
        let over = Instant::now();
        eventually(BACK, || async {
            let problems = self.running.reactor.health().problems();
            expect(problems.is_empty(), format!("{problems:?}"))
        })
        .await;
        println!("listening again after {:?}", over.elapsed());
        eventually(BACK, || async {
            let statuses = self.db.statuses().await;
            expect(!statuses.contains("pending") && !statuses.contains("claimed"), statuses)
        })
        .await;
        let (begun, before) = (Instant::now(), self.recording.recorded().len());
        for row in 1..=HEARD {
            self.db.armed(1).await;
            self.db.insert("me").await;
            let sent = self.recording.wait_for(before + row, SOON).await;
            assert_eq!(sent.len(), before + row);
        }
        assert!(begun.elapsed() < SCAN * (HEARD as u32) / 2, "not by the bell");
        self.running.stop().await;
    }
}

#[tokio::test]
async fn a_connection_that_is_frozen() {
    let stage = Stage::new().await;
    stage.db.armed(1).await;
    stage.proxy.set(Traffic::Freeze);
    stage.sends().await;
    stage.polls("").await;
    stage.sends().await;
    stage.recovers().await;
}

#[tokio::test]
async fn a_session_that_no_longer_listens() {
    let stage = Stage::new().await;
    stage.proxy.set(Traffic::Unlisten);
    stage.db.terminate_backends("doorbell listener").await;
    stage.sends().await;
    stage.polls("lost its LISTEN").await;
    stage.sends().await;
    stage.recovers().await;
}

#[tokio::test]
async fn a_listen_that_is_refused() {
    let stage = Stage::new().await;
    stage.proxy.set(Traffic::Refuse);
    stage.db.terminate_backends("doorbell listener").await;
    stage.polls("42601").await;
    stage.sends().await;
    stage.recovers().await;
}

#[tokio::test]
async fn a_server_that_lets_us_in_and_says_no_more() {
    let stage = Stage::new().await;
    stage.proxy.set(Traffic::HalfLetIn);
    stage.db.terminate_backends("doorbell listener").await;
    stage.polls("no session within").await;
    stage.sends().await;
    stage.recovers().await;
}

#[tokio::test]
async fn a_server_that_accepts_and_never_answers() {
    let stage = Stage::new().await;
    stage.proxy.set(Traffic::Cut);
    stage.polls("").await;
    stage.proxy.set(Traffic::Freeze);
    stage.polls("no session within").await;
    stage.sends().await;
    stage.recovers().await;
}

#[tokio::test]
async fn a_network_that_takes_everything_along() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let proxy = db.proxy().await;
    let database = db.database_through(&proxy).build().unwrap();
    let running = Running::start(reactor_on(database, recording.clone(), ChannelConfig::default())).await;
    db.armed(1).await;
    proxy.set(Traffic::Freeze);
    db.insert("unheard").await;
    eventually(NOTICED, || async {
        let mode = running.reactor.mode();
        expect(matches!(mode, Mode::Polling { .. }), format!("{mode:?}"))
    })
    .await;
    assert!(recording.recorded().is_empty());
    let stage = Stage {
        db,
        proxy,
        recording,
        running,
    };
    stage.recovers().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn fifty_listeners_that_are_killed_one_after_the_other() {
    let db = TestDb::new().await;
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("doorbell.toml");
    fs::write(
        &file,
        format!("[database]\nurl = {:?}\n[channels.ops]\nsender = 'log'", db.url()),
    )
    .unwrap();
    let process = Process::spawn(doorbell(["run", "--config"]).arg(&file));
    process.says("ready").await;
    let mut slowest = Duration::ZERO;
    let mut before = (0, 0);
    for kill in 1..=50 {
        db.armed(1).await;
        if kill == 10 {
            before = (process.open_files(), process.memory());
        }
        assert_eq!(db.terminate_backends("doorbell listener").await, 1);
        let killed = Instant::now();
        db.armed(0).await;
        db.armed(1).await;
        slowest = slowest.max(killed.elapsed());
    }
    let after = (process.open_files(), process.memory());
    println!("back after {slowest:?} at most; files and memory after 10 and 50 kills: {before:?}, {after:?}");
    assert!(slowest < BACK_FROM_A_KILL);
    assert!(after.0 <= before.0 + 1 && after.1 < before.1 + 2_000_000);
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn the_server_watches_every_session_of_a_reactor() {
    let site = Site::new(embedded::Server::builder().port(0)).await;
    let database = Database::builder(site.server.loopback_url("postgres").unwrap())
        .build()
        .unwrap();
    let running = Running::start(reactor_on(database, Recording::new(), ChannelConfig::default())).await;
    // What the listening session holds would make producers ring, and what the two of its own hold would keep its rows from
    // others; those of the pool take places.
    eventually(SOON, || async {
        let (guarded, all) = sessions(site.server.port().unwrap());
        expect(guarded == all && all > 2, format!("{guarded} of {all}"))
    })
    .await;
    running.stop().await;
}

/// At how many of its connections the server looks within 30 s whether the other side is still there, and how many there are.
#[cfg(target_os = "linux")]
fn sessions(port: u16) -> (usize, usize) {
    let sockets = fs::read_to_string("/proc/net/tcp").unwrap();
    let (ours, established, keep_alive) = (format!(":{port:04X}"), "01", "02:");
    let fields = |socket: &str| -> Vec<String> { socket.split_whitespace().map(str::to_owned).collect() };
    let open = sockets.lines().skip(1).map(fields);
    let open: Vec<_> = open
        .filter(|fields| fields[1].ends_with(&ours) && fields[3] == established)
        .collect();
    let is_guarded = |fields: &&Vec<String>| {
        let hundredths = fields[5].strip_prefix(keep_alive);
        hundredths.is_some_and(|when| u64::from_str_radix(when, 16).unwrap() <= 3000)
    };
    (open.iter().filter(is_guarded).count(), open.len())
}
