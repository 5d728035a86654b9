-- The server, its connections, and what keeps vacuum from removing dead rows.
--
-- Locks nothing; needs no right on anything. What foreign sessions do is NULL to a role that may not see it, and then
-- they do not count for the age.
SELECT
    current_setting('server_version') AS version,
    current_setting('server_version_num')::int AS version_number,
    current_setting('server_encoding') AS encoding,
    pg_is_in_recovery() AS standby,
    pg_has_role('pg_read_all_stats', 'USAGE') AS sees_others,
    (
        SELECT count(*) FROM pg_catalog.pg_stat_activity
        WHERE datid IS NOT NULL AND COALESCE(backend_type, 'client backend') = 'client backend'
    ) AS connections,
    current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
        - COALESCE(current_setting('reserved_connections', true), '0')::bigint AS max_connections,
    (
        SELECT max(held.age)::bigint
        FROM (
            SELECT age(backend_xmin) FROM pg_catalog.pg_stat_activity
            WHERE (datname = current_database() OR datname IS NULL) AND pid <> pg_backend_pid()
            UNION ALL
            SELECT age(transaction) FROM pg_catalog.pg_prepared_xacts WHERE database = current_database()
            UNION ALL
            SELECT age(xmin) FROM pg_catalog.pg_replication_slots
        ) AS held (age)
    ) AS oldest_xmin_age
