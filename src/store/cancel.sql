-- Cancels pending notifications. $1: their ids. Answers with a row for each id, in order, that says what was found.
--
-- Locks the rows, in the order of their ids, FOR NO KEY UPDATE: it waits for a settle or a claim, and then goes by what
-- that wrote. With claimed_by gone, the reactor that is sending one sees at its next renewal or settle that it lost it.
-- Primary key.
WITH wanted AS (
    SELECT id, position FROM unnest($1) WITH ORDINALITY AS given (id, position)
),
found AS MATERIALIZED (
    SELECT id, status, claimed_by
    FROM :"schema".notification_jobs
    WHERE id = ANY ($1)
    ORDER BY id
    FOR NO KEY UPDATE
),
changed AS (
    UPDATE :"schema".notification_jobs AS job
    SET status = 'cancelled', claimed_by = NULL, updated_at = clock_timestamp()
    FROM found
    WHERE job.id = found.id AND found.status = 'pending'
)
SELECT wanted.id, found.status, found.claimed_by IS NOT NULL AS being_sent
FROM wanted
LEFT JOIN found USING (id)
ORDER BY wanted.position
