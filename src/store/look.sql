-- Looks after the other reactors: `free` where nobody holds the lock of one; `dead` where that was confirmed before, or
-- where one that never showed a lock has not been seen for a minute and two leases.
--
-- $1 our own id uuid
--
-- Tries the lock of each exclusively, for this transaction, and never waits. A scan of a table with a row for each
-- reactor.
SELECT
    id,
    CASE WHEN dead OR lock_key = 0 THEN false ELSE pg_try_advisory_xact_lock(lock_key) END AS free,
    dead OR (lock_key = 0 AND seen_at < clock_timestamp() - interval '1 minute' - 2 * lease) AS dead
FROM :"schema".notification_reactors
WHERE id <> $1
