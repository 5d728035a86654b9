//! A private PostgreSQL server from installed programs: for a demo, for tests and benchmarks, or for a machine whose
//! only database is this queue.
//!
//! ```no_run
//! # fn main() -> Result<(), doorbell::Error> {
//! use doorbell::embedded::Server;
//!
//! let server = Server::builder().data_dir("/var/lib/doorbell").start()?;
//! println!("{}", server.url("postgres"));
//! # Ok(())
//! # }
//! ```
//!
//! Everything here blocks its thread: a first start for about a second, a later one and a stop for some tenths, a start
//! after a crash for as long as the server needs to replay its log. In asynchronous code use `spawn_blocking`, or start
//! before and drop after everything else.
//!
//! **Who runs it.** We do, unless we are root: then the owner of the data does, or else the user `postgres`, or else
//! `nobody`.
//!
//! **Who can connect.** Over its Unix socket, without a password, as the superuser `postgres`: the user who runs the
//! server, and root. The socket's directory is closed to everybody else. Over the loopback port, if there is
//! one: whoever knows a random password that is made with the data (`password` in the data directory).
//!
//! **How it ends.** With its owner: when the [`Server`] is dropped, when the process ends in any other way, and also when
//! it is killed outright (a small watchdog process sees to that). Ctrl-C in the terminal reaches the owner only, so that
//! it can still write to the database while it stops.

mod account;
mod binaries;
mod builder;
mod cluster;
mod home;
mod postmaster;
mod server;
mod watchdog;

pub use builder::Builder;
pub use server::Server;
