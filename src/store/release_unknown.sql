-- Gives back rows that bear our instance id though we know nothing of them: a claim was committed whose answer never
-- came. No send began, so the attempt is not counted.
--
-- $1 channels text[]; $2 the reactor uuid; $3 ids uuid[] and $4 claims bigint[] that we do know
--
-- Locks the rows it gives back. Reads the leased part of notification_jobs_due: one range a channel, from now on.
UPDATE :"schema".notification_jobs AS job
SET claimed_by = NULL,
    attempts = greatest(job.attempts - 1, 0),
    next_attempt_at = clock_timestamp(),
    updated_at = clock_timestamp()
WHERE job.channel = ANY ($1) AND job.status = 'pending' AND job.next_attempt_at > statement_timestamp()
  AND job.claimed_by = $2
  AND NOT EXISTS (
      SELECT FROM unnest($3::uuid[], $4::bigint[]) AS known (id, claim)
      WHERE known.id = job.id AND known.claim = job.claim
  )
RETURNING job.id
