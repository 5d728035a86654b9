-- Claims and settles all due rows of the channel `bench`, as fast as one session can: nothing crosses the wire, nothing is
-- decoded, and no outcome has to be told from another. It writes the columns that a reactor writes, and waits for the
-- same flush: of each settle, and of no claim.
CREATE PROCEDURE :"schema".drain_limit(batch int) LANGUAGE plpgsql AS $limit$
DECLARE
    reactor CONSTANT uuid := gen_random_uuid();
    taken uuid[];
BEGIN
    LOOP
        SET LOCAL synchronous_commit = off;
        WITH claimed AS (
            UPDATE :"schema".notification_jobs
            SET attempts = attempts + 1, claim = claim + 1, claimed_by = reactor,
                next_attempt_at = clock_timestamp() + interval '30 s', updated_at = clock_timestamp()
            WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM :"schema".notification_jobs
                WHERE channel = 'bench' AND status = 'pending' AND next_attempt_at <= statement_timestamp()
                ORDER BY next_attempt_at LIMIT batch FOR NO KEY UPDATE SKIP LOCKED))
            RETURNING id
        )
        SELECT array_agg(id) INTO taken FROM claimed;
        COMMIT;
        EXIT WHEN taken IS NULL;

        SET LOCAL synchronous_commit = on;
        UPDATE :"schema".notification_jobs
        SET status = 'sent', claimed_by = NULL, next_attempt_at = clock_timestamp(), sent_at = clock_timestamp(),
            receipt = NULL, updated_at = clock_timestamp()
        WHERE id = ANY (taken) AND status = 'pending' AND claimed_by = reactor;
        COMMIT;
    END LOOP;
END
$limit$
