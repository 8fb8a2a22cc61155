-- Every column type comes back bit for bit from chunks, in every position among nulls.
SET TIME ZONE 'UTC';
SET varve.chunk_rows = 50;
CREATE TYPE types_mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE types_pair AS (a int, b text);
CREATE DOMAIN types_positive AS int CHECK (VALUE > 0);
CREATE TABLE types_h (
    ts timestamptz, i int, b bool, c "char", s smallint, l bigint, o oid, x xid, r real, d double precision, m money,
    n numeric, n2 numeric(12,3), t text, vc varchar(20), bp char(9), na name, by bytea, da date, ti time, tz timetz, ts2 timestamp,
    iv interval, u uuid, ip inet, ci cidr, ma macaddr, ma8 macaddr8, bi bit(5), vb varbit, j json, jb jsonb, xm text, p point, bx box,
    pg polygon, ci2 circle, ir int4range, nr numrange, mr int4multirange, e types_mood, co types_pair, dom types_positive,
    ai int[], at text[], a2 int[][], av timestamptz[], ac types_pair[], tv tsvector, tq tsquery, ls pg_lsn, td tid, rc regclass, oa oidvector
) USING heap;
INSERT INTO types_h
SELECT '2024-01-01'::timestamptz + i * interval '1 minute', i, i % 3 = 0, chr(65 + i % 26)::"char", (i * 37 % 65536 - 32768)::smallint,
    CASE i % 4 WHEN 0 THEN 9223372036854775807 WHEN 1 THEN (-9223372036854775808) ELSE i * 1000003::bigint END, (4294967295 - i)::oid, (i::text)::xid,
    (CASE i % 7 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN 'Infinity' WHEN 3 THEN '-Infinity' WHEN 4 THEN '1e-45' ELSE (i / 3.0)::text END)::real,
    (CASE i % 7 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0' WHEN 2 THEN 'Infinity' WHEN 3 THEN '-Infinity' WHEN 4 THEN '5e-324' ELSE (i / 3.0)::text END)::float8,
    (i / 7.0)::numeric::money,
    (CASE i % 6 WHEN 0 THEN 'NaN' WHEN 1 THEN 'Infinity' WHEN 2 THEN '-Infinity' WHEN 3 THEN i || '.5000' WHEN 4 THEN '1e' || i ELSE '-0.000' || i END)::numeric,
    i / 8.0, repeat(md5(i::text), i % 5), left(md5(i::text), i % 20), left(md5(i::text), i % 9), 'name' || i, decode(md5(i::text), 'hex'),
    CASE i % 5 WHEN 0 THEN 'infinity' WHEN 1 THEN '-infinity' ELSE '2000-02-29'::date + i END, time '23:59:59.999999' - i * interval '1 us',
    (time '12:00' + i * interval '1 s')::text::timetz, CASE i % 5 WHEN 0 THEN 'infinity'::timestamp ELSE timestamp '1999-12-31' + i * interval '1 us' END,
    make_interval(i % 3, i % 13, 0, i % 31, i % 25, 0, i / 10.0), md5(i::text)::uuid, ('10.' || i % 250 || '.0.1/' || 8 + i % 24)::inet,
    ('2001:db8:' || i || '::/48')::cidr, ('08:00:2b:01:02:' || lpad(to_hex(i % 256), 2, '0'))::macaddr, ('08:00:2b:01:02:03:04:' || lpad(to_hex(i % 256), 2, '0'))::macaddr8,
    (i % 32)::bit(5), (i::bit(16))::varbit, json_build_object('k', i), jsonb_build_object('k', i, 'a', array[i, i + 1]), '<a/>', point(i, -i), box(point(0, 0), point(i, i)),
    polygon(box(point(0, 0), point(i, i))), circle(point(i, i), i), int4range(i, i + 5), numrange(i, NULL), int4multirange(int4range(i, i + 1), int4range(i + 5, i + 9)),
    (enum_range(NULL::types_mood))[1 + i % 3], ROW(i, 'b' || i)::types_pair, i, array[i, NULL, i + 1], array['x', NULL, md5(i::text)], array[[i, 1], [2, 3]],
    array['2024-01-01'::timestamptz + i * interval '1 h'], array[ROW(i, 'z')::types_pair, NULL], to_tsvector('simple', 'a b c' || i), ('a' || i || ' & b')::tsquery,
    ('0/' || to_hex(i))::pg_lsn, ('(' || i || ',1)')::tid, 'pg_class'::regclass, '1 2 3'::oidvector
  FROM generate_series(1, 700) i;
INSERT INTO types_h (ts, i) SELECT '2024-02-01'::timestamptz + i * interval '1 s', i FROM generate_series(1, 200) i;
CREATE TABLE types_v (LIKE types_h) USING varve;
INSERT INTO types_v SELECT * FROM types_h ORDER BY md5(i::text);
SELECT count(*) > 10 AS has_chunks FROM varve.chunks('types_v');
CREATE FUNCTION types_differ() RETURNS bigint LANGUAGE sql AS $$
    SELECT count(*) FROM ((SELECT h::text FROM types_h h EXCEPT ALL SELECT v::text FROM types_v v)
        UNION ALL (SELECT v::text FROM types_v v EXCEPT ALL SELECT h::text FROM types_h h)) d $$;
SELECT types_differ();
SELECT count(*) FROM varve.verify('types_v');
-- The bits of floats, the scales of numerics and the padding of characters too.
SELECT count(*) FROM (SELECT i, float4send(r), float8send(d), numeric_send(n), scale(n2), octet_length(bp) FROM types_h WHERE r IS NOT NULL
    EXCEPT ALL SELECT i, float4send(r), float8send(d), numeric_send(n), scale(n2), octet_length(bp) FROM types_v WHERE r IS NOT NULL) d;
CALL varve.compact('types_v');
SELECT types_differ();
UPDATE types_h SET t = NULL, jb = jb || '{"n": 1}', ai = ai || 5 WHERE i % 10 = 0;
UPDATE types_v SET t = NULL, jb = jb || '{"n": 1}', ai = ai || 5 WHERE i % 10 = 0;
SELECT types_differ();
VACUUM FULL types_v;
SELECT types_differ();
SELECT count(*) FROM varve.verify('types_v');

-- Wide values: more than a chunk would hold of them, toasted and compressed by the heap.
CREATE TABLE wide_h (ts timestamptz, doc text, raw bytea) USING heap;
INSERT INTO wide_h SELECT '2024-01-01'::timestamptz + i * interval '1 s', repeat(md5(i::text), 50000), decode(repeat(md5(i::text), 20000), 'hex') FROM generate_series(1, 8) i;
CREATE TABLE wide_v (LIKE wide_h) USING varve;
SET varve.batch_rows = 1;
INSERT INTO wide_v SELECT * FROM wide_h;
RESET varve.batch_rows;
SELECT count(*), max(length(doc)), max(length(raw)) FROM wide_v;
SELECT count(*) FROM (TABLE wide_h EXCEPT ALL TABLE wide_v) d;
DROP TABLE types_h, types_v, wide_h, wide_v;
DROP FUNCTION types_differ();
DROP DOMAIN types_positive;
DROP TYPE types_mood, types_pair;
