-- The defaults of this role that would break our statements, each with a value that would not: a transaction that only
-- reads, another isolation level, a time limit that is shorter than our own. Asked under a time limit of our own, hence
-- `reset_val`. Locks nothing.
--
-- On a standby every transaction only reads, whatever we say: that is for us to wait out.
SELECT
    name,
    CASE name
        WHEN 'default_transaction_read_only' THEN 'off'
        WHEN 'default_transaction_isolation' THEN 'read committed'
        ELSE '0'
    END AS harmless
FROM pg_catalog.pg_settings
WHERE NOT pg_catalog.pg_is_in_recovery()
    AND ((name = 'default_transaction_read_only' AND reset_val = 'on')
        OR (name = 'default_transaction_isolation' AND reset_val <> 'read committed')
        OR (name IN ('statement_timeout', 'transaction_timeout') AND reset_val::int BETWEEN 1 AND 5000))
ORDER BY name
