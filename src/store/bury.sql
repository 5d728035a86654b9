-- Takes dead reactors off the list: those of whose rows none is left to be rescued, and those that `look.sql` calls dead
-- for their silence.
--
-- Locks the entries that go. Reads notification_jobs_due as rescue.sql does.
DELETE FROM :"schema".notification_reactors AS reactor
WHERE CASE WHEN NOT reactor.dead
    THEN reactor.lock_key = 0 AND reactor.seen_at < clock_timestamp() - interval '1 minute' - 2 * reactor.lease
    ELSE NOT EXISTS (
        SELECT
        FROM unnest(reactor.channels) AS served (channel)
        JOIN :"schema".notification_jobs AS job ON job.channel = served.channel
        WHERE job.status = 'pending' AND job.next_attempt_at > statement_timestamp()
            AND job.next_attempt_at <= reactor.seen_at + reactor.lease AND job.claimed_by = reactor.id)
    END
