-- What may not be seen is told by nobody: row-level security and column privileges, in the functions that look at a whole table, and
-- in the errors of batches.
CREATE SCHEMA row_security;
GRANT USAGE ON SCHEMA row_security TO PUBLIC;
SET search_path = row_security, public;
SET varve.batch_rows = 5;
CREATE FUNCTION at(seconds int) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$ SELECT timestamptz '2026-01-01 00:00:00Z' + seconds * interval '1 s' $$;
CREATE TABLE readings(tenant name, time timestamptz, value float8, PRIMARY KEY (tenant, time)) USING varve;
INSERT INTO readings SELECT 'varve_tenant_' || t, at(g), g FROM generate_series(1, 2) t, generate_series(1, 100) g;
INSERT INTO readings VALUES ('varve_tenant_2', at(1000), 1);
CREATE ROLE varve_tenant_1;
CREATE ROLE varve_column;
CREATE ROLE varve_writer;
GRANT SELECT, INSERT, UPDATE, DELETE ON readings TO varve_tenant_1;
GRANT SELECT (value), INSERT ON readings TO varve_column;
GRANT INSERT ON readings TO varve_writer;
CREATE VIEW asked AS SELECT f.name, f.statement FROM (VALUES
    ('chunks', 'SELECT count(*) FROM varve.chunks(''readings'')'),
    ('stats', 'SELECT count(*) FROM varve.stats(''readings'')'),
    ('verify', 'SELECT count(*) FROM varve.verify(''readings'')')) f(name, statement);
GRANT SELECT ON asked TO PUBLIC;
CREATE FUNCTION attempt(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE detail text;
BEGIN
    EXECUTE statement;
    RETURN 'done';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
    RETURN concat_ws(', ', SQLSTATE, SQLERRM, nullif(detail, ''));
END $$;

-- Without policies, SELECT on the table is what it takes; on a column of it is not enough.
SET ROLE varve_tenant_1;
SELECT name, attempt(statement) FROM asked;
SET ROLE varve_column;
SELECT name, attempt(statement) FROM asked;
RESET ROLE;

-- With a policy for the caller, they refuse; whom no policy concerns they answer.
ALTER TABLE readings ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON readings USING (tenant = current_user);
SET ROLE varve_tenant_1;
SELECT count(*), count(DISTINCT tenant) FROM readings;
SELECT * FROM varve.chunks('readings');
SELECT name, attempt(statement) FROM asked;
SET row_security = off;
SELECT name, attempt(statement) FROM asked;
RESET row_security;
RESET ROLE;
SELECT name, attempt(statement) FROM asked;
CREATE ROLE varve_auditor BYPASSRLS;
GRANT SELECT ON readings TO varve_auditor;
SET ROLE varve_auditor;
SELECT name, attempt(statement) FROM asked;
RESET ROLE;
-- Through a function or a view, the rights of its owner count.
CREATE FUNCTION tell() RETURNS SETOF text LANGUAGE sql SECURITY DEFINER AS $$ SELECT first_key FROM varve.chunks('readings') $$;
SET ROLE varve_tenant_1;
SELECT count(*) > 0 AS told FROM tell();
RESET ROLE;
-- An owner whom policies concern too.
CREATE ROLE varve_owner;
ALTER TABLE readings OWNER TO varve_owner;
SET ROLE varve_owner;
SELECT name, attempt(statement) FROM asked;
RESET ROLE;
ALTER TABLE readings FORCE ROW LEVEL SECURITY;
SET ROLE varve_owner;
SELECT name, attempt(statement) FROM asked;
CALL varve.compact('readings');
RESET ROLE;
ALTER TABLE readings NO FORCE ROW LEVEL SECURITY;

-- A batch that has a key of a chunk, of the tail, or one twice: the key is named to those who may read all its columns.
CREATE VIEW duplicates AS SELECT * FROM (VALUES
    ('of a chunk', $$INSERT INTO readings SELECT current_user, at(g), 0 FROM generate_series(100, 110) g$$),
    ('of the tail', $$INSERT INTO readings SELECT 'varve_tenant_2', at(g), 0 FROM generate_series(1000, 1010) g$$),
    ('twice', $$INSERT INTO readings SELECT current_user, at(2000 + g / 2), 0 FROM generate_series(2, 20) g$$),
    ('a row', $$INSERT INTO readings VALUES ('varve_tenant_2', at(1000), 0)$$)) d(name, statement);
GRANT SELECT ON duplicates TO PUBLIC;
CREATE POLICY any_insert ON readings FOR INSERT WITH CHECK (true);
SELECT name, attempt(replace(statement, 'current_user', '''varve_tenant_1''')) FROM duplicates;
SET ROLE varve_tenant_1;
SELECT name, attempt(statement) FROM duplicates;
RESET ROLE;
ALTER TABLE readings DISABLE ROW LEVEL SECURITY;
SET ROLE varve_tenant_1;
SELECT name, attempt(statement) FROM duplicates;
SET ROLE varve_writer;
SELECT name, attempt(replace(statement, 'current_user', '''varve_tenant_1''')) FROM duplicates;
SET ROLE varve_column;
SELECT name, attempt(replace(statement, 'current_user', '''varve_tenant_1''')) FROM duplicates;
RESET ROLE;
GRANT SELECT (tenant, time) ON readings TO varve_column;
SET ROLE varve_column;
SELECT name, attempt(replace(statement, 'current_user', '''varve_tenant_1''')) FROM duplicates;
RESET ROLE;
SELECT count(*) FROM readings;

-- Loading again: a row that a policy refuses is refused, whether its key is there or not.
ALTER TABLE readings ENABLE ROW LEVEL SECURITY;
DROP POLICY any_insert ON readings;
SET ROLE varve_tenant_1;
SELECT attempt($$INSERT INTO readings SELECT 'varve_tenant_2', at(g), 0 FROM generate_series(1, 50) g ON CONFLICT DO NOTHING$$);
SELECT attempt($$INSERT INTO readings SELECT 'varve_tenant_2', at(g), 0 FROM generate_series(5001, 5050) g ON CONFLICT DO NOTHING$$);
SELECT attempt($$INSERT INTO readings SELECT current_user, at(g), 0 FROM generate_series(1, 50) g ON CONFLICT DO NOTHING$$);
RESET ROLE;

RESET search_path;
SET client_min_messages = warning;
DROP SCHEMA row_security CASCADE;
DROP ROLE varve_tenant_1, varve_column, varve_writer, varve_auditor, varve_owner;
