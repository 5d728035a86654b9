//! Text that need not be UTF-8: a database of the encoding `SQL_ASCII` takes any bytes, and refuses to give them to a client
//! as text. For what people are shown the statements give bytes; whoever sends a row wants it as it is, or not at all.

use tokio_postgres::Row;

use crate::Error;

/// This column of bytes as text, with U+FFFD for what is no UTF-8.
pub(crate) fn text(row: &Row, column: &str) -> Result<String, Error> {
    Ok(String::from_utf8_lossy(row.try_get(column)?).into_owned())
}

/// The same for one that may be NULL.
pub(crate) fn optional_text(row: &Row, column: &str) -> Result<Option<String>, Error> {
    let bytes: Option<&[u8]> = row.try_get(column)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}
