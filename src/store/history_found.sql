-- Is there a history of migrations, and which server is this? $1: the schema's name.
-- Looks at the catalog only: it needs no right on the schema, and locks nothing that a migration changes.
SELECT
    EXISTS (
        SELECT FROM pg_catalog.pg_class AS c
        JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = $1 AND c.relname = 'doorbell_migrations'
    ) AS found,
    current_setting('server_version_num')::int AS server_version
