-- The transaction of this database that has been open for longest, ours left out. No row: there is no other, or our role
-- may not see it.
--
-- Locks nothing.
SELECT pid, name, state, EXTRACT(EPOCH FROM clock_timestamp() - begun)::float8 AS seconds
FROM (
    SELECT pid, application_name, COALESCE(state, ''), xact_start
    FROM pg_catalog.pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
        AND backend_type <> 'autovacuum worker'
    UNION ALL
    SELECT NULL, gid, 'prepared', prepared
    FROM pg_catalog.pg_prepared_xacts
    WHERE database = current_database()
) AS open (pid, name, state, begun)
ORDER BY begun
LIMIT 1
