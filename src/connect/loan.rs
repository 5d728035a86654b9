//! A connection of the pool that does not go back to it in the middle of something.

use deadpool_postgres::Object;

use super::Database;
use crate::Error;

/// A connection of the pool with a statement on it. Dropped before that has ended, it cancels the statement and is thrown
/// away: whoever had it next would wait for it.
pub(crate) struct Loan<'a> {
    database: &'a Database,
    client: Option<Object>,
}

impl<'a> Loan<'a> {
    pub(crate) async fn of(database: &'a Database) -> Result<Self, Error> {
        let client = Some(database.client().await?);
        Ok(Loan { database, client })
    }

    pub(crate) fn client(&self) -> Result<&Object, Error> {
        let client = self.client.as_ref();
        client.ok_or_else(|| Error::connection("the connection was given back"))
    }

    /// The statement has ended. The connection goes back to the pool if it ended well.
    pub(crate) fn end(mut self, well: bool) {
        if let Some(client) = self.client.take()
            && !well
        {
            drop(Object::take(client));
        }
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            self.database.cancel(&client);
            drop(Object::take(client));
        }
    }
}
