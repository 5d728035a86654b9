-- Makes every sleeping reactor look, and ask again when the next row is due.
SELECT pg_notify(topic, '') FROM :"schema".doorbell_bell()
