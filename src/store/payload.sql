-- What a claim left in the table, if the row is still ours: by the rule of settle.sql, so that what may be settled may be read.
--
-- $1 id uuid; $2 claim bigint; $3 claimed_by uuid; $4 attempts int
SELECT recipient, payload::text AS payload
FROM :"schema".notification_jobs
WHERE id = $1 AND status = 'pending'
  AND (claim = $2 AND (claimed_by = $3 OR (claimed_by IS NULL AND attempts = $4)) OR claim < $2)
