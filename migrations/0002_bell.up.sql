-- The producers' half of the quiet bell: an insert rings only when somebody sleeps. The reactors' half, and why no
-- wake-up is lost between the two, stands at the top of src/reactor/bell.rs.
--
-- Nothing here is found by the inserting session's search_path, and a role that may only insert needs no further right:
-- who may execute a trigger's function is asked when the trigger is made, not when it fires.

DO $doorbell$
DECLARE
    schema_name CONSTANT text := current_setting('doorbell.schema');
    -- Not md5, which a server in FIPS mode refuses.
    hash CONSTANT text := encode(sha256(convert_to(schema_name, 'UTF8')), 'hex');
    asleep_class CONSTANT int := 1685021292;
    in_flight_class CONSTANT int := 1685021293;
    lock_id CONSTANT int := ('x' || left(hash, 8))::bit(32)::int;
    topic CONSTANT text := 'doorbell_' || left(hash, 16);
    nobody_asleep text;
    must_ring text;
BEGIN
    -- The two advisory locks (classid, objid) and the topic: a contract between versions. Constants, worked out once, so
    -- that this function and the two below agree even after the schema is renamed.
    EXECUTE format(
        'CREATE FUNCTION %1$I.doorbell_bell(
             OUT asleep_class int, OUT in_flight_class int, OUT lock_id int, OUT topic text
         ) LANGUAGE sql IMMUTABLE PARALLEL SAFE AS %2$L',
        schema_name, format('SELECT %s, %s, %s, %L', asleep_class, in_flight_class, lock_id, topic));
    EXECUTE format('GRANT EXECUTE ON FUNCTION %I.doorbell_bell() TO PUBLIC', schema_name);

    -- Sleepers hold the lock in share mode, so taking it exclusively tells that there are none. One expression takes and
    -- returns it: no cancelled statement can fall between the two. Tried twice, since two producers who test at the
    -- same instant would take each other for a sleeper. CASE fixes the order; AND and OR would not.
    nobody_asleep := format(
        'CASE WHEN pg_catalog.pg_try_advisory_lock(%1$s, %2$s) THEN pg_catalog.pg_advisory_unlock(%1$s, %2$s)
              WHEN pg_catalog.pg_try_advisory_lock(%1$s, %2$s) THEN pg_catalog.pg_advisory_unlock(%1$s, %2$s)
              ELSE false END',
        asleep_class, lock_id);

    -- 1. Somebody asleep: ring, take nothing.
    -- 2. IN_FLIGHT in share mode, to the end of the transaction. Refused (a reactor is testing it): ring.
    -- 3. Nobody asleep even now that IN_FLIGHT is held: silent.
    -- One expression for all of it, which PL/pgSQL evaluates without a query; in parentheses, or the first THEN would end
    -- it.
    must_ring := format(
        '(CASE WHEN pg_catalog.current_setting(''doorbell.notify'', true) OPERATOR(pg_catalog.=) ''off'' THEN false
              WHEN NOT %1$s THEN true
              WHEN NOT pg_catalog.pg_try_advisory_xact_lock_shared(%2$s, %3$s) THEN true
              ELSE NOT %1$s END)',
        nobody_asleep, in_flight_class, lock_id);

    -- The same empty text every time, so that the server keeps one notification a transaction.
    EXECUTE format(
        'CREATE FUNCTION %1$I.doorbell_on_insert() RETURNS trigger LANGUAGE plpgsql AS %2$L',
        schema_name, format(
'BEGIN
    IF %1$s
    THEN
        PERFORM pg_catalog.pg_notify(%2$L, '''');
    END IF;
    RETURN NULL;
END', must_ring, topic));
    EXECUTE format(
        'CREATE TRIGGER doorbell_on_insert AFTER INSERT ON %1$I.notification_jobs
         FOR EACH STATEMENT EXECUTE FUNCTION %1$I.doorbell_on_insert()',
        schema_name);

    -- A row made due sooner rings by the same protocol: by hand, by a release, by a rescue. A claim (the fence grows), a
    -- renewal, a settle and a retry (a claimed row, due later) do not: their writer knows. The trigger's condition is
    -- short, because the server reads it anew at every statement.
    EXECUTE format(
        'CREATE FUNCTION %1$I.doorbell_on_update() RETURNS trigger LANGUAGE plpgsql AS %2$L',
        schema_name, format(
'BEGIN
    IF (CASE WHEN OLD.status OPERATOR(pg_catalog.=) ''pending'' AND NEW.channel OPERATOR(pg_catalog.=) OLD.channel
                 AND NEW.next_attempt_at OPERATOR(pg_catalog.>=) OLD.next_attempt_at THEN false
            WHEN OLD.claimed_by IS NOT NULL
                 AND NEW.next_attempt_at OPERATOR(pg_catalog.>) pg_catalog.clock_timestamp() THEN false
            ELSE %1$s END)
    THEN
        PERFORM pg_catalog.pg_notify(%2$L, '''');
    END IF;
    RETURN NULL;
END', must_ring, topic));
    EXECUTE format(
        'CREATE TRIGGER doorbell_on_update AFTER UPDATE ON %1$I.notification_jobs
         FOR EACH ROW WHEN (NEW.claim = OLD.claim AND NEW.status = ''pending'')
         EXECUTE FUNCTION %1$I.doorbell_on_update()',
        schema_name);
END
$doorbell$;
