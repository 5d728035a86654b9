//! Producers, reactors and faults at random, all of it in one run, with the time from each commit to its send.
//!
//! In rounds: each is over before the next begins, so that a lost wake-up is not healed by the next ring. The safety scan
//! is ten minutes away.

mod dice;
mod ledger;
mod producer;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dice::Dice;
use doorbell::{ChannelConfig, Reactor};
use ledger::{Ledger, Row};
use producer::Producer;
use tokio_postgres::Client;

use crate::support::{Running, TestDb};

const PRODUCERS: u64 = 8;
/// Of these, in a round that takes long.
const LONG_PRODUCERS: usize = 3;
const ROUNDS: u64 = 32;
/// From this round on listeners are cut off: a claim that is cut off with one is asked after for seconds, and those looks
/// would find what a ring was lost for.
const CUTS_FROM: u64 = 20;
const SAFETY_SCAN: Duration = Duration::from_secs(600);
/// The longest that a committed row may wait while its channel has a free slot. Nothing is allowed for a listener that was
/// killed: its reactor looks every 50 ms until it is back.
const BOUND: Duration = Duration::from_secs(2);
/// How long to wait for a row at all, so that one that is late can be told from one that never comes.
const PATIENCE: Duration = Duration::from_secs(10);
/// The slots of each reactor. Few, so that bursts take all of them, of one channel or of both.
const SLOTS: [[(&str, u32); 2]; 2] = [[("ops", 2), ("narrow", 1)], [("ops", 4), ("narrow", 1)]];

async fn start(db: &TestDb, ledger: &Ledger, slots: [(&'static str, u32); 2]) -> Running {
    let mut builder = Reactor::builder(db.database()).scan_interval(SAFETY_SCAN);
    for (channel, slots) in slots {
        let config = ChannelConfig::default().max_in_flight(slots);
        builder = builder.channel(channel, ledger.sender(channel), config);
    }
    Running::start(builder).await
}

/// What one run does, and what it has seen.
struct Run<'a> {
    db: &'a TestDb,
    seed: u64,
    ledger: Ledger,
    dice: Dice,
    admin: Client,
    producers: Vec<Producer>,
    /// Rings for nobody and waits for nobody: its rows go out with others.
    opted_out: Producer,
    rows: usize,
    waited_for_a_slot: usize,
    cuts: usize,
    longest: Duration,
}

impl<'a> Run<'a> {
    async fn new(db: &'a TestDb, ledger: &Ledger) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let seed = since.as_nanos() as u64;
        eprintln!("seed {seed}");
        let mut producers = Vec::new();
        for name in 0..PRODUCERS {
            producers.push(Producer::new(db, name, seed).await);
        }
        Run {
            db,
            seed,
            ledger: ledger.clone(),
            dice: Dice::new(seed, PRODUCERS + 1),
            admin: db.client().await,
            producers,
            opted_out: Producer::new(db, PRODUCERS, seed).await.opts_out().await,
            rows: 0,
            waited_for_a_slot: 0,
            cuts: 0,
            longest: Duration::ZERO,
        }
    }

    /// Each eighth round takes long; the last ones lose listeners, while they run or before they begin.
    async fn round(&mut self, number: u64) {
        // Across the moment in which the reactors go to sleep, or after it.
        match number % 4 {
            1 => self.db.armed(SLOTS.len()).await,
            _ => self.dice.pause(25).await,
        }
        if number >= CUTS_FROM && number % 4 == 1 {
            self.cuts += cut_listeners(&self.admin, SLOTS.len() as u64).await;
            // Across the moment in which they are back.
            self.dice.pause(200).await;
        }
        let committed = self.produce(number).await;
        let sent = self.ledger.all_sent(&committed, PATIENCE).await;
        assert_eq!(sent, Ok(()), "never came, in round {number} (seed {})", self.seed);
        for row in &committed {
            let lateness = self.ledger.lateness(row);
            let (late, recipient) = (lateness.late, &row.recipient);
            self.longest = self.longest.max(late);
            self.waited_for_a_slot += usize::from(lateness.waited_for_a_slot);
            assert!(
                late <= BOUND,
                "{recipient} was {late:?} late, in round {number} (seed {})",
                self.seed
            );
        }
        self.rows += committed.len();
    }

    /// Everybody at once; answers with the committed rows that nobody may leave waiting.
    async fn produce(&mut self, number: u64) -> Vec<Row> {
        let long = if number % 8 == 6 { LONG_PRODUCERS } else { 0 };
        let (long, others) = self.producers.split_at_mut(long);
        let others = futures::future::join_all(others.iter_mut().map(Producer::round));
        let long = futures::future::join_all(long.iter_mut().map(Producer::long_round));
        let cut = async {
            if number >= CUTS_FROM && number % 4 == 3 {
                self.dice.pause(30).await;
                self.cuts += cut_listeners(&self.admin, 1 + self.dice.below(2)).await;
            }
        };
        let (others, long, excused, ()) = futures::join!(others, long, self.opted_out.round(), cut);
        self.rows += excused.len();
        others.into_iter().chain(long).flatten().collect()
    }
}

/// Cuts off so many listening sessions, those there are at most; answers how many.
async fn cut_listeners(admin: &Client, count: u64) -> usize {
    let cut = format!(
        "SELECT pg_terminate_backend(pid) FROM (
             SELECT pid FROM pg_stat_activity
             WHERE datname = current_database() AND application_name LIKE '%listener%'
             ORDER BY random() LIMIT {count}
         ) AS listeners"
    );
    admin.query(&cut, &[]).await.unwrap().len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_committed_row_is_sent_once_and_soon_whatever_producers_and_listeners_do() {
    let db = TestDb::new().await;
    let in_all = SLOTS[0].iter().zip(&SLOTS[1]);
    let ledger = Ledger::new(in_all.map(|(one, other)| (one.0, (one.1 + other.1) as usize)));
    let one = start(&db, &ledger, SLOTS[0]).await;
    let other = start(&db, &ledger, SLOTS[1]).await;
    let mut run = Run::new(&db, &ledger).await;
    for number in 0..ROUNDS {
        run.round(number).await;
    }
    let Run {
        rows,
        waited_for_a_slot,
        cuts,
        longest,
        ..
    } = run;
    eprintln!(
        "{rows} rows, {waited_for_a_slot} had to wait for a slot, {cuts} listeners cut; the latest by {longest:?}"
    );
    assert!(
        waited_for_a_slot > 0 && cuts > 0,
        "nothing was ever full, or nobody was cut off"
    );

    // What opted out and still waits goes out with the next row that rings.
    db.insert("last").await;
    db.becomes(&format!("sent={}", rows + 1)).await;
    assert_eq!(
        ledger.counts(),
        (rows + 1, 1),
        "what was rolled back, or something twice"
    );
    assert_eq!(db.value("SELECT max(attempts) FROM notification_jobs").await, "1");
    one.stop().await;
    other.stop().await;
}
