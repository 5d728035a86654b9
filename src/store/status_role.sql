-- What our role lacks to run a reactor, as the middles of GRANT statements, and whether row-level security concerns it.
--
-- $1 the schema's name
--
-- Locks nothing; reads the catalog. What does not exist is not lacking here.
WITH needed (object, privilege, held) AS (
    SELECT format('SCHEMA %I', n.nspname), 'USAGE', has_schema_privilege(n.oid, 'USAGE')
    FROM pg_catalog.pg_namespace AS n
    WHERE n.nspname = $1
    UNION ALL
    SELECT format('%I.%I', n.nspname, c.relname), wanted.privilege, has_table_privilege(c.oid, wanted.privilege)
    FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    JOIN (VALUES
        ('notification_jobs', 'SELECT'), ('notification_jobs', 'UPDATE'),
        ('notification_reactors', 'SELECT'), ('notification_reactors', 'INSERT'),
        ('notification_reactors', 'UPDATE'), ('notification_reactors', 'DELETE'),
        ('doorbell_migrations', 'SELECT')
    ) AS wanted (relation, privilege) ON wanted.relation = c.relname
    WHERE n.nspname = $1
    UNION ALL
    SELECT format('FUNCTION %I.doorbell_bell()', n.nspname), 'EXECUTE', has_function_privilege(p.oid, 'EXECUTE')
    FROM pg_catalog.pg_proc AS p
    JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname = $1 AND p.proname = 'doorbell_bell'
)
SELECT
    current_user::text AS name,
    current_database()::text AS database,
    ARRAY(
        SELECT
            string_agg(privilege, ', ' ORDER BY array_position(ARRAY['SELECT', 'INSERT', 'UPDATE'], privilege))
                || ' ON ' || object
        FROM needed
        WHERE NOT held
        GROUP BY object
        ORDER BY object
    ) AS missing_rights,
    COALESCE((
        SELECT row_security_active(c.oid)
        FROM pg_catalog.pg_class AS c
        JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = $1 AND c.relname = 'notification_jobs'
    ), false) AS row_security
