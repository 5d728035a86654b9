-- Notifications for people, the newest first. Every condition may be NULL, for "any": $1 id, $2 status, $3 channel,
-- $4 only those before this id; $5: at most so many; $6: with their payloads.
-- Instants as RFC 3339 text, made here: no client type holds all that a timestamptz can be. What others wrote as bytes, in
-- UTF-8 unless nobody knows what they are.
-- Locks nothing. The primary key, backwards; a rare status or channel is a walk over the whole table.
SELECT
    id,
    convert_to(channel, encoding.name) AS channel,
    convert_to(recipient, encoding.name) AS recipient,
    CASE WHEN $6 THEN convert_to(payload::text, encoding.name) END AS payload,
    status, attempts, max_attempts,
    to_json(next_attempt_at AT TIME ZONE 'UTC') #>> '{}'
        || CASE WHEN isfinite(next_attempt_at) THEN 'Z' ELSE '' END AS next_attempt_at,
    convert_to(last_error, encoding.name) AS last_error,
    to_json(created_at AT TIME ZONE 'UTC') #>> '{}'
        || CASE WHEN isfinite(created_at) THEN 'Z' ELSE '' END AS created_at,
    to_json(updated_at AT TIME ZONE 'UTC') #>> '{}'
        || CASE WHEN isfinite(updated_at) THEN 'Z' ELSE '' END AS updated_at,
    claim, claimed_by,
    to_json(sent_at AT TIME ZONE 'UTC') #>> '{}'
        || CASE WHEN isfinite(sent_at) THEN 'Z' ELSE '' END AS sent_at,
    convert_to(receipt, encoding.name) AS receipt,
    to_json(expires_at AT TIME ZONE 'UTC') #>> '{}'
        || CASE WHEN isfinite(expires_at) THEN 'Z' ELSE '' END AS expires_at,
    convert_to(dedupe_key, encoding.name) AS dedupe_key
FROM :"schema".notification_jobs
CROSS JOIN (
    SELECT CASE current_setting('server_encoding') WHEN 'SQL_ASCII' THEN 'SQL_ASCII' ELSE 'UTF8' END::name AS name
) AS encoding
WHERE ($1 IS NULL OR id = $1)
    AND ($2 IS NULL OR status = $2)
    AND ($3 IS NULL OR channel = $3)
    AND ($4 IS NULL OR id < $4)
ORDER BY id DESC
LIMIT $5
