-- Sections of a header that outgrow it: a header of many columns, and then a delete map with the places of forty thousand new
-- versions, whose list of pieces, scattered over the holes of the file, does not fit into the header either.
SELECT 'CREATE TABLE v(time timestamptz NOT NULL, n int, ' || string_agg('c' || i || ' float8', ', ' ORDER BY i) || ', filler text) USING varve'
FROM generate_series(1, 45) i \gexec
ALTER TABLE v SET (autovacuum_enabled = off);
SELECT 'INSERT INTO v(time, n, ' || string_agg('c' || i, ', ' ORDER BY i) || ') SELECT ''2026-01-01''::timestamptz + n * interval ''1 s'', n, '
    || string_agg('hashint4(n + ' || i || ') % ' || i * 100, ', ' ORDER BY i) || ' FROM generate_series(1, 40000) n'
FROM generate_series(1, 45) i \gexec
CALL varve.compact('v');
SELECT rows, header_bytes > 1000 AS wide FROM varve.chunks('v');
CREATE TABLE h AS TABLE v;
SELECT tuples AS pieces FROM varve.chunks('v') \gset before_
SET varve.batch_rows = 1000000;
-- Not all in one statement: places that follow one another take less.
BEGIN;
UPDATE v SET n = -n WHERE n % 3 = 1;
UPDATE v SET n = -n WHERE n > 0 AND n % 2 = 1;
UPDATE v SET n = -n WHERE n > 0 AND n % 50 <> 0;
COMMIT;
UPDATE h SET n = -n WHERE n % 50 <> 0 OR n % 3 = 1;
SELECT deleted, tuples - :before_pieces > 75 AS spilled FROM varve.chunks('v');
SELECT tuples AS pieces FROM varve.chunks('v') \gset flat_
-- Pages with a hole each, as large as a piece, and no other holes.
VACUUM v;
ALTER TABLE v ALTER filler SET STORAGE PLAIN;
INSERT INTO v(time, filler) SELECT 'infinity', repeat('x', 1984) || lpad(i::text, 4, '0') FROM generate_series(1, 1999) i;
DELETE FROM v WHERE filler LIKE '%1' OR filler LIKE '%7';
VACUUM v;
-- Some of the rest: the map is read and written again, into the holes.
UPDATE v SET n = -n WHERE n % 50 = 0 AND n > 500;
UPDATE h SET n = -n WHERE n % 50 = 0 AND n > 500;
SELECT tuples > :flat_pieces AS spilled_list FROM varve.chunks('v');
SELECT count(*) FROM ((SELECT * FROM v WHERE filler IS NULL EXCEPT ALL TABLE h) UNION ALL (TABLE h EXCEPT ALL SELECT * FROM v WHERE filler IS NULL)) d;
SELECT count(*) AS faults FROM varve.verify('v');
RESET varve.batch_rows;
DELETE FROM v WHERE filler IS NOT NULL;
CALL varve.compact('v');
SELECT count(*) FROM ((TABLE v EXCEPT ALL TABLE h) UNION ALL (TABLE h EXCEPT ALL TABLE v)) d;
SELECT count(*) AS faults, pg_relation_size('v') < 20000000 AS small FROM varve.verify('v');
DROP TABLE v, h;
