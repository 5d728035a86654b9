-- What is in the queue, by channel; `served` says whether a live reactor serves the channel.
-- Live: not dead, and seen within its lease or 30 s, whichever is longer.
-- Locks nothing. A scan of the whole table.
SELECT
    channel,
    count(*) FILTER (WHERE status = 'pending') AS pending,
    count(*) FILTER (WHERE status = 'sent') AS sent,
    count(*) FILTER (WHERE status = 'failed') AS failed,
    count(*) FILTER (WHERE status = 'expired') AS expired,
    count(*) FILTER (WHERE status = 'cancelled') AS cancelled,
    count(*) FILTER (WHERE status = 'pending' AND claimed_by IS NOT NULL) AS claimed,
    count(*) FILTER (WHERE status = 'pending' AND next_attempt_at <= now.instant) AS due,
    -- Since it could have been sent: not before it was created. Bounds, since an infinite instant cannot be subtracted.
    EXTRACT(EPOCH FROM max(now.instant - LEAST(GREATEST(next_attempt_at, created_at, 'epoch'), now.instant))
        FILTER (WHERE status = 'pending' AND next_attempt_at <= now.instant))::float8 AS oldest_due_seconds,
    EXISTS (
        SELECT FROM :"schema".notification_reactors AS reactor
        WHERE job.channel = ANY (reactor.channels)
            AND NOT reactor.dead
            AND reactor.seen_at > clock_timestamp() - GREATEST(reactor.lease, interval '30 s')
    ) AS served
FROM :"schema".notification_jobs AS job
CROSS JOIN (SELECT statement_timestamp() AS instant) AS now
GROUP BY channel
ORDER BY channel
