-- Tables of unusual shape: no column, a thousand columns, no time, nothing but NULLs, wide rows.
CREATE TABLE nothing() USING varve;
INSERT INTO nothing SELECT FROM generate_series(1, 2500);
SELECT count(*) FROM nothing;
DELETE FROM nothing;
SELECT count(*) FROM nothing;
INSERT INTO nothing DEFAULT VALUES;
ALTER TABLE nothing ADD a int DEFAULT 3;
SELECT * FROM nothing;
SELECT count(*) AS faults FROM varve.verify('nothing');
DROP TABLE nothing;

DO $$ BEGIN
    EXECUTE 'CREATE TABLE wide(time timestamptz NOT NULL, ' || (SELECT string_agg('c' || g || ' int', ', ') FROM generate_series(1, 1000) g) || ') USING varve';
    EXECUTE 'INSERT INTO wide SELECT ''2026-01-01''::timestamptz + g * interval ''1 s'', '
            || (SELECT string_agg(CASE WHEN g % 10 = 0 THEN 'NULL' ELSE 'g + ' || g END, ', ') FROM generate_series(1, 1000) g)
            || ' FROM generate_series(1, 2000) g';
END $$;
CALL varve.compact('wide');
SELECT count(*), sum(c1), sum(c999), count(c1000), min(time), max(time) FROM wide;
UPDATE wide SET c500 = -1 WHERE c1 = 2;
SELECT c1, c499, c500, c501 FROM wide WHERE c1 < 5 ORDER BY c1;
SELECT count(*) AS faults FROM varve.verify('wide');
DROP TABLE wide;

CREATE TABLE timeless(a int, b text) USING varve;
INSERT INTO timeless SELECT g, 'x' || g FROM generate_series(1, 3000) g;
CALL varve.compact('timeless');
SELECT count(*), sum(a), max(b) FROM timeless;
DROP TABLE timeless;

CREATE TABLE empty(time timestamptz, device text, value float8) USING varve;
CREATE INDEX ON empty USING varve (device, time);
CALL varve.compact('empty');
SELECT * FROM empty;
SELECT count(*) AS faults FROM varve.verify('empty');
INSERT INTO empty SELECT NULL, NULL, NULL FROM generate_series(1, 2000);
CALL varve.compact('empty');
SELECT count(*), count(time), count(device), count(value) FROM empty;
SELECT count(*) FROM empty WHERE device IS NULL;
SELECT count(*) AS faults FROM varve.verify('empty');
DROP TABLE empty;

-- Rows of 80 kB, more than a page of the heap holds, with and without compression.
CREATE TABLE long(time timestamptz NOT NULL, device text, document text) USING varve;
INSERT INTO long SELECT '2026-01-01'::timestamptz + g * interval '1 s', 'd' || g % 2,
                        (SELECT string_agg(md5(g::text || i), '') FROM generate_series(1, 2500) i) FROM generate_series(1, 50) g;
INSERT INTO long SELECT '2026-01-02'::timestamptz + g * interval '1 s', 'd', repeat('same ', 20000) FROM generate_series(1, 2000) g;
CALL varve.compact('long');
SELECT device, count(*), min(length(document)), md5(string_agg(md5(document), '' ORDER BY time)) FROM long GROUP BY device ORDER BY device;
SELECT count(*) AS faults FROM varve.verify('long');
DROP TABLE long;
