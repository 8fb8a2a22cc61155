-- Retention: rules delete what is older than they say, exactly to the row, whatever form the rows have; see docs/reference/worker.md.
\pset null '(null)'
SET timezone = 'UTC';

-- Each table has a heap twin, from which a DELETE takes the same rows.
CREATE TABLE m (time timestamptz NOT NULL, host text NOT NULL, v float8, PRIMARY KEY (host, time)) USING varve;
CREATE TABLE m_twin (LIKE m);
-- Three days of three hosts, compressed, and some rows of the tail.
INSERT INTO m SELECT now() - i * interval '1 minute', 'h' || i % 3, i FROM generate_series(1, 14400) i;
CALL varve.compact('m');
DO $$ BEGIN FOR i IN 1..40 LOOP
    INSERT INTO m VALUES (now() - i * interval '6 hours' - interval '1 second', 'tail', i);
END LOOP; END $$;
INSERT INTO m_twin SELECT * FROM m;
SELECT varve.set_retention('m', '5 days') = 'm'::regclass::oid::bigint * 1000 + 1 AS has_the_id;
-- The dry run and the run agree.
SELECT keep, rows = (SELECT count(*) FROM m_twin WHERE time < now() - interval '5 days') AS rows_agree,
    oldest::timestamptz = (SELECT min(time) FROM m_twin) AS oldest_agrees, newest::timestamptz < now() - interval '5 days' AS is_old
FROM varve.expiring('m');
CALL varve.expire('m');
DELETE FROM m_twin WHERE time < now() - interval '5 days';
SELECT count(*) > 0 AS some, count(*) FILTER (WHERE time < now() - interval '5 days') AS expired FROM m;
(SELECT * FROM m EXCEPT ALL SELECT * FROM m_twin) UNION ALL (SELECT * FROM m_twin EXCEPT ALL SELECT * FROM m);
SELECT * FROM varve.verify('m');
SELECT rows FROM varve.expiring('m');

-- A rule for some series only; the other rule goes on.
SELECT varve.set_retention('m', '1 day', $$host LIKE 'h1%' -- debug$$) IS NOT NULL AS made;
CALL varve.expire('m');
DELETE FROM m_twin WHERE time < now() - interval '1 day' AND host LIKE 'h1%';
(SELECT * FROM m EXCEPT ALL SELECT * FROM m_twin) UNION ALL (SELECT * FROM m_twin EXCEPT ALL SELECT * FROM m);
SELECT kind, schedule, enabled, keep, series_filter, runs, failures, last_error FROM varve.jobs WHERE "table" = 'm'::regclass ORDER BY id;

-- The same rule again replaces the first.
SELECT varve.set_retention('m', '2 days') = 'm'::regclass::oid::bigint * 1000 + 1 AS has_the_id;
SELECT keep, series_filter FROM varve.expiring('m') ORDER BY id;
SELECT varve.remove_retention('m', 'no such filter');
SELECT varve.remove_retention('m', $$host LIKE 'h1%' -- debug$$);
SELECT varve.remove_retention('m');
SELECT varve.remove_retention('m');
CALL varve.expire('m');

-- Whole chunks go by their headers: what is left of them is dead tuples, which compact clears away.
CREATE TABLE days (time timestamptz, host text, v int) USING varve;
CREATE INDEX ON days USING varve (host, time);
DO $$ BEGIN FOR d IN 0..9 LOOP
    INSERT INTO days SELECT now() - d * interval '1 day' - i * interval '1 s', 'h' || i % 2, i FROM generate_series(1, 2000) i;
END LOOP; END $$;
SELECT varve.set_retention('days', '4 days 12 hours') IS NOT NULL AS made;
SELECT rows, chunks, bytes > 0 AS has_bytes FROM varve.expiring('days');
CALL varve.expire('days');
SELECT count(*), (SELECT count(*) FROM varve.chunks('days')) AS chunks FROM days;
SELECT * FROM varve.verify('days');
SELECT rows, bytes > 0 AS has_bytes FROM varve.jobs WHERE "table" = 'days'::regclass AND kind = 'expire';

-- Times that are NULL never expire, infinite ones do or do not.
CREATE TABLE odd (time timestamp, host text) USING varve;
INSERT INTO odd SELECT CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN '-infinity' WHEN 2 THEN 'infinity' ELSE '2001-01-01'::timestamp END, 'a'
FROM generate_series(1, 800) i;
SELECT varve.set_retention('odd', '1 year') IS NOT NULL AS made;
CALL varve.expire('odd');
SELECT time, count(*) FROM odd GROUP BY time ORDER BY time;
SELECT * FROM varve.verify('odd');

-- date, timestamp, and numbers since 1970.
CREATE TABLE d (day date, host text) USING varve;
INSERT INTO d SELECT current_date - i, 'a' FROM generate_series(0, 999) i;
CREATE TABLE d_twin AS SELECT * FROM d;
SELECT varve.set_retention('d', '10 days 1 hour') IS NOT NULL AS made;
CALL varve.expire('d');
DELETE FROM d_twin WHERE day < localtimestamp - interval '10 days 1 hour';
SELECT count(*) > 0 AS some FROM d;
(SELECT * FROM d EXCEPT ALL SELECT * FROM d_twin) UNION ALL (SELECT * FROM d_twin EXCEPT ALL SELECT * FROM d);
CREATE TABLE n (at bigint NOT NULL, host text NOT NULL) USING varve;
CREATE INDEX ON n USING varve (host, at);
INSERT INTO n SELECT (extract(epoch FROM now()) * 1000)::bigint - i * 60000, 'a' FROM generate_series(1, 3000) i;
SELECT varve.set_retention('n', '1 day');
SELECT varve.set_retention('n', '1 day', time_unit => 'days');
SELECT varve.set_retention('n', '1 day', time_unit => 'ms') IS NOT NULL AS made;
CALL varve.expire('n');
SELECT count(*) BETWEEN 1438 AND 1441 AS as_many_as_there_should_be, min(at) >= (extract(epoch FROM now() - interval '1 day 5 s') * 1000) AS exact FROM n;

-- Triggers fire, and foreign keys cascade, as for DELETE. A deferred one is checked in the round.
CREATE TABLE parent (time timestamptz NOT NULL, host text NOT NULL, PRIMARY KEY (host, time)) USING varve;
CREATE TABLE child (host text, time timestamptz, FOREIGN KEY (host, time) REFERENCES parent (host, time) ON DELETE CASCADE);
CREATE TABLE strict_child (host text, time timestamptz,
    FOREIGN KEY (host, time) REFERENCES parent (host, time) DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE journal (who text, host text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.journal VALUES (current_user, old.host); RETURN old; END $$;
CREATE TRIGGER note AFTER DELETE ON parent FOR EACH ROW EXECUTE FUNCTION note();
INSERT INTO parent SELECT now() - i * interval '1 day', 'a' FROM generate_series(0, 9) i;
INSERT INTO child SELECT host, time FROM parent;
CALL varve.compact('parent');
SELECT varve.set_retention('parent', '90 hours') IS NOT NULL AS made;
INSERT INTO strict_child SELECT host, min(time) FROM parent GROUP BY host;
\set VERBOSITY terse
CALL varve.expire('parent');
\set VERBOSITY default
TRUNCATE strict_child;
CALL varve.expire('parent');
SELECT (SELECT count(*) FROM parent) AS parents, (SELECT count(*) FROM child) AS children, (SELECT count(*) FROM journal) AS noted;
-- A trigger that keeps rows does not keep it running.
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER hold BEFORE DELETE ON parent FOR EACH ROW EXECUTE FUNCTION hold();
SELECT varve.set_retention('parent', '1 hour') IS NOT NULL AS made;
CALL varve.expire('parent');
SELECT count(*) FROM parent;

-- What makes no sense is refused when it is said.
SELECT varve.set_retention('m', '0');
SELECT varve.set_retention('m', '-1 day');
SELECT varve.set_retention('m', '1 month -40 days');
SELECT varve.set_retention('m', NULL);
SELECT varve.set_retention(NULL, '1 day');
SELECT varve.set_retention('m', '300000 years');
SELECT varve.set_retention('m', '1 day', time_unit => 's');
SELECT varve.set_retention('m_twin', '1 day');
CREATE TABLE timeless (a text, b text) USING varve;
SELECT varve.set_retention('timeless', '1 day');
CREATE TABLE parts (time timestamptz, host text) PARTITION BY RANGE (time);
SELECT varve.set_retention('parts', '1 day');
CREATE TEMP TABLE brief (time timestamptz, host text) USING varve;
SELECT varve.set_retention('brief', '1 day');
CREATE TABLE ruled (time timestamptz, host text) USING varve;
CREATE RULE archive AS ON DELETE TO ruled DO ALSO NOTHING;
SELECT varve.set_retention('ruled', '1 day');
CREATE TABLE forced (time timestamptz, host text) USING varve;
ALTER TABLE forced FORCE ROW LEVEL SECURITY;
SELECT varve.set_retention('forced', '1 day');
SELECT varve.set_retention('m', '1 day', 'v > 1');
SELECT varve.set_retention('m', '1 day', 'time > now()');
SELECT varve.set_retention('m', '1 day', 'm IS NULL');
SELECT varve.set_retention('m', '1 day', 'ctid IS NULL');
SELECT varve.set_retention('m', '1 day', 'nothing = 1');
SELECT varve.set_retention('m', '1 day', 'host');
SELECT varve.set_retention('m', '1 day', '');
SELECT varve.set_retention('m', '1 day', 'host = ''a'' WHERE true');
SELECT varve.set_retention('m', '1 day', 'true) OR (true');
SELECT varve.set_retention('m', '1 day', 'true; DROP TABLE m');
SELECT varve.set_retention('m', '1 day', 'true /*');
SELECT varve.set_retention('m', '1 day', 'host IN (SELECT relname FROM pg_class)');
SELECT varve.set_retention('m', '1 day', 'random() < 0.5');
SELECT varve.set_retention('m', '1 day', 'count(host) > 1');
BEGIN;
CALL varve.expire('m');
ROLLBACK;

-- A filter whose column is renamed later says so, and deletes nothing.
SELECT varve.set_retention('m', '1 hour', $$host = 'h2'$$) IS NOT NULL AS made;
ALTER TABLE m RENAME host TO machine;
SELECT count(*) AS before FROM m \gset
CALL varve.expire('m');
SELECT count(*) = :before AS untouched FROM m;
ALTER TABLE m RENAME machine TO host;

-- A rule goes by the column that was the time column when it was set, whatever its name becomes, and by no other.
CREATE TABLE devices (device text NOT NULL, installed date NOT NULL, time timestamptz NOT NULL) USING varve;
CREATE INDEX devices_index ON devices USING varve (device, time);
INSERT INTO devices SELECT 'd' || i % 3, '2001-01-01', now() - i * interval '1 day' FROM generate_series(0, 99) i;
SELECT varve.set_retention('devices', '50 days 1 hour') IS NOT NULL AS made;
DROP INDEX devices_index;
CALL varve.expire('devices');
SELECT rows FROM varve.expiring('devices');
SELECT count(*) FROM devices;
ALTER TABLE devices RENAME time TO at;
CREATE INDEX ON devices USING varve (device, at);
CALL varve.expire('devices');
SELECT count(*) FROM devices;

-- Rules run as the owner of the table, whoever calls.
CREATE ROLE varve_retention_owner;
CREATE ROLE varve_retention_other;
CREATE TABLE owned (time timestamptz, host text) USING varve;
INSERT INTO owned VALUES ('2001-01-01', 'a');
ALTER TABLE owned OWNER TO varve_retention_owner;
GRANT ALL ON owned, journal TO varve_retention_other, varve_retention_owner;
TRUNCATE journal;
CREATE TRIGGER note AFTER DELETE ON owned FOR EACH ROW EXECUTE FUNCTION note();
SET ROLE varve_retention_other;
SELECT varve.set_retention('owned', '1 day');
SELECT varve.remove_retention('owned');
CALL varve.expire('owned');
SELECT * FROM varve.expiring('owned');
SELECT count(*) FROM varve.jobs;
SET ROLE varve_retention_owner;
SELECT varve.set_retention('owned', '1 day') IS NOT NULL AS made;
SELECT kind, "table" FROM varve.jobs ORDER BY id;
RESET ROLE;
CALL varve.expire('owned');
SELECT count(*) FROM owned;
SELECT who FROM journal;

-- A dropped table takes its rules with it; a renamed one keeps them.
ALTER TABLE days RENAME TO dates;
SELECT "table", kind FROM varve.jobs WHERE "table" = 'dates'::regclass ORDER BY id;
DROP TABLE m, m_twin, devices, dates, odd, d, d_twin, n, child, strict_child, parent, timeless, parts, ruled, forced, owned, journal;
DROP FUNCTION note, hold;
DROP ROLE varve_retention_owner, varve_retention_other;
SELECT count(*) FROM varve.jobs WHERE kind = 'expire';
SELECT count(*) FROM pg_seclabel WHERE provider = 'varve';
