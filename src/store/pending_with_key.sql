-- The pending notifications with these keys. Arrays of equal length: $1 channel, $2 dedupe key. Answers with a row for
-- each, in order; the id is NULL where none is pending any more.
-- Locks nothing. Index notification_jobs_dedupe.
SELECT job.id
FROM unnest($1, $2) WITH ORDINALITY AS wanted (channel, dedupe_key, position)
LEFT JOIN :"schema".notification_jobs AS job
    ON job.channel = wanted.channel AND job.dedupe_key = wanted.dedupe_key
    AND job.status = 'pending' AND job.dedupe_key IS NOT NULL
ORDER BY wanted.position
