-- What the catalog and the statistics say of the table of notifications. No row: there is no such table.
--
-- $1 the schema's name
--
-- Locks nothing; needs no right on the table. The settings wanted are those of the first migration; another value than
-- ours is somebody's decision and does not count as missing.
SELECT
    pg_stat_get_live_tuples(jobs.oid) AS live_rows,
    pg_stat_get_dead_tuples(jobs.oid) AS dead_rows,
    EXTRACT(EPOCH FROM clock_timestamp()
        - GREATEST(pg_stat_get_last_vacuum_time(jobs.oid), pg_stat_get_last_autovacuum_time(jobs.oid)))::float8
        AS vacuumed_seconds_ago,
    current_setting('autovacuum')::bool AND current_setting('track_counts')::bool AS server_vacuums,
    NOT EXISTS (
        SELECT FROM pg_options_to_table(jobs.reloptions)
        WHERE option_name = 'autovacuum_enabled' AND NOT option_value::bool
    ) AS table_vacuums,
    ARRAY(
        SELECT wanted.name || ' = ' || wanted.value
        FROM (VALUES
            ('autovacuum_vacuum_scale_factor', '0.01'),
            ('autovacuum_vacuum_threshold', '1000'),
            ('autovacuum_vacuum_insert_scale_factor', '0.05'),
            ('autovacuum_vacuum_cost_delay', '0'),
            ('autovacuum_analyze_scale_factor', '0.02')
        ) AS wanted (name, value)
        WHERE wanted.name NOT IN (SELECT option_name FROM pg_options_to_table(jobs.reloptions))
    ) AS missing_settings,
    (
        -- O (origin) or A (always): it fires in ordinary sessions.
        SELECT t.tgenabled IN ('O', 'A') FROM pg_catalog.pg_trigger AS t
        WHERE t.tgrelid = jobs.oid AND t.tgname = 'doorbell_on_insert'
    ) AS on_insert,
    (
        SELECT t.tgenabled IN ('O', 'A') FROM pg_catalog.pg_trigger AS t
        WHERE t.tgrelid = jobs.oid AND t.tgname = 'doorbell_on_update'
    ) AS on_update
FROM pg_catalog.pg_class AS jobs
JOIN pg_catalog.pg_namespace AS n ON n.oid = jobs.relnamespace
WHERE n.nspname = $1 AND jobs.relname = 'notification_jobs'
