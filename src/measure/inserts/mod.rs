//! How many rows a second producers commit, with the bell and without, side by side.
//!
//! A cell is one variant, one number of clients, one window of time. A round is a cell of every variant; each round
//! begins with another one. Before a cell the tables are emptied and a checkpoint is made, so that each finds the same.
//!
//! - `variant`: what is compared.
//! - `stage`: the tables, and one cell on them.
//! - `ears`: the session that listens, and counts what rang.
//! - `producers`: the clients that insert.
//! - `bulk`: what the triggers take of one large INSERT.
//! - `report`: medians and ratios.

mod bulk;
mod ears;
mod producers;
mod report;
mod stage;
mod variant;

use std::time::Duration;

pub use report::InsertReport;
use report::{Cell, Round};
use stage::Stage;
pub use variant::Variant;

use super::turns::in_turns;
use crate::Error;
use crate::connect::Database;

/// What is to be measured with one number of clients.
#[derive(Clone, Debug)]
pub struct InsertLoad {
    /// How many producers insert at once, a connection each.
    pub clients: u32,
    /// How long each cell lasts, beside its warm-up.
    pub window: Duration,
    /// How often each variant is measured; at least one.
    pub rounds: u32,
    /// Which variants are measured.
    pub variants: Vec<Variant>,
}

impl InsertLoad {
    /// How many steps [`Inserts::measure`] takes.
    pub fn steps(&self) -> u64 {
        u64::from(self.rounds) * (1 + self.variants.len() as u64)
    }
}

/// Measures how many single-row inserts a second are committed.
pub struct Inserts(Stage);

impl Inserts {
    /// Makes the tables to compare with, beside the queue itself, whose autovacuum it turns off.
    ///
    /// # Errors
    ///
    /// The server's.
    pub async fn prepare(database: &Database) -> Result<Self, Error> {
        Ok(Inserts(Stage::build(database).await?))
    }

    /// Measures the variants of this load, and calls `step` after each cell and each bulk load.
    ///
    /// # Errors
    ///
    /// The server's, for instance that it has too few connections, or [`Error::is_connection`]: a reactor cannot listen.
    pub async fn measure(&self, load: &InsertLoad, mut step: impl FnMut()) -> Result<InsertReport, Error> {
        let mut rounds = Vec::new();
        for number in 0..load.rounds {
            let mut cells = [Cell::UNMEASURED; Variant::ALL.len()];
            for variant in in_turns(&load.variants, number, load.rounds) {
                cells[variant as usize] = self.0.cell(variant, load).await?;
                step();
            }
            let bulk_trigger_ms = self.0.bulk_trigger_ms().await?;
            rounds.push(Round { cells, bulk_trigger_ms });
            step();
        }
        Ok(InsertReport::new(load.clone(), self.0.commit_delay_us, rounds))
    }
}
