//! What has been migrated, and who stands in the way.

super::statements! {
    /// Reads of the migration history.
    HistoryStatements { history_found, history, lock_holders }
}
