-- Which defaults of this role would break our statements, each with a value that would not: a transaction that only reads,
-- another isolation level, a time limit that is shorter than our own. Asked under a time limit of our own, hence `reset_val`.
-- Locks nothing.
--
-- On a standby every transaction only reads, whatever we say: that is for us to wait out.
SELECT
    name,
    CASE name
        WHEN 'default_transaction_read_only' THEN 'off'
        WHEN 'default_transaction_isolation' THEN 'read committed'
        ELSE '0'
    END AS harmless,
    NOT pg_catalog.pg_is_in_recovery() AND CASE name
        WHEN 'default_transaction_read_only' THEN reset_val = 'on'
        WHEN 'default_transaction_isolation' THEN reset_val <> 'read committed'
        ELSE reset_val::int BETWEEN 1 AND 5000
    END AS hostile
FROM pg_catalog.pg_settings
WHERE name IN (
    'default_transaction_read_only', 'default_transaction_isolation', 'statement_timeout', 'transaction_timeout'
)
ORDER BY name
