-- Triggers, deferred constraint triggers, generated columns, CHECK and row-level security on tables with compressed rows.
CREATE TABLE v(id int, time timestamptz NOT NULL, device text, value float8 CHECK (value IS NULL OR value < 1e6),
               rounded int GENERATED ALWAYS AS (value::int) STORED) USING varve;
CREATE TABLE log(what text, id int, old float8, new float8);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_LEVEL = 'STATEMENT' THEN
        INSERT INTO log VALUES (TG_WHEN || ' ' || TG_OP, NULL, NULL, NULL);
        RETURN NULL;
    END IF;
    INSERT INTO log VALUES (TG_WHEN || ' ' || TG_OP,
                            CASE WHEN TG_OP = 'DELETE' THEN OLD.id ELSE NEW.id END,
                            CASE WHEN TG_OP <> 'INSERT' THEN OLD.value END,
                            CASE WHEN TG_OP <> 'DELETE' THEN NEW.value END);
    RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
INSERT INTO v (id, time, device, value) SELECT g, '2026-01-01'::timestamptz + g * interval '1 s', 'd' || g % 4, g / 2.0 FROM generate_series(1, 5000) g;
CALL varve.compact('v');
CREATE TRIGGER before_row BEFORE INSERT OR UPDATE OR DELETE ON v FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER after_row AFTER INSERT OR UPDATE OR DELETE ON v FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER after_statement AFTER INSERT OR UPDATE OR DELETE ON v FOR EACH STATEMENT EXECUTE FUNCTION note();
UPDATE v SET value = value + 1 WHERE id IN (10, 20);
DELETE FROM v WHERE id IN (30, 40);
INSERT INTO v (id, time, device, value) VALUES (6000, '2026-02-01', 'new', 1);
SELECT * FROM log ORDER BY what, id;
SELECT id, value, rounded FROM v WHERE id IN (10, 20, 30, 40, 6000) ORDER BY id;
DROP TRIGGER before_row ON v;
DROP TRIGGER after_row ON v;
DROP TRIGGER after_statement ON v;

-- Transition tables.
CREATE FUNCTION count_transitions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE NOTICE 'old: %, new: %', (SELECT count(*) || ', ' || sum(value) FROM before), (SELECT count(*) || ', ' || sum(value) FROM after);
    RETURN NULL;
END $$;
CREATE TRIGGER transitions AFTER UPDATE ON v REFERENCING OLD TABLE AS before NEW TABLE AS after
    FOR EACH STATEMENT EXECUTE FUNCTION count_transitions();
UPDATE v SET value = value * 2 WHERE id BETWEEN 100 AND 199;
DROP TRIGGER transitions ON v;

-- Deferred constraint triggers see their rows at commit.
TRUNCATE log;
CREATE CONSTRAINT TRIGGER deferred AFTER INSERT OR UPDATE OR DELETE ON v DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION note();
BEGIN;
UPDATE v SET value = -1 WHERE id = 200;
DELETE FROM v WHERE id = 201;
INSERT INTO v (id, time, device, value) SELECT g, '2026-03-01', 'deferred', g FROM generate_series(7001, 7003) g;
SELECT count(*) FROM log;
COMMIT;
SELECT * FROM log ORDER BY what, id;
DROP TRIGGER deferred ON v;

-- CHECK, on one row and in the middle of a batch.
UPDATE v SET value = 1e7 WHERE id = 500;
INSERT INTO v (id, time, device, value) SELECT g, '2026-01-01', 'd', g * 1000.0 FROM generate_series(1, 3000) g;
SELECT count(*) FROM v;

-- Row-level security.
CREATE ROLE regress_varve_reader;
GRANT SELECT, UPDATE, DELETE ON v TO regress_varve_reader;
ALTER TABLE v ENABLE ROW LEVEL SECURITY;
CREATE POLICY one_device ON v USING (device = 'd1');
SET ROLE regress_varve_reader;
SELECT device, count(*) FROM v GROUP BY device;
DELETE FROM v WHERE id % 10 = 1;
UPDATE v SET device = 'd2' WHERE id = 5;
RESET ROLE;
SELECT count(*) FROM v;
SELECT count(*) AS faults FROM varve.verify('v');
DROP TABLE v, log;
DROP ROLE regress_varve_reader;
DROP FUNCTION note, count_transitions;
