//! Rows that are inserted when their time has come, whether or not those before them are through.

use std::thread;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use tokio::sync::mpsc;

use super::probe::session;
use crate::Error;
use crate::connect::Database;
use crate::retry::random;

/// Connections that insert. Enough that hardly a row waits for a free one.
const PRODUCERS: usize = 16;
/// For the producers to connect.
const LEAD: Duration = Duration::from_millis(300);
const INSERT: &str = r#"INSERT INTO :"schema".notification_jobs (channel, recipient) VALUES ('load', $1)"#;

/// When each row is to be inserted. The rows are on channel `load`, and the recipient of each is its number from 0 on.
pub struct OpenLoop(Vec<Instant>);

impl OpenLoop {
    /// Rows at random times, `rate` a second on average (a Poisson process), for so long from a moment from now on.
    pub fn poisson(rate: f64, lasts: Duration) -> Self {
        let begin = Instant::now() + LEAD;
        let mut at = 0.0;
        let times = std::iter::repeat_with(|| {
            at -= (1.0 - random()).ln() / rate;
            Duration::from_secs_f64(at)
        });
        OpenLoop(times.take_while(|at| *at < lasts).map(|at| begin + at).collect())
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.0.len()
    }

    /// When each row is to be inserted, by its number.
    pub fn times(&self) -> &[Instant] {
        &self.0
    }

    /// Inserts them; `inserted` is told of each. Answers with how long after its time each was committed, by its number.
    ///
    /// # Errors
    ///
    /// The server's.
    pub async fn insert(&self, database: &Database, inserted: impl Fn()) -> Result<Vec<Duration>, Error> {
        let insert = database.schema().render(INSERT);
        let (queues, producers): (Vec<_>, Vec<_>) = (0..PRODUCERS)
            .map(|_| {
                let (queue, rows) = mpsc::unbounded_channel();
                (queue, self.produce(database, &insert, rows, &inserted))
            })
            .unzip();
        let times = self.0.clone();
        thread::spawn(move || hand_out(&times, &queues));
        let mut committed: Vec<_> = try_join_all(producers).await?.into_iter().flatten().collect();
        committed.sort_unstable();
        Ok(committed.into_iter().map(|(_, after)| after).collect())
    }

    /// Inserts the rows whose numbers come; answers with how long after its time each was committed.
    async fn produce(
        &self,
        database: &Database,
        insert: &str,
        mut rows: mpsc::UnboundedReceiver<usize>,
        inserted: &impl Fn(),
    ) -> Result<Vec<(usize, Duration)>, Error> {
        let client = session(database).await?;
        let insert = client.prepare(insert).await?;
        let mut committed = Vec::new();
        while let Some(row) = rows.recv().await {
            client.execute(&insert, &[&row.to_string()]).await?;
            committed.push((row, self.0[row].elapsed()));
            inserted();
        }
        Ok(committed)
    }
}

/// Gives each row to a producer when its time has come. A thread, since a task's timers are as coarse as a millisecond.
fn hand_out(times: &[Instant], queues: &[mpsc::UnboundedSender<usize>]) {
    for (row, at) in times.iter().enumerate() {
        thread::sleep(at.saturating_duration_since(Instant::now()));
        if queues[row % queues.len()].send(row).is_err() {
            return;
        }
    }
}
