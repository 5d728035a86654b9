-- The transactions that have inserted silently and have not ended, the oldest first. Reactors stay drowsy for them.
-- Locks nothing; reads the lock table. What foreign sessions do is NULL to a role that may not see it.
SELECT DISTINCT
    held.pid,
    COALESCE(activity.application_name, '') AS application,
    activity.state,
    EXTRACT(EPOCH FROM clock_timestamp() - activity.xact_start)::float8 AS seconds
FROM pg_catalog.pg_locks AS held
CROSS JOIN :"schema".doorbell_bell() AS bell
LEFT JOIN pg_catalog.pg_stat_activity AS activity ON activity.pid = held.pid
WHERE held.locktype = 'advisory' AND held.granted AND held.mode = 'ShareLock'
    AND held.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
    AND held.classid = bell.in_flight_class::oid AND held.objid = bell.lock_id::oid AND held.objsubid = 2
ORDER BY seconds DESC NULLS LAST
LIMIT 100
