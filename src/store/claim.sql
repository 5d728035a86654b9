-- Takes due rows, at most as many a channel as that channel has free slots.
--
-- $1 channels text[]; $2 free slots int[]; $3 the reactor uuid; $4 the lease in seconds float8; $5 hold bool;
-- $6 how far back to look on each channel in seconds float8[], null for all the way: what died under an open snapshot cannot
-- be removed from the index, and would be walked over at every claim; $7 bare bool: leave the recipients and every payload in
-- the table
--
-- Locks each row it takes, FOR NO KEY UPDATE (a foreign key check on the row does not stand in the way), and skips rows
-- that others hold. One range of notification_jobs_due a channel: (channel =, next_attempt_at <=, and >= where $6 is given), in order; then the
-- rows by their places, which no plan does by reading the whole table. A row that somebody changed between our snapshot
-- and our lock has another place by then: it is left for the next look. The sub-select is asked once, before the UPDATE
-- begins: as a join the planner might ask it more often, and take more rows than were asked for.
--
-- The arrays stand in sub-selects so that the planner sees no more of them than it would in a generic plan, and so keeps
-- one from the sixth claim of a session on. To plan takes longer than to claim. As little as possible stands in here for
-- the same reason: an idle server spends more time on setting the statement up than on the row.
--
-- The claim does not wait for its flush, except on channels that hold: a claim lost in a crash is a row that is due
-- again, which at-least-once allows.
--
-- A payload that takes more than 8 kB on disk, or 2 kB compressed, stays there: the send reads it when there is room for it
-- (payload.sql). All of a claim together would be more than the reactor's memory, and more than comes within a statement's
-- time. How large the text of a jsonb is nobody can tell beforehand, since a number of a few bytes may have 131,072 digits, nor
-- whether the server can give it to us at all; so after a claim that failed over what a row holds the next one is bare, and
-- each row is read by itself.
--
-- A due row that may not be sent is settled by the same statement: expired, out of attempts, at a fence that cannot grow
-- (somebody wrote that number), or, on a channel that holds, claimed before with an outcome that nobody knows.
UPDATE :"schema".notification_jobs AS job
SET status = CASE
        WHEN job.expires_at <= statement_timestamp() THEN 'expired'
        WHEN ($5 AND job.claimed_by IS NOT NULL) OR job.attempts >= job.max_attempts OR job.claim = 9223372036854775807
            THEN 'failed'
        ELSE 'pending' END,
    attempts = CASE
        WHEN job.expires_at <= statement_timestamp() OR ($5 AND job.claimed_by IS NOT NULL)
             OR job.attempts >= job.max_attempts OR job.claim = 9223372036854775807
            THEN job.attempts
        ELSE job.attempts + 1 END,
    claim = job.claim + CASE job.claim WHEN 9223372036854775807 THEN 0 ELSE 1 END,
    claimed_by = CASE
        WHEN job.expires_at <= statement_timestamp() OR ($5 AND job.claimed_by IS NOT NULL)
             OR job.attempts >= job.max_attempts OR job.claim = 9223372036854775807
            THEN NULL
        ELSE $3 END,
    next_attempt_at = CASE
        WHEN job.expires_at <= statement_timestamp() OR ($5 AND job.claimed_by IS NOT NULL)
             OR job.attempts >= job.max_attempts OR job.claim = 9223372036854775807
            THEN job.next_attempt_at
        ELSE clock_timestamp() + make_interval(secs => $4) END,
    last_error = CASE
        WHEN job.expires_at <= statement_timestamp() THEN job.last_error
        WHEN $5 AND job.claimed_by IS NOT NULL
            THEN 'held: nobody knows how attempt ' || job.attempts || ' ended; it may have arrived'
        WHEN job.attempts < job.max_attempts AND job.claim < 9223372036854775807 THEN job.last_error
        WHEN job.claimed_by IS NOT NULL
            THEN 'gave up: nobody knows how attempt ' || job.attempts || ' ended, and it was the last'
        ELSE coalesce(job.last_error, 'gave up: no attempt is left') END,
    updated_at = clock_timestamp()
WHERE job.ctid = ANY (ARRAY(
    SELECT due.place
    FROM unnest((SELECT $1::text[]), (SELECT $2::int[]), (SELECT $6::float8[])) AS wanted (channel, slots, reach)
    CROSS JOIN LATERAL (
        SELECT ctid AS place
        FROM :"schema".notification_jobs
        WHERE channel = wanted.channel AND status = 'pending' AND next_attempt_at <= statement_timestamp()
            AND next_attempt_at >= coalesce(statement_timestamp() - make_interval(secs => wanted.reach), '-infinity')
        ORDER BY next_attempt_at
        LIMIT wanted.slots
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS due
    WHERE (SELECT CASE WHEN $5 OR current_setting('synchronous_commit') = 'off' THEN true
                       ELSE set_config('synchronous_commit', 'off', true) IS NOT NULL END)
))
RETURNING job.id, job.channel, job.status, job.claim, job.attempts, job.max_attempts,
    CASE WHEN NOT $7 THEN job.recipient END AS recipient,
    CASE WHEN NOT $7 AND job.status = 'pending'
              AND pg_column_size(job.payload) <= CASE WHEN pg_column_compression(job.payload) IS NULL THEN 8192 ELSE 2048 END
         THEN job.payload::text END AS payload,
    CASE WHEN isfinite(job.created_at)
         THEN extract(epoch FROM clock_timestamp() - job.created_at)::float8 ELSE 0 END AS age,
    CASE WHEN isfinite(job.expires_at)
         THEN extract(epoch FROM job.expires_at - clock_timestamp())::float8 END AS expires_in
