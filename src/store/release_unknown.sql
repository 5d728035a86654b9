-- Gives back rows that bear one of our instance ids though we know nothing of them: a claim was committed whose answer never
-- came. No send began, so the attempt is not counted.
--
-- $1 channels text[]; $2 our ids uuid[]; $3 ids uuid[] and $4 claims bigint[] that we do know
--
-- Locks the rows it gives back, FOR NO KEY UPDATE, and skips those that others hold: they wait for the next release, or
-- for their lease. Reads the leased part of notification_jobs_due, one range a channel, from now on; then the rows by
-- their places, as in claim.sql.
UPDATE :"schema".notification_jobs AS job
SET claimed_by = NULL,
    attempts = greatest(job.attempts - 1, 0),
    next_attempt_at = clock_timestamp(),
    updated_at = clock_timestamp()
WHERE job.ctid = ANY (ARRAY(
    SELECT leased.place
    FROM unnest((SELECT $1::text[])) AS served (channel)
    CROSS JOIN LATERAL (
        SELECT ctid AS place
        FROM :"schema".notification_jobs AS ours
        WHERE channel = served.channel AND status = 'pending' AND next_attempt_at > statement_timestamp()
            AND claimed_by = ANY ($2)
            AND NOT EXISTS (
                SELECT FROM unnest($3::uuid[], $4::bigint[]) AS known (id, claim)
                WHERE known.id = ours.id AND known.claim = ours.claim
            )
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS leased
))
RETURNING job.id
