-- What time it is. Locks nothing.
SELECT EXTRACT(EPOCH FROM clock_timestamp())::float8 AS epoch
