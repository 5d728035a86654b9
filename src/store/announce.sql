-- Tells the other reactors that they can now see whether this one lives: who was alone begins to look after it.
--
-- At its commit it takes the lock that all notifying transactions of the cluster take.
SELECT pg_notify(topic, 'reactor') FROM :"schema".doorbell_bell()
