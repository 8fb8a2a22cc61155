-- A table with compressed rows is altered as any table.
CREATE TABLE h(id int, time timestamptz NOT NULL, device text, value float8);
CREATE TABLE v(LIKE h) USING varve;
CREATE INDEX ON v USING varve (device, time);
\set ECHO none
\i sql/include/differences.psql
\set ECHO all
CREATE PROCEDURE on_both(statement text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE replace(statement, '{t}', 'h');
    EXECUTE replace(statement, '{t}', 'v');
END $$;
CALL on_both($$INSERT INTO {t} SELECT g, '2026-01-01'::timestamptz + g * interval '10 s', 'd' || g % 5, g / 10.0 FROM generate_series(1, 10000) g$$);
CALL varve.compact('v');

-- A long default: more rows, deletes, compact, and every kind of rewrite.
CALL on_both($$ALTER TABLE {t} ADD long text DEFAULT repeat('default ', 400)$$);
SELECT differences();
CALL on_both($$INSERT INTO {t} SELECT g, '2026-01-02'::timestamptz + g * interval '10 s', 'd' || g % 5, g FROM generate_series(10001, 15000) g$$);
COPY v (id, time, device, value) FROM STDIN;
20001	2026-01-05 00:00:00Z	d1	1.5
20002	2026-01-05 00:00:10Z	d2	\N
\.
COPY h (id, time, device, value) FROM STDIN;
20001	2026-01-05 00:00:00Z	d1	1.5
20002	2026-01-05 00:00:10Z	d2	\N
\.
SELECT differences();
CALL on_both('DELETE FROM {t} WHERE id % 7 = 0');
CALL on_both($$UPDATE {t} SET long = 'short' WHERE id % 11 = 0$$);
SELECT differences();
CALL varve.compact('v');
SELECT differences();
VACUUM FULL v;
SELECT differences();
SELECT count(*) AS faults FROM varve.verify('v');

-- Columns that go, that come with a NULL, a volatile default or a generated value, and that come again under the old name.
CALL on_both('ALTER TABLE {t} DROP COLUMN value');
CALL on_both('ALTER TABLE {t} ADD value int');
CALL on_both('ALTER TABLE {t} ADD twice int GENERATED ALWAYS AS (id * 2) STORED');
SELECT differences();
CALL on_both($$INSERT INTO {t} (id, time, device, value) VALUES (30001, '2026-01-06', 'd1', 7)$$);
CALL varve.compact('v');
SELECT differences();
CALL on_both('ALTER TABLE {t} ALTER value SET DEFAULT 5, ALTER long SET NOT NULL');
CALL on_both($$INSERT INTO {t} (id, time, device) VALUES (30002, '2026-01-06', 'd1')$$);
SELECT differences();

-- Types: without a rewrite (varchar to text), and with one.
CALL on_both('ALTER TABLE {t} ADD name varchar(10) DEFAULT ''abc''');
CALL varve.compact('v');
CALL on_both('ALTER TABLE {t} ALTER name TYPE text');
SELECT differences();
CALL on_both('ALTER TABLE {t} DROP COLUMN twice');
CALL on_both('ALTER TABLE {t} ALTER id TYPE bigint');
SELECT differences();
CALL on_both($$ALTER TABLE {t} ALTER name DROP DEFAULT, ALTER name TYPE int USING length(name)$$);
SELECT differences();
SELECT count(*) AS faults FROM varve.verify('v');

-- To a heap and back.
ALTER TABLE v SET ACCESS METHOD heap;
SELECT differences();
ALTER TABLE v SET ACCESS METHOD varve;
SELECT differences();
CALL varve.compact('v');
SELECT differences();
SELECT count(*) AS faults FROM varve.verify('v');

-- To another tablespace and back.
SET allow_in_place_tablespaces = true;
CREATE TABLESPACE regress_varve LOCATION '';
ALTER TABLE v SET TABLESPACE regress_varve;
SELECT differences();
ALTER TABLE v SET TABLESPACE pg_default;
SELECT differences();
DROP TABLESPACE regress_varve;

-- Constraints on what is there and what comes.
ALTER TABLE v ADD CHECK (id > 100);
ALTER TABLE v ADD CONSTRAINT positive CHECK (id > 0);
INSERT INTO v (id, time) VALUES (-1, '2026-01-01');
ALTER TABLE v ALTER value SET NOT NULL;

-- Names, schemas, owners.
ALTER TABLE v RENAME COLUMN device TO instance;
CREATE SCHEMA elsewhere;
ALTER TABLE v SET SCHEMA elsewhere;
ALTER TABLE elsewhere.v RENAME TO w;
SELECT count(*), count(instance) FROM elsewhere.w;
DROP SCHEMA elsewhere CASCADE;

-- Unlogged and temporary tables, and their change to permanent ones.
CREATE UNLOGGED TABLE u(time timestamptz NOT NULL, device text, value int) USING varve;
INSERT INTO u SELECT '2026-01-01'::timestamptz + g * interval '1 s', 'd' || g % 3, g FROM generate_series(1, 5000) g;
CALL varve.compact('u');
ALTER TABLE u SET LOGGED;
SELECT count(*), sum(value), count(DISTINCT device) FROM u;
ALTER TABLE u SET UNLOGGED;
SELECT count(*), sum(value), count(DISTINCT device) FROM u;
CREATE TEMPORARY TABLE p(time timestamptz NOT NULL, device text, value int) USING varve;
INSERT INTO p SELECT * FROM u;
SELECT count(*), sum(value) FROM p;
CREATE TEMPORARY TABLE q(time timestamptz, value int) USING varve ON COMMIT DELETE ROWS;
BEGIN;
INSERT INTO q SELECT now(), g FROM generate_series(1, 3000) g;
SELECT count(*) FROM q;
COMMIT;
SELECT count(*) FROM q;
DROP TABLE p, q, u;

-- Partitions of both kinds beside each other.
CREATE TABLE parts(time timestamptz NOT NULL, device text, value int) PARTITION BY RANGE (time);
CREATE TABLE parts_old PARTITION OF parts FOR VALUES FROM ('2025-01-01') TO ('2026-01-01') USING varve;
CREATE TABLE parts_new PARTITION OF parts FOR VALUES FROM ('2026-01-01') TO ('2027-01-01') USING heap;
CREATE TABLE single(time timestamptz NOT NULL, device text, value int) USING varve;
INSERT INTO single SELECT '2024-06-01'::timestamptz + g * interval '1 min', 'd', g FROM generate_series(1, 3000) g;
CALL varve.compact('single');
ALTER TABLE parts ATTACH PARTITION single FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
INSERT INTO parts SELECT '2025-12-31'::timestamptz + g * interval '1 min', 'd' || g % 2, g FROM generate_series(1, 3000) g;
SELECT tableoid::regclass, count(*), sum(value) FROM parts GROUP BY 1 ORDER BY 1;
UPDATE parts SET time = time + interval '1 year' WHERE value <= 10 AND time < '2026-01-01';
SELECT tableoid::regclass, count(*), sum(value) FROM parts GROUP BY 1 ORDER BY 1;
ALTER TABLE parts DETACH PARTITION single;
SELECT count(*) FROM single;
DROP TABLE parts, single;
DROP FUNCTION differences;
DROP PROCEDURE on_both;
DROP TABLE h;
