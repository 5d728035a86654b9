-- How many bytes that payload has as text. On disk it may be a hundredth of that.
--
-- $1 id uuid; $2 claim bigint; $3 claimed_by uuid
SELECT octet_length(payload::text) AS bytes
FROM :"schema".notification_jobs
WHERE id = $1 AND claim = $2 AND claimed_by = $3 AND status = 'pending'
