-- Makes every sleeping reactor look, and ask again when the next row is due.
--
-- At its commit it takes the lock that all notifying transactions of the cluster take.
SELECT pg_notify(topic, '') FROM :"schema".doorbell_bell()
