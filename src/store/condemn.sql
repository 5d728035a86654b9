-- The second look: those of these reactors whose lock is still free are dead, from now on. Answers with their ids.
--
-- $1 ids uuid[]; $2 the key bigint of our own lock, which must be seen to be held: else this is not the server that our
-- sessions are with, and says nothing about the others
--
-- Locks their entries, and skips those that others hold: one is not to keep the others from being found dead. Then, for
-- which MATERIALIZED is there, tries the locks. Holds the lock of each dead reactor exclusively until this is committed:
-- one that is coming back waits for it, and then finds itself dead. CASE keeps the order of the tries.
WITH suspect AS MATERIALIZED (
    SELECT id, lock_key
    FROM :"schema".notification_reactors
    WHERE id = ANY ($1) AND NOT dead AND lock_key <> 0
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE :"schema".notification_reactors AS reactor
-- The time of death: what bears a later lease was claimed by somebody who lived.
SET dead = true, seen_at = clock_timestamp()
FROM suspect
WHERE reactor.id = suspect.id
  AND CASE WHEN pg_try_advisory_xact_lock($2) THEN false ELSE pg_try_advisory_xact_lock(suspect.lock_key) END
RETURNING reactor.id
