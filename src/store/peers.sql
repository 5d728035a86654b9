-- Looks after the other reactors: `free` where nobody holds the lock of one; `dead` where that was confirmed before.
--
-- $1 our own id uuid
--
-- Tries the locks of those that have been silent for longest, exclusively, for this transaction, and never waits. At most
-- 100, since each takes a place in the server's lock table: who is dead becomes the most silent within 10 s, however many
-- there are. LIMIT keeps the tries from the others. A scan of a table with a row for each reactor.
SELECT id, false AS free, true AS dead
FROM :"schema".notification_reactors
WHERE id <> $1 AND dead
UNION ALL
SELECT id, CASE lock_key WHEN 0 THEN false ELSE pg_try_advisory_xact_lock(lock_key) END, false
FROM (
    SELECT id, lock_key
    FROM :"schema".notification_reactors
    WHERE id <> $1 AND NOT dead
    ORDER BY lock_key = 0, seen_at
    LIMIT 100
) AS silent
