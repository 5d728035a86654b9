-- The state of the bell. $1: the schema's name.
-- Locks nothing; reads the lock table and the catalog.
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
    pg_notification_queue_usage() AS queue_usage,
    (
        SELECT count(*) = 2
        FROM pg_catalog.pg_trigger AS t
        JOIN pg_catalog.pg_class AS c ON c.oid = t.tgrelid
        JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = $1 AND c.relname = 'notification_jobs'
            AND t.tgname IN ('doorbell_on_insert', 'doorbell_on_update')
            -- Enabled for ordinary sessions: O (origin) or A (always).
            AND t.tgenabled IN ('O', 'A')
    ) AS triggers
