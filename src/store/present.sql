-- Says again that a listed reactor is alive, and shows the key of its lock for as long as that is held. No answer: it is
-- not listed any more, or was given up for dead.
--
-- $1 id uuid; $2 the key bigint, 0 while no session of the reactor holds the lock
--
-- Locks that one entry, and waits no longer than 200 ms where somebody else has it locked. Tries the reactor's own lock
-- exclusively, for this transaction: where that succeeds the lock is not held, or not where the others look (another
-- database or server than `url` leads to), and the key stays hidden. Without it nobody takes the reactor for dead.
WITH setting AS MATERIALIZED (SELECT set_config('lock_timeout', '200ms', true) AS patience)
UPDATE :"schema".notification_reactors AS reactor
SET seen_at = clock_timestamp(),
    lock_key = CASE WHEN $2 = 0 THEN 0 WHEN pg_try_advisory_xact_lock($2) THEN 0 ELSE $2 END
FROM setting
WHERE patience IS NOT NULL AND reactor.id = $1 AND NOT reactor.dead
RETURNING
    reactor.lock_key <> 0 AS shown,
    EXISTS (SELECT FROM :"schema".notification_reactors AS peer WHERE peer.id <> $1) AS peers
