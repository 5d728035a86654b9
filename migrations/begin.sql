-- Every migration and every undo begins with this, in the same transaction: settings that end with it, one migrator at a
-- time, and the schema and its history made where they are missing.

SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
-- Names below mean the server's own functions and operators, whatever the role's search_path says.
SET LOCAL search_path = pg_catalog;
SET LOCAL client_min_messages = warning;
SET LOCAL statement_timeout = 0;
SET LOCAL lock_timeout = 0;
-- Read by DO blocks: a literal inside of them would end where the name holds their quoting.
SET LOCAL doorbell.schema = :'schema';

DO $doorbell$
DECLARE
    schema_name CONSTANT text := current_setting('doorbell.schema');
BEGIN
    -- Released with the transaction, so it works behind a transaction pooler.
    PERFORM pg_advisory_xact_lock(1685021294, hashtext(schema_name));
    -- Who waits longer for a table makes everybody else wait behind.
    PERFORM set_config('lock_timeout', '3s', true);

    -- IF NOT EXISTS would demand the right to create even where there is nothing to create.
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = schema_name) THEN
        EXECUTE format('CREATE SCHEMA %I', schema_name);
    END IF;
    IF to_regclass(format('%I.doorbell_migrations', schema_name)) IS NULL THEN
        EXECUTE format(
            'CREATE TABLE %I.doorbell_migrations (
                version int NOT NULL CONSTRAINT doorbell_migrations_pkey PRIMARY KEY,
                name text NOT NULL,
                applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
                -- What programs that do not know this migration rely on is no longer so: they refuse to work.
                breaking boolean NOT NULL DEFAULT false
            )', schema_name);
        -- Every reactor looks here before it starts.
        EXECUTE format('GRANT SELECT ON %I.doorbell_migrations TO PUBLIC', schema_name);
    ELSIF NOT EXISTS (
        SELECT FROM pg_attribute
        WHERE attrelid = to_regclass(format('%I.doorbell_migrations', schema_name)) AND attname = 'breaking'
    ) THEN
        -- A history from before there was the mark.
        EXECUTE format(
            'ALTER TABLE %I.doorbell_migrations ADD COLUMN breaking boolean NOT NULL DEFAULT false', schema_name
        );
    END IF;
END
$doorbell$;
