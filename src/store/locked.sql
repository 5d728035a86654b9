-- Which of these rows does somebody hold? $1 ids uuid[]
--
-- Locks those that nobody holds, for this statement, through notification_jobs_pkey.
WITH free AS MATERIALIZED (
    SELECT id FROM :"schema".notification_jobs WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
)
SELECT id FROM :"schema".notification_jobs WHERE id = ANY ($1) AND id NOT IN (SELECT id FROM free)
