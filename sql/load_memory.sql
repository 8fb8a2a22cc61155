-- What loads and compact take of a session's memory: varve.batch_memory and a few times the largest value, however many series or rows there are.
CREATE FUNCTION peak_kb() RETURNS bigint LANGUAGE sql AS
$$SELECT (regexp_match(pg_read_file('/proc/self/status'), 'VmPeak:\s+(\d+)'))[1]::bigint$$;
-- One row for each of many series, under a key.
CREATE TABLE many(host int, time timestamptz, value int, PRIMARY KEY (host, time)) USING varve;
\c -
SET varve.batch_memory = '8MB';
SELECT peak_kb() AS before \gset
INSERT INTO many SELECT g, '2026-01-01', 1 FROM generate_series(1, 300000) g;
INSERT INTO many SELECT g, '2026-01-02', 1 FROM generate_series(1, 300000) g;
SELECT (peak_kb() - :before) / 1024 < 200 AS little;
SELECT count(*), count(DISTINCT host) FROM many;
-- Rows with large values, all on one page.
CREATE TABLE large(device int, time timestamptz, doc text) USING varve;
ALTER TABLE large ALTER doc SET STORAGE EXTERNAL;
CREATE INDEX ON large USING varve (device, time);
INSERT INTO large SELECT 1, '2026-01-01'::timestamptz + i * interval '1 s', repeat(md5(i::text), 300000) FROM generate_series(1, 12) i;
\c -
SET varve.batch_memory = '8MB';
SELECT peak_kb() AS before \gset
CALL varve.compact('large');
SELECT (peak_kb() - :before) / 1024 < 8 + 6 * 9.2 AS little;
SELECT rows > 0 AS compressed, count(*) > 1 AS in_parts FROM varve.chunks('large') GROUP BY 1;
SELECT count(*), bool_and(doc = repeat(md5(extract(second FROM time)::int::text), 300000)) AS same FROM large;
SELECT count(*) AS faults FROM varve.verify('large');
DROP TABLE many, large;
DROP FUNCTION peak_kb;
