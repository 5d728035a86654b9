-- On which channels is a row due that looks no longer reach? $1 channels text[]; $2 how far back looks reach on each in
-- seconds float8[]
--
-- Locks nothing. One range of notification_jobs_due a channel, from its beginning: it walks over all that is dead and not
-- yet removed.
SELECT wanted.channel
FROM unnest((SELECT $1::text[]), (SELECT $2::float8[])) AS wanted (channel, reach)
CROSS JOIN LATERAL (
    SELECT
    FROM :"schema".notification_jobs
    WHERE channel = wanted.channel AND status = 'pending'
        AND next_attempt_at <= statement_timestamp() - make_interval(secs => wanted.reach)
    ORDER BY next_attempt_at
    LIMIT 1
) AS late
