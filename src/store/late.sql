-- Is a row due that looks no longer reach? $1 channels text[]; $2 how far back they reach in seconds float8
--
-- Locks nothing. One range of notification_jobs_due a channel, from its beginning: it walks over all that is dead and not
-- yet removed.
SELECT EXISTS (
    SELECT
    FROM unnest((SELECT $1::text[])) AS wanted (channel)
    CROSS JOIN LATERAL (
        SELECT
        FROM :"schema".notification_jobs
        WHERE channel = wanted.channel AND status = 'pending'
            AND next_attempt_at <= statement_timestamp() - make_interval(secs => $2)
        ORDER BY next_attempt_at
        LIMIT 1
    ) AS late
) AS late
