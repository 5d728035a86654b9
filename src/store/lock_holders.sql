-- Other sessions that hold a lock on a table of the schema, the oldest first. $1: the schema's name.
-- Reads the lock table and the catalog; what foreign sessions do is NULL to a role that may not see it.
SELECT
    l.pid,
    c.relname::text AS "table",
    COALESCE(NULLIF(a.application_name, ''), 'no application name') AS application,
    COALESCE(a.state, 'state not visible') AS state,
    COALESCE(EXTRACT(EPOCH FROM clock_timestamp() - a.xact_start), 0)::float8 AS seconds
FROM pg_catalog.pg_locks AS l
JOIN pg_catalog.pg_class AS c ON c.oid = l.relation AND c.relkind IN ('r', 'p')
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid
WHERE n.nspname = $1
    AND l.granted
    AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
    AND l.pid <> pg_backend_pid()
GROUP BY l.pid, c.relname, a.application_name, a.state, a.xact_start
ORDER BY a.xact_start NULLS LAST
LIMIT 5
