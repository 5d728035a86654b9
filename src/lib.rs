//! Doorbell is a durable notification dispatcher on plain PostgreSQL.

mod config;
mod error;
mod notification;
mod outcome;
mod retry;
mod schema;
mod sender;

pub use config::{ChannelConfig, OnUnknown};
pub use error::Error;
pub use notification::{NewNotification, Notification, Status};
pub use retry::RetryPolicy;
pub use sender::{Receipt, SendError, Sender};

pub use uuid::Uuid;
