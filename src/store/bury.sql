-- Takes a dead reactor off the list if none of its rows is left to be rescued.
--
-- $1 the dead reactor uuid
--
-- Locks the entry. Reads notification_jobs_due as rescue.sql does, up to the first such row of a channel. One reactor a
-- statement: for all of them at once the planner, which knows nothing of how few there are, expects so much work that it
-- compiles the statement first, and that alone takes a third of a second.
DELETE FROM :"schema".notification_reactors AS reactor
WHERE reactor.id = $1 AND reactor.dead AND NOT EXISTS (
    SELECT
    FROM unnest(reactor.channels) AS served (channel)
    CROSS JOIN LATERAL (
        SELECT
        FROM :"schema".notification_jobs AS job
        WHERE job.channel = served.channel AND job.status = 'pending' AND job.next_attempt_at > statement_timestamp()
            AND job.next_attempt_at <= reactor.seen_at + reactor.lease AND job.claimed_by = reactor.id
        LIMIT 1
    ) AS leased
)
