-- A chunk of which many single rows have changed, each by a transaction of its own, is written anew with what its notes say.
SET timezone = 'UTC';
CREATE TABLE noted(time timestamptz NOT NULL, sensor int NOT NULL, value float8, PRIMARY KEY (sensor, time)) USING varve WITH (autovacuum_enabled = false);
INSERT INTO noted SELECT '2026-01-01'::timestamptz + g * interval '1 s', 1, g FROM generate_series(0, 39999) g;
CALL varve.compact('noted');
CREATE TABLE twin AS TABLE noted;
CREATE FUNCTION differences() RETURNS bigint LANGUAGE sql AS $$
    SELECT count(*) FROM ((TABLE noted EXCEPT ALL TABLE twin) UNION ALL (TABLE twin EXCEPT ALL TABLE noted)) d
$$;
-- More than the header has room for, and then more than the next one had before.
SELECT format('UPDATE %s SET value = -value WHERE sensor = %s AND time = %L', name, 1, '2026-01-01'::timestamptz + g * interval '1 s')
FROM generate_series(17, 39999, 400) g, (VALUES ('noted'), ('twin')) n(name) ORDER BY g, name
\set ECHO none
\gexec
\set ECHO all
SELECT format('DELETE FROM %s WHERE sensor = %s AND time = %L', name, 1, '2026-01-01'::timestamptz + g * interval '1 s')
FROM generate_series(40, 39999, 1000) g, (VALUES ('noted'), ('twin')) n(name) ORDER BY g, name
\set ECHO none
\gexec
\set ECHO all
SELECT differences();
SELECT deleted, header_bytes > 1400 AS has_slots, tuples > 50 AS has_notes FROM varve.chunks($$noted$$);
VACUUM FULL noted;
SELECT differences();
SELECT count(*) AS faults FROM varve.verify('noted');
SELECT format('UPDATE %s SET value = value + 1 WHERE sensor = %s AND time = %L', name, 1, '2026-01-01'::timestamptz + g * interval '1 s')
FROM generate_series(5, 39999, 450) g, (VALUES ('noted'), ('twin')) n(name) ORDER BY g, name
\set ECHO none
\gexec
\set ECHO all
CLUSTER noted USING noted_pkey_series;
SELECT differences();
SELECT count(*) AS faults FROM varve.verify('noted');
INSERT INTO noted SELECT * FROM twin ON CONFLICT (sensor, time) DO NOTHING;
CALL varve.compact('noted');
SELECT differences();
SELECT count(*) AS faults FROM varve.verify('noted');
DROP TABLE noted, twin;
DROP FUNCTION differences;
