//! What `doorbell bench` and the benchmark of this crate share: three ways from an INSERT to somebody who waits for it,
//! timed side by side. Not an interface to build on.
//!
//! - `scratch`: a schema of our own on the server that is measured.
//! - `probe`: one row after the other, from just before its INSERT until it arrives.
//! - `enqueue`, `notify`, `poll`: the three ways, each a probe.
//! - `pauses`: the time between rows; `latencies`: their percentiles.

mod enqueue;
mod floor;
mod latencies;
mod notify;
mod pauses;
mod poll;
mod probe;
mod scratch;

pub use latencies::Latencies;
pub use pauses::Pauses;
pub use probe::Probe;
pub use scratch::Scratch;
