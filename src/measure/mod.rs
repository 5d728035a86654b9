//! What `doorbell bench` and the benchmarks of this crate share: three ways from an INSERT to somebody who waits for it,
//! timed side by side, and what each way costs those who insert. Not an interface to build on.
//!
//! - `scratch`: a schema of our own on the server that is measured.
//! - `probe`: one row after the other, from just before its INSERT until it arrives.
//! - `enqueue`, `notify`, `poll`: the three ways, each a probe.
//! - `floor`: the least that a dispatcher can take; `compare`: our way beside it and beside a bare NOTIFY.
//! - `open_loop`: rows that come whether or not those before them are through; `load`: their latencies.
//! - `reactor`: a reactor to be measured; `senders`: what it sends with; `goal`: a figure beside what it should be.
//! - `inserts`: many rows at once, from many clients, with the bell and without.
//! - `drain`: a backlog, emptied by a reactor and by the server alone.
//! - `turns`: who comes first in which round.
//! - `pauses`: the time between rows; `latencies`: their percentiles; `median`: the middle of a few rounds.
//! - `growth`: what a queue grows by in months; `claims`: the reactor's own claim, by itself;
//!   `row_cost`: batches of rows into a table that has grown.

mod claims;
mod compare;
mod drain;
mod enqueue;
mod floor;
mod goal;
mod growth;
mod inserts;
mod latencies;
mod load;
mod median;
mod notify;
mod open_loop;
mod pauses;
mod poll;
mod probe;
mod reactor;
mod row_cost;
mod scratch;
mod senders;
mod turns;

pub use claims::Claims;
pub use compare::{Comparison, compare};
pub use drain::{Drain, DrainRound};
pub use goal::Goal;
pub use growth::{Growth, Snapshot};
pub use inserts::{InsertLoad, InsertReport, Inserts, Variant};
pub use latencies::Latencies;
pub use load::{Passage, beside_bursts, inserts_alone, under_load};
pub use median::median;
pub use open_loop::OpenLoop;
pub use pauses::Pauses;
pub use probe::Probe;
pub use row_cost::{Batches, RowCost};
pub use scratch::Scratch;
pub use turns::in_turns;
