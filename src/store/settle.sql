-- Writes what became of sent rows: sent, retry, failed, or released (given back, the attempt not counted).
--
-- arrays, one element a row: $1 id uuid; $2 claim bigint; $3 claimed_by uuid; $4 attempts int; $5 outcome text;
-- $6 delay of a retry in seconds float8; $7 error text; $8 receipt text
--
-- Locks the rows through notification_jobs_pkey, and waits for one that somebody holds no longer than 200 ms: that is an
-- error, and the others of the batch are written without it (locked.sql). To skip it here would cost every batch a lock
-- for each row and a second look-up: 0.16 instead of 0.07 ms a row.
--
-- The second condition on the id says nothing new, and IS NOT DISTINCT FROM is an equality: both keep the planner, whose
-- statistics may say that hardly a row is pending, from reading all of notification_jobs_due instead of by the keys.
--
-- A row is written only if it is still pending under the claim that is being settled, or if it bears a lower claim: then a
-- crash of the server lost our claim, and the outcome counts all the same. One that was rescued is ours until it is claimed
-- again: claimed by nobody, its claim and its attempts as they were. A release lowers the attempts, and whoever sets a
-- failed row back to pending begins with none, so neither is settled a second time. Rows that are no longer ours are
-- missing from the answer. Whether an attempt is left for a retry is decided here, by the row as it is now: max_attempts
-- may have been changed meanwhile. What nobody settled is decided by claim.sql and rescue.sql.
WITH setting AS MATERIALIZED (
    SELECT set_config('synchronous_commit',
                      CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
                      ELSE current_setting('synchronous_commit') END, true) AS synchronous,
           set_config('lock_timeout', '200ms', true) AS patience
),
settled AS MATERIALIZED (
    SELECT outcome.*
    FROM setting
    CROSS JOIN unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::int[], $5::text[], $6::float8[], $7::text[], $8::text[])
        AS outcome (id, claim, claimed_by, attempts, kind, delay, error, receipt)
    WHERE setting.synchronous IS NOT NULL AND setting.patience IS NOT NULL
)
UPDATE :"schema".notification_jobs AS job
SET status = CASE
        WHEN settled.kind IN ('sent', 'failed') THEN settled.kind
        WHEN settled.kind = 'retry'
             AND CASE WHEN job.claim < settled.claim THEN settled.attempts ELSE job.attempts END >= job.max_attempts
            THEN 'failed'
        ELSE 'pending' END,
    attempts = greatest(CASE WHEN job.claim < settled.claim THEN settled.attempts ELSE job.attempts END
                        - CASE settled.kind WHEN 'released' THEN 1 ELSE 0 END, 0),
    claim = settled.claim,
    claimed_by = NULL,
    -- Not the end of a lease that is over: a row that somebody sets back to pending is due then.
    next_attempt_at = clock_timestamp() + make_interval(secs => settled.delay),
    last_error = CASE WHEN settled.kind IN ('retry', 'failed') THEN settled.error ELSE job.last_error END,
    sent_at = CASE WHEN settled.kind = 'sent' THEN clock_timestamp() ELSE job.sent_at END,
    receipt = CASE WHEN settled.kind = 'sent' THEN settled.receipt ELSE job.receipt END,
    updated_at = clock_timestamp()
FROM settled
WHERE job.id = settled.id AND job.id = ANY ($1) AND job.status IS NOT DISTINCT FROM 'pending'
  AND (job.claim = settled.claim
          AND (job.claimed_by = settled.claimed_by OR (job.claimed_by IS NULL AND job.attempts = settled.attempts))
       OR job.claim < settled.claim)
RETURNING job.id, job.status
