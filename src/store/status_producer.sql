-- What a role lacks to insert a notification, as the middles of GRANT statements, and whether row-level security has no
-- policy that lets it. No row: there is no such role, or no such table.
--
-- $1 the schema's name; $2 the role's name
--
-- Locks nothing; reads the catalog.
SELECT
    ARRAY(
        SELECT format('USAGE ON SCHEMA %I', n.nspname) WHERE NOT has_schema_privilege(r.oid, n.oid, 'USAGE')
        UNION ALL
        SELECT format('INSERT (%s) ON %I.%I', string_agg(needed.name, ', '), n.nspname, jobs.relname)
        FROM unnest(ARRAY['channel', 'recipient', 'payload']) AS needed (name)
        WHERE NOT has_column_privilege(r.oid, jobs.oid, needed.name, 'INSERT')
        HAVING count(*) > 0
    ) AS missing_rights,
    jobs.relrowsecurity AND NOT r.rolsuper AND NOT r.rolbypassrls
        AND (jobs.relforcerowsecurity OR NOT pg_has_role(r.oid, jobs.relowner, 'USAGE'))
        AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_policy AS policy
            WHERE policy.polrelid = jobs.oid AND policy.polpermissive AND policy.polcmd IN ('*', 'a')
                AND EXISTS (
                    SELECT FROM unnest(policy.polroles) AS role
                    -- 0: everybody
                    WHERE CASE role WHEN 0 THEN true ELSE pg_has_role(r.oid, role, 'USAGE') END
                )
        ) AS barred
FROM pg_catalog.pg_class AS jobs
JOIN pg_catalog.pg_namespace AS n ON n.oid = jobs.relnamespace
JOIN pg_catalog.pg_roles AS r ON r.rolname = $2
WHERE n.nspname = $1 AND jobs.relname = 'notification_jobs'
