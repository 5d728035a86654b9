-- Adds notifications. Arrays of equal length, one element a notification: $1 id (NULL: a new one), $2 channel,
-- $3 recipient, $4 payload (NULL: {}), $5 max_attempts (NULL: 5), $6 delay in seconds, $7 life in seconds (NULL: for
-- ever), $8 dedupe key (NULL: none). Answers with a row for each, in order; `added` is false where the key was taken.
--
-- Locks what any INSERT locks. Where another transaction has just inserted the same key, it waits for that one to end.
-- The index notification_jobs_dedupe is what the key conflicts with.
WITH new AS MATERIALIZED (
    SELECT
        position,
        -- As the column's default makes it; given here, since it must be known for the rows that are not added too.
        COALESCE(id, (
            overlay(
                lpad(to_hex((date_part('epoch', clock_timestamp()) * 1000000)::bigint * 512 / 125), 15, '0')
                PLACING '7' FROM 13 FOR 0
            ) || substr(gen_random_uuid()::text, 20)
        )::uuid) AS id,
        channel, recipient, payload, max_attempts, delay, life, dedupe_key
    FROM unnest($1, $2, $3, $4, $5, $6, $7, $8) WITH ORDINALITY
        AS given (id, channel, recipient, payload, max_attempts, delay, life, dedupe_key, position)
),
added AS (
    INSERT INTO :"schema".notification_jobs
        (id, channel, recipient, payload, max_attempts, next_attempt_at, expires_at, dedupe_key)
    SELECT
        id, channel, recipient, COALESCE(payload, '{}')::jsonb, COALESCE(max_attempts, 5),
        clock_timestamp() + make_interval(secs => COALESCE(delay, 0)),
        clock_timestamp() + make_interval(secs => life),
        dedupe_key
    FROM new
    ORDER BY position
    ON CONFLICT (channel, dedupe_key) WHERE status = 'pending' AND dedupe_key IS NOT NULL DO NOTHING
    RETURNING id
)
SELECT new.id, added.id IS NOT NULL AS added
FROM new LEFT JOIN added USING (id)
ORDER BY new.position
