-- Takes a reactor that stops off the list.
--
-- $1 id uuid
--
-- Locks that entry.
DELETE FROM :"schema".notification_reactors WHERE id = $1
