-- Two series indexes, the second of which has another time, and finds the keys: a chunk's header says the times of the first one only.
CREATE FUNCTION at(seconds int) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$ SELECT timestamptz '2026-01-01 00:00:00Z' + seconds * interval '1 s' $$;
CREATE TABLE v(a int, seen timestamptz NOT NULL, b int NOT NULL, sent timestamptz NOT NULL) USING varve;
CREATE INDEX v_seen ON v USING varve (a, seen);
CREATE INDEX v_sent ON v USING varve (b, sent);
ALTER TABLE v ADD PRIMARY KEY (b, sent);
INSERT INTO v SELECT i % 10, at(i - 200000000), i % 7, at(i) FROM generate_series(1, 20000) i;
CALL varve.compact('v');
SELECT rows FROM varve.stats('v') WHERE part = 'chunks';
-- The row's other time is that of no chunk, of all of them, and behind them.
INSERT INTO v VALUES (1, at(-300000000), 3, at(3));
INSERT INTO v VALUES (1, at(3 - 200000000), 3, at(3));
INSERT INTO v VALUES (1, at(0), 3, at(10));
INSERT INTO v VALUES (1, at(0), 3, at(10)) ON CONFLICT DO NOTHING;
INSERT INTO v VALUES (1, at(0), 3, at(10)) ON CONFLICT (b, sent) DO UPDATE SET a = -1;
INSERT INTO v SELECT 1, at(0), i % 7, at(i) FROM generate_series(19990, 20010) i;
INSERT INTO v SELECT 1, at(0), i % 7, at(i) FROM generate_series(19990, 20010) i ON CONFLICT DO NOTHING;
-- Behind all of them.
INSERT INTO v VALUES (1, at(-300000000), 3, at(30000)), (1, at(0), 3, at(30001));
INSERT INTO v VALUES (1, at(-300000000), 3, at(30000));
CALL varve.compact('v');
INSERT INTO v VALUES (1, at(-300000000), 3, at(30000));
INSERT INTO v VALUES (1, at(1), 3, at(30001));
SELECT count(*), count(DISTINCT (b, sent)), count(*) FILTER (WHERE a = -1) AS updated FROM v;
SELECT count(*) AS faults FROM varve.verify('v');
DROP TABLE v;

-- So many columns that a header's static section is in pieces.
DO $$ BEGIN
    EXECUTE 'CREATE TABLE v(a int NOT NULL, sent timestamptz NOT NULL, '
        || (SELECT string_agg(format('c%s float8', i), ', ') FROM generate_series(1, 400) i) || ', PRIMARY KEY (a, sent)) USING varve';
END $$;
INSERT INTO v(a, sent, c1, c7) SELECT i % 10, at(i), i, i * 0.37 FROM generate_series(1, 3000) i;
CALL varve.compact('v');
INSERT INTO v(a, sent, c1) VALUES (1, at(3001), 1);
INSERT INTO v(a, sent, c1) VALUES (1, at(3001), 1);
INSERT INTO v(a, sent, c1) VALUES (1, at(1), 1);
INSERT INTO v(a, sent, c1) VALUES (1, at(2991), 1) ON CONFLICT DO NOTHING;
CALL varve.compact('v');
INSERT INTO v(a, sent, c1) VALUES (1, at(3001), 1);
INSERT INTO v(a, sent, c1) VALUES (1, at(3002), 1);
SELECT count(*), count(DISTINCT (a, sent)) FROM v;
SELECT count(*) AS faults FROM varve.verify('v');
DROP TABLE v;
-- Times without an end.
CREATE TABLE v(a int, sent timestamptz, c float8, PRIMARY KEY (a, sent)) USING varve;
INSERT INTO v SELECT i % 10, at(i), i FROM generate_series(1, 3000) i;
INSERT INTO v VALUES (1, 'infinity', 1), (2, '-infinity', 1);
CALL varve.compact('v');
INSERT INTO v VALUES (1, 'infinity', 1);
INSERT INTO v VALUES (2, '-infinity', 1);
INSERT INTO v VALUES (2, 'infinity', 1);
INSERT INTO v VALUES (2, 'infinity', 1);
CALL varve.compact('v');
INSERT INTO v VALUES (2, 'infinity', 1);
SELECT count(*), count(DISTINCT (a, sent)) FROM v;
SELECT count(*) AS faults FROM varve.verify('v');
DROP TABLE v;
DROP FUNCTION at;
