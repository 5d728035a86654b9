-- The payload of a row that the claim left in the table, if the row is still ours.
--
-- $1 id uuid; $2 claim bigint; $3 claimed_by uuid
SELECT payload::text AS payload
FROM :"schema".notification_jobs
WHERE id = $1 AND claim = $2 AND claimed_by = $3 AND status = 'pending'
