-- compact says why rows stay uncompressed, and what to do about it.

CREATE TABLE surrogate(id bigserial PRIMARY KEY, time timestamptz NOT NULL, value float8) USING varve;
CALL varve.compact('surrogate');
CREATE TABLE timeless(a int, b text) USING varve;
CALL varve.compact('timeless');
CREATE TABLE excluding(time timestamptz NOT NULL, host int, EXCLUDE USING btree (host WITH =)) USING varve;
CALL varve.compact('excluding');
CREATE TABLE part_key(time timestamptz NOT NULL, host int) USING varve;
CREATE UNIQUE INDEX ON part_key (host, time) WHERE host > 0;
CALL varve.compact('part_key');
CREATE TABLE other_series(time timestamptz NOT NULL, host int, disk int, PRIMARY KEY (host, time)) USING varve;
DROP INDEX other_series_pkey_series;
CALL varve.compact('other_series');
CREATE INDEX ON other_series USING varve (host, disk, time);
CALL varve.compact('other_series');
-- Nothing to say about one that can be compressed.
CREATE TABLE fine(time timestamptz NOT NULL, host int, PRIMARY KEY (host, time)) USING varve;
INSERT INTO fine VALUES ('2026-01-01', 1);
CALL varve.compact('fine');
INSERT INTO surrogate(time) SELECT '2026-01-01'::timestamptz + g * interval '1 s' FROM generate_series(1, 3) g;
INSERT INTO fine SELECT '2026-01-02'::timestamptz + g * interval '1 s', 2 FROM generate_series(1, 2) g;
SELECT "table", layout, tail_rows, chunks, chunk_rows, bytes > 0 AS has_bytes, obstacle FROM varve.tables
WHERE "table"::text IN ('surrogate', 'timeless', 'excluding', 'part_key', 'other_series', 'fine') ORDER BY "table"::text;
-- One sees one's own tables.
CREATE ROLE varve_stranger;
SET ROLE varve_stranger;
SELECT count(*) FROM varve.tables;
RESET ROLE;
DROP ROLE varve_stranger;
DROP TABLE surrogate, timeless, excluding, part_key, other_series, fine;
