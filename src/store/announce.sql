-- Tells the other reactors that there is one more: who was alone begins to look after it. A ring to those that know no
-- better.
SELECT pg_notify(topic, 'reactor') FROM :"schema".doorbell_bell()
