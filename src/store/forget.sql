-- Takes reactors off the list that are gone and have no lease left that could be rescued: silent for a minute and two
-- leases, their lock free or never shown.
--
-- $1 our own id uuid
--
-- One look is enough, and nobody needs to have held its own lock for long: a reactor that lives all the same, after an
-- outage that outlasted its leases, finds itself unlisted and takes a new id. Locks the entries that go, and skips those
-- that others hold. At most 100, since each takes a place in the server's lock table until the commit, too; to be asked
-- again until none is left.
DELETE FROM :"schema".notification_reactors AS reactor
USING (
    SELECT id, lock_key
    FROM :"schema".notification_reactors
    WHERE id <> $1 AND seen_at < clock_timestamp() - interval '1 minute' - 2 * lease
    ORDER BY seen_at
    LIMIT 100
    FOR UPDATE SKIP LOCKED
) AS silent
WHERE reactor.id = silent.id
  AND CASE silent.lock_key WHEN 0 THEN true ELSE pg_try_advisory_xact_lock(silent.lock_key) END
RETURNING reactor.id
