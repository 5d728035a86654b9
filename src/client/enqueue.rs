//! Putting notifications in.

use std::time::Duration;

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Queue;
use crate::config::LONGEST_CHANNEL;
use crate::generic_client::Session;
use crate::{Error, GenericClient, NewNotification};

/// The longest delay or life: a hundred years. Longer ones run out of the range of a timestamptz.
const LONGEST_WAIT: Duration = Duration::from_secs(36_525 * 24 * 3600);

/// The longest dedupe key in bytes: it is part of an index entry.
const LONGEST_KEY: usize = 1024;

/// One statement carries at most this much.
const CHUNK_ROWS: usize = 10_000;
const CHUNK_BYTES: usize = 16 << 20;

/// How often a dedupe key may be taken when we insert and free when we look.
const TRIES: u32 = 10;

impl Queue {
    /// Enqueues one notification and returns its id. On a transaction it is sent if and when that commits.
    ///
    /// With a dedupe key that is pending on the channel already, nothing is added and the id is that one's. If another
    /// transaction has just inserted the key, this waits until that one ends.
    ///
    /// The role needs the rights to insert and to select. A role that may only insert can do so in plain SQL.
    ///
    /// # Errors
    ///
    /// [`is_input`](Error::is_input): a field cannot be stored, and the message names it; or the id exists already.
    /// [`is_schema`](Error::is_schema): the tables are not there. Otherwise the database's own error; in a REPEATABLE
    /// READ or SERIALIZABLE transaction that includes 40001, when the dedupe key was taken after its snapshot.
    ///
    /// What the database refuses aborts the transaction that it is part of. A field that this method can check itself
    /// does not: every rule but "the id is new" and "the payload is JSON".
    pub async fn enqueue(&self, client: &impl GenericClient, new: &NewNotification) -> Result<Uuid, Error> {
        if let Some(flaw) = flaw(new) {
            return Err(Error::input(flaw));
        }
        let mut id = [Uuid::nil()];
        self.add(client.session(), &[new], &mut id).await?;
        Ok(id[0])
    }

    /// Enqueues many notifications and returns their ids in the same order; otherwise like [`enqueue`](Queue::enqueue).
    ///
    /// Goes in statements of 10,000 rows or 16 MiB. Give it a transaction where it must be all or nothing and may be
    /// more than that.
    ///
    /// # Errors
    ///
    /// As [`enqueue`](Queue::enqueue); the message says which one, counted from 0. Nothing is added when a field of any
    /// of them is wrong.
    pub async fn enqueue_many<'a, I>(&self, client: &impl GenericClient, new: I) -> Result<Vec<Uuid>, Error>
    where
        I: IntoIterator<Item = &'a NewNotification>,
    {
        let new: Vec<_> = new.into_iter().collect();
        if let Some((position, flaw)) = new.iter().enumerate().find_map(|(at, new)| Some((at, flaw(new)?))) {
            return Err(Error::input(format!("notification {position}: {flaw}")));
        }
        let mut ids = vec![Uuid::nil(); new.len()];
        let mut start = 0;
        while start < new.len() {
            let end = start + chunk(&new[start..]);
            self.add(client.session(), &new[start..end], &mut ids[start..end])
                .await?;
            start = end;
        }
        Ok(ids)
    }

    /// Adds these, and writes the id of each beside it.
    async fn add(&self, session: Session<'_>, new: &[&NewNotification], ids: &mut [Uuid]) -> Result<(), Error> {
        let mut left: Vec<usize> = (0..new.len()).collect();
        for _ in 0..TRIES {
            let taken = self.insert(session, new, &left, ids).await?;
            if taken.is_empty() {
                return Ok(());
            }
            // Only a new statement can see what stood in the way: it may have been committed after the first began.
            left = self.look_up(session, new, &taken, ids).await?;
            if left.is_empty() {
                return Ok(());
            }
        }
        Err(Error::timeout(format!(
            "a dedupe key was taken by others and freed again {TRIES} times in a row"
        )))
    }

    /// Inserts those of `new` at `positions`, and returns the positions of those whose dedupe key is taken.
    async fn insert(
        &self,
        session: Session<'_>,
        new: &[&NewNotification],
        positions: &[usize],
        ids: &mut [Uuid],
    ) -> Result<Vec<usize>, Error> {
        let these: Vec<_> = positions.iter().map(|&at| new[at]).collect();
        let id = column(&these, |new| new.id);
        let channel = column(&these, |new| new.channel.as_str());
        let recipient = column(&these, |new| new.recipient.as_str());
        let payload = column(&these, |new| new.payload.as_deref());
        let max_attempts = column(&these, |new| {
            new.max_attempts.and_then(|tries| i32::try_from(tries).ok())
        });
        let delay = column(&these, |new| new.delay.map(|delay| delay.as_secs_f64()));
        let life = column(&these, |new| new.expires_in.map(|life| life.as_secs_f64()));
        let key = column(&these, |new| new.dedupe_key.as_deref());
        let parameters = [
            (&id as _, Type::UUID_ARRAY),
            (&channel as _, Type::TEXT_ARRAY),
            (&recipient as _, Type::TEXT_ARRAY),
            (&payload as _, Type::TEXT_ARRAY),
            (&max_attempts as _, Type::INT4_ARRAY),
            (&delay as _, Type::FLOAT8_ARRAY),
            (&life as _, Type::FLOAT8_ARRAY),
            (&key as _, Type::TEXT_ARRAY),
        ];
        let rows = self.query(session, &self.statements().enqueue, &parameters).await;
        let mut taken = Vec::new();
        for (row, &at) in rows.map_err(refusal)?.iter().zip(positions) {
            ids[at] = row.try_get("id")?;
            if !row.try_get::<_, bool>("added")? {
                taken.push(at);
            }
        }
        Ok(taken)
    }

    /// Writes down the ids of the pending rows that have the keys of those at `positions`, and returns the positions of
    /// those whose key is free by now.
    async fn look_up(
        &self,
        session: Session<'_>,
        new: &[&NewNotification],
        positions: &[usize],
        ids: &mut [Uuid],
    ) -> Result<Vec<usize>, Error> {
        let channel: Vec<_> = positions.iter().map(|&at| new[at].channel.as_str()).collect();
        let key: Vec<_> = positions.iter().map(|&at| new[at].dedupe_key.as_deref()).collect();
        let parameters = [(&channel as _, Type::TEXT_ARRAY), (&key as _, Type::TEXT_ARRAY)];
        let rows = self
            .query(session, &self.statements().pending_with_key, &parameters)
            .await?;
        let mut free = Vec::new();
        for (row, &at) in rows.iter().zip(positions) {
            match row.try_get::<_, Option<Uuid>>("id")? {
                Some(id) => ids[at] = id,
                None => free.push(at),
            }
        }
        Ok(free)
    }
}

/// One field of each.
fn column<'a, T>(new: &[&'a NewNotification], field: impl Fn(&'a NewNotification) -> T) -> Vec<T> {
    new.iter().copied().map(field).collect()
}

/// How many of these go into one statement: at least one.
fn chunk(new: &[&NewNotification]) -> usize {
    let mut bytes = 0;
    let fits = |new: &&&NewNotification| {
        let payload = new.payload.as_ref().map_or(0, String::len);
        bytes += new.channel.len() + new.recipient.len() + payload;
        bytes <= CHUNK_BYTES
    };
    new.iter().take(CHUNK_ROWS).take_while(fits).count().max(1)
}

/// What is wrong with it, as far as that can be told without the database.
fn flaw(new: &NewNotification) -> Option<String> {
    let key = new.dedupe_key.as_deref().unwrap_or_default();
    let texts = [
        ("channel", new.channel.as_str()),
        ("recipient", new.recipient.as_str()),
        ("payload", new.payload.as_deref().unwrap_or_default()),
        ("dedupe_key", key),
    ];
    if let Some((field, _)) = texts.into_iter().find(|(_, text)| text.contains('\0')) {
        return Some(format!("{field} holds a NUL character, which PostgreSQL cannot store"));
    }
    let limits = [
        ("channel", new.channel.len(), LONGEST_CHANNEL),
        ("dedupe_key", key.len(), LONGEST_KEY),
    ];
    if let Some((field, length, limit)) = limits.into_iter().find(|(_, length, limit)| length > limit) {
        return Some(format!("{field} has {length} bytes; at most {limit} will do"));
    }
    if new.channel.is_empty() {
        return Some("channel is empty".to_owned());
    }
    if let Some(attempts) = new
        .max_attempts
        .filter(|attempts| *attempts == 0 || i32::try_from(*attempts).is_err())
    {
        return Some(format!("max_attempts is {attempts}; it must be from 1 to {}", i32::MAX));
    }
    let waits = [("delay", new.delay), ("expires_in", new.expires_in)];
    let (field, _) = waits
        .into_iter()
        .find(|(_, wait)| wait.is_some_and(|wait| wait > LONGEST_WAIT))?;
    Some(format!("{field} is longer than 100 years"))
}

/// The database's refusal, in the words of the caller where it is the caller's doing.
fn refusal(error: Error) -> Error {
    let constraint = error
        .database()
        .and_then(|database| database.constraint())
        .unwrap_or_default();
    let in_json = error
        .database()
        .and_then(|database| database.where_())
        .is_some_and(|at| at.starts_with("JSON data"));
    let message = match error.sqlstate().unwrap_or_default() {
        "23505" if constraint == "notification_jobs_pkey" => "the id exists already",
        // invalid_text_representation, numeric_value_out_of_range, statement_too_complex, program_limit_exceeded
        "22P02" | "22003" | "54001" | "54000" => "payload is not JSON that PostgreSQL can store",
        _ if in_json => "payload is not JSON that PostgreSQL can store",
        "40001" => {
            let message = "a notification with the same dedupe key was added after this transaction began";
            return error.saying(format!("{message}: try the transaction again"));
        }
        state if state.starts_with("22") || state.starts_with("23") => "the database cannot store a value",
        _ => return error,
    };
    Error::input(message).instead_of(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_cannot_be_stored_is_named() {
        let new = || NewNotification::new("ops", "ada");
        let century = Duration::from_secs(36_525 * 24 * 3600 + 1);
        for (expected, new) in [
            ("channel is empty", NewNotification::new("", "ada")),
            (
                "channel has 1025 bytes",
                NewNotification::new("é".repeat(512) + "x", "ada"),
            ),
            ("recipient holds a NUL", NewNotification::new("ops", "a\0da")),
            ("payload holds a NUL", new().payload_text("\0")),
            ("dedupe_key has 1025 bytes", new().dedupe_key("x".repeat(1025))),
            ("max_attempts is 0", new().max_attempts(0)),
            ("max_attempts is 2147483648", new().max_attempts(1 << 31)),
            ("delay is longer", new().delay(century)),
            ("expires_in is longer", new().expires_in(Duration::MAX)),
        ] {
            let flaw = flaw(&new).unwrap_or_default();
            assert!(flaw.starts_with(expected), "{expected}: {flaw}");
        }
        assert_eq!(flaw(&new().delay(LONGEST_WAIT).max_attempts(i32::MAX as u32)), None);
    }

    #[test]
    fn a_chunk_is_bounded_in_rows_and_in_bytes_but_never_empty() {
        let small = NewNotification::new("ops", "ada");
        let big = NewNotification::new("ops", "ada").payload_text("1".repeat(CHUNK_BYTES));
        assert_eq!(chunk(&vec![&small; CHUNK_ROWS + 1]), CHUNK_ROWS);
        assert_eq!(chunk(&[&big, &small]), 1);
        assert_eq!(chunk(&[&small, &big]), 1);
    }
}
