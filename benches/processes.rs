//! Reactors as processes, on one private server: how fast 1, 2, 4 and 8 of them empty a backlog together and how evenly
//! they share it, and what one costs that sleeps.
//!
//! `cargo bench --bench processes` takes about three minutes, of which two are of sleep; with `-- --quick`, or
//! `DOORBELL_BENCH_QUICK=1` in the environment, half a minute.

use std::env;
use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use doorbell::embedded::Server;
use doorbell::measure::{Goal, Scratch, median};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROWS: i64 = 20_000;
const FLEETS: [usize; 4] = [1, 2, 4, 8];

/// How much is done.
struct Extent {
    rounds: usize,
    rows: i64,
    sleep: Duration,
    sent_before_the_second_sleep: i64,
    /// A session that falls idle says up to 10 s later how many transactions it has had.
    until_counted: Duration,
}

fn main() -> Outcome<()> {
    let quick = env::var_os("DOORBELL_BENCH_QUICK").is_some() || env::args().any(|arg| arg == "--quick");
    let extent = match quick {
        true => Extent {
            rounds: 1,
            rows: 2_000,
            sleep: Duration::from_secs(3),
            sent_before_the_second_sleep: 2_000,
            until_counted: Duration::from_secs(2),
        },
        false => Extent {
            rounds: 3,
            rows: ROWS,
            sleep: Duration::from_secs(60),
            sent_before_the_second_sleep: 100_000,
            until_counted: Duration::from_secs(15),
        },
    };
    let server = Server::builder().start()?;
    let url = server.url("postgres");
    let directory = tempfile::tempdir()?;
    Runtime::new()?.block_on(async {
        let schema = Scratch::new_name();
        let scratch = Scratch::create(&url, &schema).await?;
        let config = directory.path().join("doorbell.toml");
        let site = Site::new(url, schema, config).await?;
        let mut goals = site.together(&extent).await?;
        goals.extend(site.asleep(&extent).await?);
        goals.iter().for_each(|goal| println!("{goal}"));
        scratch.remove().await?;
        Ok(())
    })
}

/// A session in the schema, and what the processes are given.
struct Site {
    session: Client,
    url: String,
    schema: String,
    config: PathBuf,
}

impl Site {
    async fn new(url: String, schema: String, config: PathBuf) -> Outcome<Self> {
        let file = "[reactor]\nscan_interval = \"10m\"\n[channels.ops]\nsender = \"log\"\nmax_in_flight = 500\n";
        fs::write(&config, file)?;
        let (session, connection) = tokio_postgres::connect(&url, NoTls).await?;
        tokio::spawn(connection);
        session
            .batch_execute(&format!("SET search_path = \"{schema}\""))
            .await?;
        Ok(Site {
            session,
            url,
            schema,
            config,
        })
    }

    /// Rows a second of each fleet, by turns.
    async fn together(&self, extent: &Extent) -> Outcome<Vec<Goal>> {
        println!("reactors     rows/s  rows of the least busy and of the busiest");
        let mut rates = vec![vec![]; FLEETS.len()];
        for _ in 0..extent.rounds {
            for (fleet, rates) in FLEETS.iter().zip(&mut rates) {
                let (rate, mut shares) = self.empty_with(*fleet, extent.rows).await?;
                shares.sort_unstable();
                println!("{fleet:>8} {rate:>10.0}  {:?} {:?}", shares.first(), shares.last());
                rates.push(rate);
            }
        }
        let medians: Vec<f64> = rates.into_iter().map(median).collect();
        let goal = |(fleet, rate): (&usize, &f64)| {
            Goal::at_least(
                format!("{fleet} reactors: rows/s over those of one"),
                rate / medians[0],
                0.95,
            )
        };
        Ok(FLEETS.iter().zip(&medians).skip(1).map(goal).collect())
    }

    /// How fast so many reactors send so many rows, and how many each has sent. Each row must be sent once.
    async fn empty_with(&self, reactors: usize, rows: i64) -> Outcome<(f64, Vec<usize>)> {
        self.session.batch_execute("TRUNCATE notification_jobs").await?;
        let fleet: Vec<Process> = (0..reactors).map(|_| self.run()).collect::<Outcome<_>>()?;
        self.insert_silently(rows).await?;
        let begun = Instant::now();
        self.ring().await?;
        self.emptied().await?;
        let rate = rows as f64 / begun.elapsed().as_secs_f64();
        let claims = self.number("SELECT max(attempts) FROM notification_jobs").await?;
        if claims != 1 {
            return Err(format!("a row was claimed {claims} times").into());
        }
        Ok((
            rate,
            fleet
                .iter()
                .map(|process| process.sent.load(Ordering::Relaxed))
                .collect(),
        ))
    }

    /// What a process costs that sleeps: at first, and after it has sent many rows.
    async fn asleep(&self, extent: &Extent) -> Outcome<Vec<Goal>> {
        self.session.batch_execute("TRUNCATE notification_jobs").await?;
        let process = self.run()?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let mut goals = self.cost_of_sleep(&process, extent.sleep, "asleep").await?;
        self.insert_silently(extent.sent_before_the_second_sleep).await?;
        self.ring().await?;
        self.emptied().await?;
        tokio::time::sleep(extent.until_counted).await;
        let what = format!("asleep, after {} rows", extent.sent_before_the_second_sleep);
        goals.extend(self.cost_of_sleep(&process, extent.sleep, &what).await?);
        Ok(goals)
    }

    async fn cost_of_sleep(&self, process: &Process, lasts: Duration, what: &str) -> Outcome<Vec<Goal>> {
        let (cpu, transactions) = (process.cpu()?, self.transactions().await?);
        tokio::time::sleep(lasts).await;
        let seconds = lasts.as_secs_f64();
        // One of them is the question itself.
        let transactions = (self.transactions().await? - transactions - 1) as f64 / seconds;
        let share = (process.cpu()? - cpu).as_secs_f64() / seconds;
        let megabytes = process.resident_megabytes()?;
        println!(
            "{what}: {transactions:.2} transactions/s, {:.3} % of a core, {megabytes:.1} MB",
            share * 100.0
        );
        Ok(vec![
            Goal::at_most(format!("{what}: transactions a second"), transactions, 1.0),
            Goal::at_most(format!("{what}: % of a core"), share * 100.0, 0.1),
            Goal::at_most(format!("{what}: MB resident"), megabytes, 25.0),
        ])
    }

    fn run(&self) -> Outcome<Process> {
        Process::start(&self.url, &self.schema, &self.config)
    }

    async fn insert_silently(&self, rows: i64) -> Outcome<()> {
        let insert = format!(
            "SET doorbell.notify = off;
             INSERT INTO notification_jobs (channel, recipient) SELECT 'ops', 'me' FROM generate_series(1, {rows});
             RESET doorbell.notify"
        );
        self.session.batch_execute(&insert).await?;
        Ok(self.session.batch_execute("VACUUM ANALYZE notification_jobs").await?)
    }

    async fn ring(&self) -> Outcome<()> {
        let insert = "INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', 'last')";
        Ok(self.session.batch_execute(insert).await?)
    }

    async fn emptied(&self) -> Outcome<()> {
        while self
            .number("SELECT count(*) FROM notification_jobs WHERE status = 'pending'")
            .await?
            > 0
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Those of the database, ours included.
    async fn transactions(&self) -> Outcome<i64> {
        self.number("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()")
            .await
    }

    async fn number(&self, sql: &str) -> Outcome<i64> {
        let row = self.session.query_one(&format!("SELECT ({sql})::bigint"), &[]).await?;
        Ok(row.try_get(0)?)
    }
}

/// `doorbell run`, whose lines on standard output are counted: one for each row that it sends.
struct Process {
    child: Child,
    sent: Arc<AtomicUsize>,
}

impl Process {
    /// Returns when it is ready.
    fn start(url: &str, schema: &str, config: &Path) -> Outcome<Self> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_doorbell"))
            .args(["run", "--database-url", url, "--schema", schema, "--config"])
            .arg(config)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let process = Process {
            child,
            sent: Arc::default(),
        };
        let mut complaints = stderr
            .into_iter()
            .flat_map(|stderr| BufReader::new(stderr).lines().map_while(Result::ok));
        if !complaints.any(|line| line.contains("ready")) {
            return Err("a reactor did not start".into());
        }
        // Read on, or the pipe fills up.
        thread::spawn(move || complaints.for_each(drop));
        let sent = Arc::clone(&process.sent);
        thread::spawn(move || {
            let lines = stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines());
            for _ in lines.map_while(Result::ok) {
                sent.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(process)
    }

    /// The processor time it has had.
    fn cpu(&self) -> Outcome<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // After the name, which may contain anything: the 12th and 13th are user and system time, in hundredths.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
        Ok(Duration::from_millis(ticks * 10))
    }

    fn resident_megabytes(&self) -> Outcome<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .ok_or("no VmRSS")?;
        let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kilobytes / 1024.0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // What comes of it cannot matter any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
