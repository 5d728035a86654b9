-- The reactors that are listed, the oldest first; `live` as in status_counts.sql.
-- Locks nothing. A scan of a table with a row for each reactor.
SELECT
    id, host, version, channels, dead,
    EXTRACT(EPOCH FROM clock_timestamp() - started_at)::float8 AS started_seconds_ago,
    EXTRACT(EPOCH FROM clock_timestamp() - seen_at)::float8 AS seen_seconds_ago,
    NOT dead AND seen_at > clock_timestamp() - GREATEST(lease, interval '30 s') AS live
FROM :"schema".notification_reactors
ORDER BY started_at, id
