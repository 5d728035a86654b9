-- The reactors that are listed, the oldest first.
--
-- `live`: not dead, and seen within its lease or 30 s, whichever is longer. `mode` is told from who holds the lock whose key
-- a reactor shows (present.sql): its listening session takes it once LISTEN is acknowledged, another session of it always
-- has it, and nobody has it when the process is gone. A standby knows nothing of the primary's locks.
--
-- Locks nothing; reads the lock table. A scan of a table with a row for each reactor.
WITH held AS MATERIALIZED (
    SELECT
        (lock.classid::bigint << 32) | lock.objid::bigint AS key,
        bool_or(activity.application_name = 'doorbell listener') AS listens
    FROM pg_catalog.pg_locks AS lock
    LEFT JOIN pg_catalog.pg_stat_activity AS activity ON activity.pid = lock.pid
    WHERE lock.locktype = 'advisory' AND lock.granted AND lock.mode = 'ShareLock' AND lock.objsubid = 1
        AND lock.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
    GROUP BY key
)
SELECT
    reactor.id, reactor.host, reactor.version, reactor.channels, reactor.dead,
    EXTRACT(EPOCH FROM clock_timestamp() - reactor.started_at)::float8 AS started_seconds_ago,
    EXTRACT(EPOCH FROM clock_timestamp() - reactor.seen_at)::float8 AS seen_seconds_ago,
    NOT reactor.dead AND reactor.seen_at > clock_timestamp() - GREATEST(reactor.lease, interval '30 s') AS live,
    CASE
        WHEN reactor.lock_key = 0 OR pg_is_in_recovery() THEN 'unknown'
        WHEN held.key IS NULL THEN 'gone'
        WHEN held.listens THEN 'listening'
        ELSE 'polling'
    END AS mode
FROM :"schema".notification_reactors AS reactor
LEFT JOIN held ON held.key = reactor.lock_key
ORDER BY reactor.started_at, reactor.id
