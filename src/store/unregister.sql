-- Takes a reactor that stops off the list.
--
-- $1 id uuid
DELETE FROM :"schema".notification_reactors WHERE id = $1
