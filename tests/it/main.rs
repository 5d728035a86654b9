//! Behaviour, against real parts: a real PostgreSQL, real processes. Files are named after what can go wrong.
#![expect(clippy::unwrap_used, reason = "in a test that is a failed assertion")]

mod any_row;
mod bell;
mod bell_races;
mod bell_stress;
mod connect;
mod dispatch;
mod due_times;
mod embedded;
mod enqueue;
mod harness;
mod hostile_defaults;
mod late_rows;
mod leases;
mod locked_rows;
mod lone_rows;
mod lost_answers;
mod many_reactors;
mod migrations;
mod misbehaving_senders;
mod odd_rows;
mod payloads;
mod plans;
mod process_due;
mod producers;
mod program;
mod queue;
mod reactor_list;
mod rescue;
mod rows_changed_under_us;
mod schemas;
mod senders;
mod shutdown;
mod status;
mod support;
mod tables_changed_under_us;
