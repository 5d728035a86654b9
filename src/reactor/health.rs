//! How a running reactor fares, for whoever watches the process that it runs in.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::reactor::Reactor;
use crate::reactor::mode::{Mode, ModeSince};
use crate::reactor::vitals::Reading;

/// How a running reactor fares: [`Reactor::health`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// How it learns of new rows.
    pub mode: Mode,
    /// For how long it has been in that mode. While polling the reason may have changed meanwhile.
    pub mode_lasted: Duration,
    /// How long ago the listening session last showed that it listens. It is asked when it begins, and every 10 s from
    /// then on. `None`: not yet in this run.
    pub probed_ago: Option<Duration>,
    /// How long ago the database last answered a look for due rows. A reactor none of whose channels has a free slot does
    /// not look. `None`: not yet in this run.
    pub looked_ago: Option<Duration>,
    /// Whether the last look for due rows worked.
    pub claiming: Result<(), Trouble>,
    /// Whether outcomes can be written. While they cannot, nothing is claimed.
    pub settling: Result<(), Trouble>,
    /// Row-level security shows the reactor's role no row, or lets it change none. The database reports no error then; it
    /// only looks as if there were nothing to send. Asked at the start, and every 30 s from then on.
    pub rows_hidden: bool,
}

/// Something that does not work.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trouble {
    /// The error of the last try.
    pub why: String,
    /// For how long it has not worked.
    pub lasted: Duration,
}

impl Reactor {
    /// How the reactor fares just now. Asks nobody: it tells what the parts of the reactor have noted.
    pub fn health(&self) -> Health {
        Health::new(&self.phase.borrow(), self.vitals().read())
    }
}

impl Health {
    fn new(phase: &ModeSince, reading: Reading) -> Self {
        let ago = |at: Option<Instant>| at.map(|at| at.elapsed());
        Health {
            mode: phase.mode.clone(),
            mode_lasted: phase.since.elapsed(),
            probed_ago: ago(reading.probed),
            looked_ago: ago(reading.looked),
            claiming: reading.claiming,
            settling: reading.settling,
            rows_hidden: reading.rows_hidden,
        }
    }

    /// Nothing is wrong: it hears the bell, sees its rows, claims and settles.
    ///
    /// One that is not healthy may still send, later than it should: while it polls, for instance.
    pub fn is_healthy(&self) -> bool {
        self.problems().is_empty()
    }

    /// What is wrong, a line each.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        match &self.mode {
            Mode::Listening => {}
            Mode::Starting => problems.push("it is not running, or not yet connected".to_owned()),
            Mode::Polling { why } => problems.push(format!("it does not hear the bell: {why}")),
        }
        for (what, works) in [
            ("it cannot look for due rows", &self.claiming),
            ("it cannot write outcomes", &self.settling),
        ] {
            if let Err(trouble) = works {
                problems.push(format!("{what}: {}", trouble.why));
            }
        }
        if self.rows_hidden {
            problems.push("row-level security keeps every row from its role".to_owned());
        }
        problems
    }

    /// One JSON object. Durations are seconds, with a fraction.
    pub fn to_json(&self) -> String {
        let why = match &self.mode {
            Mode::Polling { why } => Some(why),
            Mode::Starting | Mode::Listening => None,
        };
        let seconds = |ago: Option<Duration>| ago.map(|ago| ago.as_secs_f64());
        json!({
            "healthy": self.is_healthy(),
            "problems": self.problems(),
            "mode": self.mode.as_str(),
            "mode_why": why,
            "mode_seconds": self.mode_lasted.as_secs_f64(),
            "probed_seconds_ago": seconds(self.probed_ago),
            "looked_seconds_ago": seconds(self.looked_ago),
            "claiming": trouble_json(&self.claiming),
            "settling": trouble_json(&self.settling),
            "rows_hidden": self.rows_hidden,
        })
        .to_string()
    }
}

fn trouble_json(works: &Result<(), Trouble>) -> Value {
    match works {
        Ok(()) => json!({ "works": true }),
        Err(trouble) => json!({ "works": false, "why": trouble.why, "seconds": trouble.lasted.as_secs_f64() }),
    }
}
