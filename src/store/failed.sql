-- One step of a walk over all notifications: which of the next rows have failed? $1: after this id (NULL: from the
-- start), $2: how many rows to look at, $3: only this channel (NULL: any). Answers with one row.
-- Locks nothing. Primary key.
WITH seen AS MATERIALIZED (
    SELECT id, status, channel
    FROM :"schema".notification_jobs
    WHERE $1 IS NULL OR id > $1
    ORDER BY id
    LIMIT $2
)
SELECT
    COALESCE(array_agg(id ORDER BY id) FILTER (WHERE status = 'failed' AND ($3 IS NULL OR channel = $3)), '{}') AS failed,
    CASE WHEN count(*) = $2 THEN (array_agg(id ORDER BY id DESC))[1] END AS next
FROM seen
