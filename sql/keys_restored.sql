-- pg_dump restores rows first, then keys, then other indexes and foreign keys: keys must be accepted by a table that has got chunks, and be true.
CREATE TABLE k(host text, time timestamptz, value int) USING varve;
CREATE TABLE p(id int, time timestamptz, value int) USING varve;
CREATE TABLE f(id int, time timestamptz) USING varve;
INSERT INTO k SELECT 'h' || g % 3, '2026-01-01'::timestamptz + g * interval '1 s', g FROM generate_series(1, 3000) g;
INSERT INTO p SELECT g, '2026-01-01'::timestamptz + g * interval '1 s', g FROM generate_series(1, 3000) g;
INSERT INTO f SELECT g, '2026-01-01'::timestamptz + g * interval '1 s' FROM generate_series(1, 1000) g;
ALTER TABLE k ADD PRIMARY KEY (host, time);
ALTER TABLE p ADD PRIMARY KEY (id);
CREATE UNIQUE INDEX ON p (value);
CREATE INDEX ON k USING varve (host, time);
ALTER TABLE f ADD FOREIGN KEY (id) REFERENCES p ON DELETE CASCADE;
SELECT (SELECT count(*) > 0 FROM varve.chunks('k')) AS k, (SELECT count(*) > 0 FROM varve.chunks('p')) AS p,
       (SELECT count(*) > 0 FROM varve.chunks('f')) AS f;
INSERT INTO k VALUES ('h1', '2026-01-01 00:00:01', 0);
INSERT INTO k VALUES ('h1', '2026-01-01 00:00:01', 0) ON CONFLICT (host, time) DO UPDATE SET value = -1 RETURNING *;
INSERT INTO p VALUES (77, '2026-02-01', 5000);
INSERT INTO p VALUES (5000, '2026-02-01', 77);
INSERT INTO p VALUES (77, '2026-02-01', 78) ON CONFLICT DO NOTHING;
INSERT INTO p VALUES (77, '2026-02-01', -77) ON CONFLICT (id) DO UPDATE SET value = EXCLUDED.value RETURNING id, value;
INSERT INTO p VALUES (5000, '2026-02-01', 5000), (5001, '2026-02-01', 77);
UPDATE p SET id = 5000 WHERE id = 78;
UPDATE p SET id = id + 10000 WHERE id BETWEEN 2001 AND 2010;
INSERT INTO f VALUES (5001, '2026-02-01');
INSERT INTO f VALUES (2001, '2026-02-01');
DELETE FROM p WHERE id <= 500;
SELECT (SELECT count(*) FROM p), (SELECT count(*) FROM f), (SELECT count(*) FROM k);
CALL varve.compact('p');
CALL varve.compact('k');
INSERT INTO p VALUES (5001, '2026-02-01', -1);
INSERT INTO p VALUES (500, '2026-02-01', 500);
INSERT INTO p VALUES (501, '2026-02-01', 6000);
-- Two rows of a key in chunks.
CREATE TABLE d(id int, time timestamptz) USING varve;
INSERT INTO d SELECT g % 2999, '2026-01-01'::timestamptz + g * interval '1 s' FROM generate_series(1, 3000) g;
ALTER TABLE d ADD PRIMARY KEY (id);
SELECT count(*) AS faults FROM varve.verify('p');
SELECT count(*) AS faults FROM varve.verify('k');
DROP TABLE k, p, f, d;
