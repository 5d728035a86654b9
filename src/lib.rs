//! Doorbell is a durable notification dispatcher on plain PostgreSQL. Any program inserts a row into a table; a
//! [`Reactor`] wakes, claims the row, hands it to a [`Sender`], and writes down what happened. The table is the truth;
//! the NOTIFY that wakes the reactor is only a hint.
//!
//! ```no_run
//! use doorbell::{ChannelConfig, Database, Notification, Reactor, Receipt, SendError, Sender};
//!
//! struct Email;
//!
//! impl Sender for Email {
//!     async fn send(&self, notification: &Notification) -> Result<Receipt, SendError> {
//!         println!("to {}: {}", notification.recipient(), notification.payload());
//!         Ok(Receipt::none())
//!     }
//! }
//!
//! # async fn example() -> Result<(), doorbell::Error> {
//! let database = Database::builder("postgres://app@localhost/app").build()?;
//! let reactor = Reactor::builder(database)
//!     .channel("email", Email, ChannelConfig::default())
//!     .build()?;
//! reactor.run(async { /* resolves when it is time to stop */ }).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Where to find what
//!
//! | for | see |
//! | --- | --- |
//! | delivering: what to implement, and what may go wrong | [`Sender`], [`Notification`], [`Receipt`], [`SendError`] |
//! | senders that are there already, and one for tests | [`senders`] |
//! | running, and how it fares | [`Reactor`], [`ChannelConfig`], [`RetryPolicy`], [`OnUnknown`], [`Health`] |
//! | enqueueing, in a transaction of your own | [`enqueue`], [`enqueue_many`], [`NewNotification`], [`GenericClient`] |
//! | looking up, retrying, cancelling, purging, the state of all | [`Queue`], [`Job`], [`QueueStatus`] |
//! | connecting | [`Database`] |
//! | making and updating the tables | [`Migrator`] |
//! | a private server | `embedded`, with the feature of that name |
//!
//! # Features
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `program` (default) | the program `doorbell`, and with it all of the others |
//! | `tls` | TLS to the server, through rustls |
//! | `embedded` | `embedded`: a private PostgreSQL server from installed programs |
//! | `command` | `senders::Command`, which runs a program |
//! | `webhook` | `senders::Webhook`, which posts to a URL |
//!
//! A library needs none of them: `default-features = false` leaves [`senders::Log`] and [`senders::Recording`].

mod client;
mod config;
mod connect;
#[cfg(feature = "embedded")]
pub mod embedded;
mod error;
mod generic_client;
#[cfg(feature = "program")]
#[doc(hidden)]
pub mod measure;
mod migrate;
mod new_notification;
mod notification;
mod outcome;
mod reactor;
mod retry;
mod schema;
mod sender;
pub mod senders;
mod status;
mod store;

pub use client::{
    BellStatus, Cancelled, ChannelStatus, InFlight, Job, JobFilter, OpenTransaction, ProducerStatus, PurgeStep, Queue,
    QueueStatus, ReactorMode, ReactorStatus, Retried, RetriedAll, RoleStatus, ServerStatus, Surroundings, TableStatus,
    TriggerState, enqueue, enqueue_many,
};
pub use config::{ChannelConfig, OnUnknown};
pub use connect::{Database, DatabaseBuilder};
pub use error::Error;
pub use generic_client::GenericClient;
pub use migrate::{MigrationStep, Migrator};
pub use new_notification::NewNotification;
pub use notification::Notification;
pub use reactor::{Health, Mode, Processed, Reactor, ReactorBuilder, Trouble};
pub use retry::RetryPolicy;
pub use sender::{Receipt, SendError, Sender};
pub use status::Status;

pub use uuid::Uuid;

/// The examples of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
