-- The migrations that have been applied. Locks nothing; the table has a row for each.
SELECT version, name, to_json(applied_at AT TIME ZONE 'UTC') #>> '{}' || 'Z' AS applied_at
FROM :"schema".doorbell_migrations
ORDER BY version
