-- Makes the rows of a dead reactor due again, on the channels that we serve.
--
-- $1 the dead reactor uuid; $2 channels text[]; $3 those of them that hold text[]
--
-- Locks each row that it writes, FOR NO KEY UPDATE, and skips rows that others hold: the next rescue finds them, or their
-- lease ends. Reads one range of notification_jobs_due a channel, from now to the end of the last lease that the reactor
-- can have got while it lived; then the rows by their places, as in claim.sql. A row that bears its id and a later lease
-- belongs to one that was given up too soon and is back.
--
-- A row on its first attempt is due now. A later one comes back within as many seconds as it had attempts, at random, and
-- no later than its lease: one that kills whoever sends it is then claimed alone, and takes no other row along. On a
-- channel that holds nothing is sent again, and what has no attempt left has failed, as in claim.sql.
UPDATE :"schema".notification_jobs AS job
SET status = CASE WHEN job.channel = ANY ($3) OR job.attempts >= job.max_attempts THEN 'failed' ELSE 'pending' END,
    claimed_by = NULL,
    next_attempt_at = CASE
        WHEN job.channel = ANY ($3) OR job.attempts >= job.max_attempts OR job.attempts <= 1 THEN clock_timestamp()
        ELSE least(job.next_attempt_at, clock_timestamp() + make_interval(secs => job.attempts * random())) END,
    last_error = CASE
        WHEN job.channel = ANY ($3)
            THEN 'held: the reactor died, and nobody knows how attempt ' || job.attempts || ' ended; it may have arrived'
        WHEN job.attempts >= job.max_attempts
            THEN 'gave up: the reactor died; nobody knows how attempt ' || job.attempts || ' ended, and it was the last'
        ELSE job.last_error END,
    updated_at = clock_timestamp()
WHERE job.ctid = ANY (ARRAY(
    SELECT leased.place
    FROM :"schema".notification_reactors AS reactor
    CROSS JOIN unnest((SELECT $2::text[])) AS served (channel)
    CROSS JOIN LATERAL (
        SELECT ctid AS place
        FROM :"schema".notification_jobs
        WHERE channel = served.channel AND status = 'pending' AND next_attempt_at > statement_timestamp()
            AND next_attempt_at <= reactor.seen_at + reactor.lease AND claimed_by = $1
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS leased
    WHERE reactor.id = $1 AND reactor.dead
))
RETURNING job.id, job.status
