-- The second look: those of these reactors whose lock is still free are dead, from now on. Answers with their ids.
--
-- $1 ids uuid[]; $2 the key bigint of our own lock, which must be seen to be held: else this is not the server that our
-- sessions are with, and says nothing about the others
--
-- Locks their entries, and waits no longer than 200 ms where somebody else has one locked. Holds the lock of each dead
-- reactor exclusively until this is committed: one that is coming back waits for it, and then finds itself dead. CASE
-- keeps the order of the tries.
WITH setting AS MATERIALIZED (SELECT set_config('lock_timeout', '200ms', true) AS patience)
UPDATE :"schema".notification_reactors AS reactor
-- The time of death: what bears a later lease was claimed by somebody who lived.
SET dead = true, seen_at = clock_timestamp()
FROM setting
WHERE patience IS NOT NULL AND reactor.id = ANY ($1)
  AND CASE
        WHEN reactor.dead OR reactor.lock_key = 0 THEN false
        WHEN pg_try_advisory_xact_lock($2) THEN false
        ELSE pg_try_advisory_xact_lock(reactor.lock_key) END
RETURNING reactor.id
