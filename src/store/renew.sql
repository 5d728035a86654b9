-- Lengthens leases: the sends still run.
--
-- arrays, one element a row: $1 id uuid; $2 claim bigint; $3 claimed_by uuid; $4 attempts int; then $5 the lease in
-- seconds float8
--
-- Locks the rows through notification_jobs_pkey, in the order of their ids, and never waits: one row that somebody holds
-- must not cost the others their leases. The guard is the one of settle.sql: a row whose claim was lost in a crash of the
-- server gets it back, and so does one that was rescued and that nobody has claimed since. The answer has every row that
-- is still ours; `renewed` is false where somebody holds it. Rows that are no longer ours are missing.
WITH lease AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::int[]) AS lease (id, claim, claimed_by, attempts)
),
free AS MATERIALIZED (
    SELECT job.id
    FROM lease
    JOIN :"schema".notification_jobs AS job USING (id)
    WHERE job.id = ANY ($1) AND job.status IS NOT DISTINCT FROM 'pending'
      AND (job.claim = lease.claim
              AND (job.claimed_by = lease.claimed_by OR (job.claimed_by IS NULL AND job.attempts = lease.attempts))
           OR job.claim < lease.claim)
    ORDER BY job.id
    FOR NO KEY UPDATE OF job SKIP LOCKED
),
renewed AS (
    UPDATE :"schema".notification_jobs AS job
    SET next_attempt_at = clock_timestamp() + make_interval(secs => $5),
        claim = lease.claim,
        claimed_by = lease.claimed_by,
        attempts = CASE WHEN job.claim < lease.claim THEN lease.attempts ELSE job.attempts END,
        updated_at = clock_timestamp()
    FROM lease
    JOIN free USING (id)
    WHERE job.id = lease.id
    RETURNING job.id
)
SELECT job.id, renewed.id IS NOT NULL AS renewed
FROM lease
JOIN :"schema".notification_jobs AS job USING (id)
LEFT JOIN renewed USING (id)
WHERE job.id = ANY ($1) AND job.status IS NOT DISTINCT FROM 'pending'
  AND (job.claim = lease.claim
          AND (job.claimed_by = lease.claimed_by OR (job.claimed_by IS NULL AND job.attempts = lease.attempts))
       OR job.claim < lease.claim)
