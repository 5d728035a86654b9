-- The state of the bell.
-- Locks nothing; reads the lock table.
WITH bell AS (
    SELECT asleep_class, lock_id FROM :"schema".doorbell_bell()
)
SELECT
    (
        SELECT count(DISTINCT held.pid)
        FROM pg_catalog.pg_locks AS held, bell
        WHERE held.locktype = 'advisory' AND held.granted AND held.mode = 'ShareLock'
            AND held.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
            AND held.classid = bell.asleep_class::oid AND held.objid = bell.lock_id::oid AND held.objsubid = 2
    ) AS asleep,
    pg_notification_queue_usage() AS queue_usage
