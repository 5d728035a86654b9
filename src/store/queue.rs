//! The statements of those who put notifications in and look after them.

super::statements! {
    /// Everything that a [`Queue`](crate::Queue) runs.
    QueueStatements {
        enqueue, pending_with_key,
        jobs,
        retry, failed, cancel, purge,
        status_counts, status_reactors, status_bell, status_in_flight,
        status_table, status_server, status_transaction, status_clock,
        status_role, status_producer, hostile, rows_hidden,
    }
}
