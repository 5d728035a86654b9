-- Channels, as bytes, with due rows that no listed reactor serves: most likely a misspelt name, or a reactor that is not
-- running.
--
-- Locks nothing. Hops from channel to channel along notification_jobs_due, one look-up a channel. A reactor counts
-- while it was seen within its lease, or within 30 s where the lease is shorter.
WITH RECURSIVE waiting AS (
    SELECT min(channel) AS channel FROM :"schema".notification_jobs WHERE status = 'pending'
    UNION ALL
    SELECT (SELECT min(job.channel) FROM :"schema".notification_jobs AS job
            WHERE job.status = 'pending' AND job.channel > waiting.channel)
    FROM waiting
    WHERE waiting.channel IS NOT NULL
)
SELECT convert_to(
    waiting.channel,
    CASE current_setting('server_encoding') WHEN 'SQL_ASCII' THEN 'SQL_ASCII' ELSE 'UTF8' END::name
) AS channel
FROM waiting
WHERE EXISTS (
      SELECT FROM :"schema".notification_jobs AS job
      WHERE job.channel = waiting.channel AND job.status = 'pending' AND job.next_attempt_at <= statement_timestamp())
  AND NOT EXISTS (
      SELECT FROM :"schema".notification_reactors AS reactor
      WHERE waiting.channel = ANY (reactor.channels) AND NOT reactor.dead
        AND reactor.seen_at > clock_timestamp() - greatest(reactor.lease, interval '30 seconds'))
