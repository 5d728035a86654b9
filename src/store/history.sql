-- The migrations that have been applied. Locks nothing; the table has a row for each.
--
-- By way of JSON, since a history that was begun without it lacks the column `breaking`.
SELECT
    version,
    name,
    to_json(applied_at AT TIME ZONE 'UTC') #>> '{}' || 'Z' AS applied_at,
    COALESCE((to_jsonb(migration) ->> 'breaking')::boolean, false) AS breaking
FROM :"schema".doorbell_migrations AS migration
ORDER BY version
