-- Makes notifications pending and due now. $1: their ids, $2: only those in one of these statuses. Answers with a row
-- for each id, in order, that says what was found and whether it was changed.
--
-- Locks the rows, in the order of their ids, FOR NO KEY UPDATE: it waits for a settle or a claim, and then goes by what
-- that wrote. A row that somebody is sending is left alone, and so is one whose dedupe key is pending elsewhere.
-- Primary key; index notification_jobs_dedupe for the keys.
WITH wanted AS (
    SELECT id, position FROM unnest($1) WITH ORDINALITY AS given (id, position)
),
found AS MATERIALIZED (
    SELECT id, channel, dedupe_key, status, claimed_by
    FROM :"schema".notification_jobs
    WHERE id = ANY ($1)
    ORDER BY id
    FOR NO KEY UPDATE
),
changeable AS MATERIALIZED (
    SELECT
        id, status,
        -- Of several that share a key the first one gets it.
        status <> 'pending' AND dedupe_key IS NOT NULL AND (
            row_number() OVER (PARTITION BY channel, dedupe_key ORDER BY id) > 1
            OR EXISTS (
                SELECT FROM :"schema".notification_jobs AS other
                WHERE other.channel = found.channel AND other.dedupe_key = found.dedupe_key
                    AND other.status = 'pending' AND other.dedupe_key IS NOT NULL
            )
        ) AS key_taken
    FROM found
    WHERE status = ANY ($2) AND status <> 'sent' AND claimed_by IS NULL
),
changed AS (
    UPDATE :"schema".notification_jobs AS job
    SET
        status = 'pending',
        -- A pending one goes on counting: it is only brought forward.
        attempts = CASE WHEN changeable.status = 'pending' THEN job.attempts ELSE 0 END,
        next_attempt_at = clock_timestamp(),
        expires_at = CASE WHEN job.expires_at > clock_timestamp() THEN job.expires_at END,
        updated_at = clock_timestamp()
    FROM changeable
    WHERE job.id = changeable.id AND NOT changeable.key_taken
    RETURNING job.id
)
SELECT
    wanted.id,
    found.status,
    found.claimed_by IS NOT NULL AND found.status = 'pending' AS being_sent,
    COALESCE(changeable.key_taken, false) AS key_taken,
    changed.id IS NOT NULL AS changed
FROM wanted
LEFT JOIN found USING (id)
LEFT JOIN changeable USING (id)
LEFT JOIN changed USING (id)
ORDER BY wanted.position
