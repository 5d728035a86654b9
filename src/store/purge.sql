-- One step of a walk over all notifications: deletes those of the next rows that are over and have not changed for a
-- while. $1: after this id (NULL: from the start), $2: how many rows to look at, $3: for how many seconds unchanged.
-- Answers with one row.
--
-- Locks what it deletes; leaves alone what others have locked. Primary key, so it needs no index of its own.
WITH seen AS MATERIALIZED (
    SELECT id
    FROM :"schema".notification_jobs
    WHERE $1 IS NULL OR id > $1
    ORDER BY id
    LIMIT $2
),
old AS MATERIALIZED (
    SELECT id
    FROM :"schema".notification_jobs
    WHERE id IN (SELECT id FROM seen)
        AND status <> 'pending'
        AND updated_at < clock_timestamp() - make_interval(secs => $3)
    FOR UPDATE SKIP LOCKED
),
deleted AS (
    DELETE FROM :"schema".notification_jobs WHERE id IN (SELECT id FROM old) RETURNING id
)
SELECT
    (SELECT count(*) FROM deleted) AS deleted,
    CASE WHEN count(*) = $2 THEN (array_agg(id ORDER BY id DESC))[1] END AS next
FROM seen
