-- Does row-level security keep every row from this role? To claim it must see rows and change them, so for each of the
-- two there has to be a policy that lets it. What such a policy lets through is nobody's business but its author's.
--
-- Locks nothing; reads the catalog. No table: nothing is hidden.
SELECT EXISTS (
    SELECT FROM pg_catalog.pg_class AS jobs
    JOIN pg_catalog.pg_namespace AS n ON n.oid = jobs.relnamespace
    CROSS JOIN (VALUES ('r'), ('w')) AS needed (command)
    WHERE n.nspname = :'schema' AND jobs.relname = 'notification_jobs'
        AND row_security_active(jobs.oid)
        AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_policy AS policy
            WHERE policy.polrelid = jobs.oid AND policy.polpermissive
                AND policy.polcmd::text IN ('*', needed.command)
                AND EXISTS (
                    SELECT FROM unnest(policy.polroles) AS role
                    -- 0: everybody
                    WHERE CASE role WHEN 0 THEN true ELSE pg_has_role(role, 'USAGE') END
                )
        )
) AS hidden
