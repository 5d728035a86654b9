-- Lists a reactor that starts, without the key of its lock: that is shown once the lock is held (present.sql).
--
-- $1 id uuid; $2 host text; $3 version text; $4 channels text[]; $5 the lease in seconds float8
--
-- Locks that one entry, and waits no longer than 200 ms where somebody else has it locked.
WITH setting AS MATERIALIZED (SELECT set_config('lock_timeout', '200ms', true) AS patience)
INSERT INTO :"schema".notification_reactors (id, lock_key, host, version, channels, lease)
SELECT $1, 0, $2, $3, $4, make_interval(secs => $5) FROM setting WHERE patience IS NOT NULL
ON CONFLICT (id) DO UPDATE SET seen_at = clock_timestamp()
