-- The queue, and the list of the reactors that serve it.
--
-- In these files :"schema" stands for the schema's name as a quoted identifier and :'schema' for the same as a literal;
-- `doorbell migrate print` puts them in.

CREATE TABLE :"schema".notification_jobs (
    -- A UUIDv7: 48 bits of milliseconds, 12 bits of what is left of the millisecond, 62 random bits. Written out here
    -- rather than as a function so that a role which may only insert needs no right to execute anything, and so that it
    -- is planned as part of the INSERT.
    id uuid NOT NULL DEFAULT (
        overlay(
            lpad(to_hex((date_part('epoch', clock_timestamp()) * 1000000)::bigint * 512 / 125), 15, '0')
            PLACING '7' FROM 13 FOR 0
        ) || substr(gen_random_uuid()::text, 20)
    )::uuid,
    channel text NOT NULL,
    recipient text NOT NULL,
    payload jsonb NOT NULL DEFAULT '{}',
    status text NOT NULL DEFAULT 'pending',
    attempts int NOT NULL DEFAULT 0,
    max_attempts int NOT NULL DEFAULT 5,
    next_attempt_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_error text,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    claim bigint NOT NULL DEFAULT 0,
    claimed_by uuid,
    sent_at timestamptz,
    receipt text,
    expires_at timestamptz,
    dedupe_key text,
    CONSTRAINT notification_jobs_pkey PRIMARY KEY (id),
    CONSTRAINT notification_jobs_status_known
        CHECK (status IN ('pending', 'sent', 'failed', 'expired', 'cancelled')),
    CONSTRAINT notification_jobs_channel_not_empty CHECK (channel <> ''),
    CONSTRAINT notification_jobs_channel_at_most_1024_bytes CHECK (octet_length(channel) <= 1024),
    CONSTRAINT notification_jobs_dedupe_key_at_most_1024_bytes CHECK (octet_length(dedupe_key) <= 1024),
    CONSTRAINT notification_jobs_attempts_not_negative CHECK (attempts >= 0),
    CONSTRAINT notification_jobs_max_attempts_at_least_one CHECK (max_attempts >= 1)
) WITH (
    -- A job leaves three dead versions behind. Vacuum early and without pauses, or the claim walks over them.
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.02
);

-- "Pending and due": fresh rows, delayed ones, retries, and rows whose reactor died, since a claimed row stays pending
-- and carries the end of its lease in next_attempt_at. The channel comes first, or a backlog on one channel would stand
-- in the way of every other.
CREATE INDEX notification_jobs_due ON :"schema".notification_jobs (channel, next_attempt_at)
    WHERE status = 'pending';

CREATE UNIQUE INDEX notification_jobs_dedupe ON :"schema".notification_jobs (channel, dedupe_key)
    WHERE status = 'pending' AND dedupe_key IS NOT NULL;

COMMENT ON TABLE :"schema".notification_jobs IS
    'Notifications to be sent. Insert channel, recipient, payload; perhaps id, max_attempts, next_attempt_at, expires_at, dedupe_key.';
COMMENT ON COLUMN :"schema".notification_jobs.status IS
    'pending (waiting, due or being sent), sent, failed, expired, cancelled';
COMMENT ON COLUMN :"schema".notification_jobs.attempts IS 'tries started';
COMMENT ON COLUMN :"schema".notification_jobs.max_attempts IS 'tries in all';
COMMENT ON COLUMN :"schema".notification_jobs.next_attempt_at IS
    'due when this has passed; while a reactor is sending it, the end of that reactor''s lease';
COMMENT ON COLUMN :"schema".notification_jobs.claim IS
    'the fence: grows at every claim, and a write that bears an old number changes nothing';
COMMENT ON COLUMN :"schema".notification_jobs.claimed_by IS 'the reactor that is sending it, else null';
COMMENT ON COLUMN :"schema".notification_jobs.receipt IS 'what the provider answered';
COMMENT ON COLUMN :"schema".notification_jobs.expires_at IS 'not sent after this';
COMMENT ON COLUMN :"schema".notification_jobs.dedupe_key IS 'unique with the channel while pending';

CREATE TABLE :"schema".notification_reactors (
    id uuid NOT NULL,
    lock_key bigint NOT NULL,
    host text NOT NULL,
    version text NOT NULL,
    channels text[] NOT NULL,
    lease interval NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    dead boolean NOT NULL DEFAULT false,
    CONSTRAINT notification_reactors_pkey PRIMARY KEY (id)
);

COMMENT ON TABLE :"schema".notification_reactors IS 'Running reactors, and dead ones whose rows are not yet rescued.';
COMMENT ON COLUMN :"schema".notification_reactors.lock_key IS
    'advisory lock that the living reactor holds in share mode';
