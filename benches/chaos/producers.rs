//! Where rows come from: programs that insert, some in transactions that take a while, and connect anew whenever that fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use doorbell::Uuid;
use tokio::task::JoinSet;
use tokio_postgres::Client;

use crate::dice::Dice;
use crate::{Outcome, session};

const PRODUCERS: u64 = 4;
/// Each pauses for half of this, on average, after each row.
const LONGEST_PAUSE_MS: u64 = 40;
const LONGEST_TRANSACTION_MS: u64 = 500;

pub(crate) struct Producers {
    stop: Arc<AtomicBool>,
    tasks: JoinSet<Rows>,
}

/// Rows that were inserted, with the time at which that was answered.
#[derive(Default)]
pub(crate) struct Rows {
    committed: Vec<(Uuid, Instant)>,
    /// The COMMIT was not answered.
    unknown: Vec<(Uuid, Instant)>,
}

impl Producers {
    pub(crate) fn start(seed: u64, url: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for number in 0..PRODUCERS {
            let dice = Dice::new(seed, 2 + number);
            tasks.spawn(produce(url.to_owned(), dice, Arc::clone(&stop)));
        }
        Producers { stop, tasks }
    }

    pub(crate) async fn stop(self) -> Rows {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Rows::default();
        for rows in self.tasks.join_all().await {
            all.committed.extend(rows.committed);
            all.unknown.extend(rows.unknown);
        }
        all
    }
}

impl Rows {
    /// Those that are in the table.
    pub(crate) async fn committed(mut self, client: &Client) -> Outcome<Vec<(Uuid, Instant)>> {
        for (id, at) in self.unknown {
            let found = client
                .query("SELECT FROM notification_jobs WHERE id = $1", &[&id])
                .await?;
            self.committed.extend(found.first().map(|_| (id, at)));
        }
        Ok(self.committed)
    }
}

async fn produce(url: String, mut dice: Dice, stop: Arc<AtomicBool>) -> Rows {
    let mut rows = Rows::default();
    while !stop.load(Ordering::Relaxed) {
        if let Ok(client) = session(&url).await {
            while !stop.load(Ordering::Relaxed) {
                let id = Uuid::now_v7();
                if insert(&client, id, &mut dice).await.is_err() {
                    rows.unknown.push((id, Instant::now()));
                    break;
                }
                rows.committed.push((id, Instant::now()));
                dice.pause(LONGEST_PAUSE_MS).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    rows
}

async fn insert(client: &Client, id: Uuid, dice: &mut Dice) -> Result<(), tokio_postgres::Error> {
    // Attempts that a fault takes away are not to be its end.
    let insert = "INSERT INTO notification_jobs (id, channel, recipient, max_attempts) VALUES ($1, 'ops', 'me', 1000)";
    if !dice.one_in(20) {
        return client.execute(insert, &[&id]).await.map(drop);
    }
    client.batch_execute("BEGIN").await?;
    client.execute(insert, &[&id]).await?;
    dice.pause(LONGEST_TRANSACTION_MS).await;
    client.batch_execute("COMMIT").await
}
