-- How many seconds until the next row of these channels is due, null if none is; and whether one is due already: if a claim
-- has just come back short, somebody holds its lock. Of the rows of that channel which are due later nothing is said.
--
-- $1 channels text[]; $2 the reactor uuid, whose own claimed rows are left out; $3 how far back to look on each channel in
-- seconds float8[], as in claim.sql
--
-- Locks nothing. Reads the first entries of one range of notification_jobs_due a channel. The instant is clamped to an
-- hour on either side: infinity has no difference to now. The array stands in a sub-select as in claim.sql.
SELECT min(seconds) FILTER (WHERE seconds > 0) AS seconds, coalesce(bool_or(seconds <= 0), false) AS due
FROM unnest((SELECT $1::text[]), (SELECT $3::float8[])) AS wanted (channel, reach)
CROSS JOIN LATERAL (
    SELECT extract(epoch FROM
               least(greatest(next_attempt_at, now() - interval '1 hour'), now() + interval '1 hour')
               - clock_timestamp())::float8 AS seconds
    FROM :"schema".notification_jobs
    WHERE channel = wanted.channel AND status = 'pending' AND claimed_by IS DISTINCT FROM $2
        AND next_attempt_at >= coalesce(statement_timestamp() - make_interval(secs => wanted.reach), '-infinity')
    ORDER BY next_attempt_at
    LIMIT 1
) AS soonest
