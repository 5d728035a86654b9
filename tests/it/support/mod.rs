//! What the tests stand on: a server, a database for each test, and patience.

mod asked;
mod bell;
mod child;
mod database;
mod eventually;
mod gate;
mod held_up;
mod pgbouncer;
pub(crate) mod program;
mod proxy;
mod role;
mod running;
mod server;
mod site;
mod sleeper;

pub(crate) use asked::{ON_DUTY, TWO_LOOKS_AND_MORE, becomes, on_duty, value};
pub(crate) use child::Child;
pub(crate) use database::{TestDb, connect};
pub(crate) use eventually::{eventually, expect};
pub(crate) use gate::Gate;
pub(crate) use pgbouncer::PgBouncer;
pub(crate) use proxy::{Proxy, Traffic};
pub(crate) use role::Role;
pub(crate) use running::{Running, patient, reactor_on};
pub(crate) use server::client_program;
pub(crate) use site::Site;
pub(crate) use sleeper::Sleeper;

/// Far longer than anything that works takes, far shorter than the safety scan of a test's reactor.
pub(crate) const SOON: std::time::Duration = std::time::Duration::from_secs(20);
