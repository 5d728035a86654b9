-- How many bytes that has as text. On disk it may be a fraction of that, as small as one to some hundred thousand.
--
-- $1 id uuid; $2 claim bigint; $3 claimed_by uuid; $4 attempts int
SELECT octet_length(recipient)::bigint + octet_length(payload::text) AS bytes
FROM :"schema".notification_jobs
WHERE id = $1 AND status = 'pending'
  AND (claim = $2 AND (claimed_by = $3 OR (claimed_by IS NULL AND attempts = $4)) OR claim < $2)
