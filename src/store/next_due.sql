-- How many seconds until the next row of these channels is due; null if none is waiting. Below zero: it is due already,
-- and if a claim has just come back short, somebody holds its lock.
--
-- $1 channels text[]; $2 the reactor uuid, whose own claimed rows are left out; $3 how far back to look in seconds, as in
-- claim.sql
--
-- Locks nothing. Reads the first entries of one range of notification_jobs_due a channel. The instant is clamped to an
-- hour on either side: infinity has no difference to now. The array stands in a sub-select as in claim.sql.
SELECT min(extract(epoch FROM
           least(greatest(soonest.next_attempt_at, now() - interval '1 hour'), now() + interval '1 hour')
           - clock_timestamp()))::float8 AS seconds
FROM unnest((SELECT $1::text[])) AS wanted (channel)
CROSS JOIN LATERAL (
    SELECT next_attempt_at
    FROM :"schema".notification_jobs
    WHERE channel = wanted.channel AND status = 'pending' AND claimed_by IS DISTINCT FROM $2
        AND next_attempt_at >= coalesce(statement_timestamp() - make_interval(secs => $3), '-infinity')
    ORDER BY next_attempt_at
    LIMIT 1
) AS soonest
