-- What is in the queue, by channel (as bytes); `served` says whether a reactor serves the channel that is not among those given.
--
-- $1 the reactors that are lost uuid[]
--
-- Locks nothing. A scan of the whole table.
SELECT
    convert_to(
        job.channel,
        CASE current_setting('server_encoding') WHEN 'SQL_ASCII' THEN 'SQL_ASCII' ELSE 'UTF8' END::name
    ) AS channel,
    count(*) FILTER (WHERE status = 'pending') AS pending,
    count(*) FILTER (WHERE status = 'sent') AS sent,
    count(*) FILTER (WHERE status = 'failed') AS failed,
    count(*) FILTER (WHERE status = 'expired') AS expired,
    count(*) FILTER (WHERE status = 'cancelled') AS cancelled,
    count(*) FILTER (WHERE status = 'pending' AND claimed_by IS NOT NULL) AS claimed,
    count(*) FILTER (WHERE status = 'pending' AND claimed_by = ANY ($1)) AS claimed_by_lost,
    count(*) FILTER (WHERE status = 'pending' AND next_attempt_at <= now.instant) AS due,
    -- Since it could have been sent: not before it was created. Bounds, since an infinite instant cannot be subtracted.
    EXTRACT(EPOCH FROM max(now.instant - LEAST(GREATEST(next_attempt_at, created_at, 'epoch'), now.instant))
        FILTER (WHERE status = 'pending' AND next_attempt_at <= now.instant))::float8 AS oldest_due_seconds,
    EXISTS (
        SELECT FROM :"schema".notification_reactors AS reactor
        WHERE job.channel = ANY (reactor.channels) AND reactor.id <> ALL ($1)
    ) AS served
FROM :"schema".notification_jobs AS job
CROSS JOIN (SELECT statement_timestamp() AS instant) AS now
GROUP BY job.channel
ORDER BY job.channel
