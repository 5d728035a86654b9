-- Lists a reactor that starts, and says again later that it is alive.
--
-- $1 id uuid; $2 lock key bigint; $3 host text; $4 version text; $5 channels text[]; $6 the lease in seconds float8
--
-- Locks that one entry, and waits no longer than 200 ms where somebody else has it locked.
WITH setting AS MATERIALIZED (SELECT set_config('lock_timeout', '200ms', true) AS patience)
INSERT INTO :"schema".notification_reactors (id, lock_key, host, version, channels, lease)
SELECT $1, $2, $3, $4, $5, make_interval(secs => $6) FROM setting WHERE patience IS NOT NULL
ON CONFLICT (id) DO UPDATE SET seen_at = clock_timestamp()
