-- The keys of the two advisory locks and the topic: the contract between the triggers and the reactors.
SELECT asleep_class, in_flight_class, lock_id, topic FROM :"schema".doorbell_bell()
