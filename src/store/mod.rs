//! The statements of reactors and of the queue, one a file, whose header says what it locks and which index serves it. The
//! only place of the two that knows columns.

use crate::schema::Schema;

mod dispatch;
mod held;
mod history;
mod large;
mod lookout;
pub(crate) mod lossy;
mod queue;
mod roster;
mod runner;

pub(crate) use dispatch::{Ask, Bell, Claimed, Claims, NextDue, Store, Wanted};
pub(crate) use held::{Held, Settlement};
pub(crate) use history::HistoryStatements;
pub(crate) use large::Contents;
pub(crate) use lookout::Lookout;
pub(crate) use queue::QueueStatements;
pub(crate) use roster::{Entry, NEW_REACTOR, Peer, Presence};

/// A struct of statements, one field for each `.sql` file of the same name beside this one, with `new(&Schema)`, which
/// renders them once.
macro_rules! statements {
    ($(#[$attribute:meta])* $name:ident { $($statement:ident),* $(,)? }) => {
        $(#[$attribute])*
        #[derive(Clone)]
        pub(crate) struct $name {
            $(pub(crate) $statement: String,)*
        }

        impl $name {
            pub(crate) fn new(schema: &$crate::schema::Schema) -> Self {
                $name {
                    $($statement: $crate::store::render(
                        schema,
                        include_str!(concat!(stringify!($statement), ".sql")),
                    ),)*
                }
            }
        }
    };
}
use statements;

/// The statement with the schema's name in it, and without its comments: they are for readers, not for the wire.
fn render(schema: &Schema, file: &str) -> String {
    let lines = file.lines().filter(|line| !line.trim_start().starts_with("--"));
    schema.render(&lines.collect::<Vec<_>>().join("\n"))
}
