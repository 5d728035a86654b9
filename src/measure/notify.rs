//! The measure of all: what a bare NOTIFY takes on this server.

use std::time::Instant;

use tokio::sync::mpsc;

use super::probe::{Probe, Receiver, hearing_session};
use crate::Error;
use crate::connect::Database;

const TOPIC: &str = "doorbell_bench";
const SETUP: &str = r#"
    CREATE TABLE :"schema".bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, recipient text NOT NULL);
    CREATE FUNCTION :"schema".bare_notify() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_catalog.pg_notify(TG_ARGV[0], NEW.recipient); RETURN NULL; END';
    CREATE TRIGGER bare_notify AFTER INSERT ON :"schema".bare
        FOR EACH ROW EXECUTE FUNCTION :"schema".bare_notify('doorbell_bench')"#;
const INSERT: &str = r#"INSERT INTO :"schema".bare (recipient) VALUES ($1)"#;

impl Probe {
    /// From just before an INSERT into a small table, whose trigger notifies, until the notification has reached a
    /// connection that listens. No claim, no sender: the least that any dispatcher woken by NOTIFY can take.
    ///
    /// # Errors
    ///
    /// The server's.
    pub async fn notify(database: &Database) -> Result<Self, Error> {
        let (heard, arrivals) = mpsc::unbounded_channel();
        let listener = hearing_session(database, move |notify| {
            // Nobody listens any more when the probe is.
            let _ = heard.send((notify.payload().to_owned(), Instant::now()));
        })
        .await?;
        listener.batch_execute(&database.schema().render(SETUP)).await?;
        listener.batch_execute(&format!("LISTEN {TOPIC}")).await?;
        let insert = database.schema().render(INSERT);
        Probe::new(database, &insert, None, arrivals, Receiver::Session(listener)).await
    }
}
