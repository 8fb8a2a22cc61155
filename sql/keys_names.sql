-- Keys of type name, of which a btree keeps no zeros at the end: a batch finds rows of the tail by the btree where the series index does not settle the key.
CREATE TABLE named (host name, time timestamptz NOT NULL, number int, value int, PRIMARY KEY (host, time, number)) USING varve;
CREATE INDEX ON named USING varve (host, time);
INSERT INTO named SELECT 'h' || i % 3, '2024-01-01'::timestamptz + i * interval '1 s', 1, i FROM generate_series(1, 3000) i;
CALL varve.compact('named');
INSERT INTO named VALUES ('h1', '2024-02-01', 1, 0), ('a', '2024-02-01', 1, 0), (repeat('é', 31) || 'x', '2024-02-01', 1, 0), ('', '2024-02-01', 1, 0);
-- Batches, each with one of these keys.
CREATE FUNCTION batch(host name, number int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO named
    SELECT 'b' || i % 7, '2024-02-01'::timestamptz + i * interval '1 s', number, i FROM generate_series(1, 1000) i
    UNION ALL SELECT batch.host, '2024-02-01', batch.number, 1;
    RETURN 'inserted';
EXCEPTION WHEN unique_violation THEN
    RETURN sqlerrm;
END $$;
SELECT batch('h1', 1), batch('a', 1), batch((repeat('é', 31) || 'x')::name, 1), batch('', 1);
SELECT batch('aa', 1), batch('a', 2), batch(repeat('é', 31)::name, 3);
SELECT host, number, count(*) FROM named WHERE time = '2024-02-01' GROUP BY host, number ORDER BY host, number;
SELECT count(*), count(DISTINCT (host, time, number)) FROM named;
SELECT * FROM varve.verify('named');
CALL varve.compact('named');
SELECT count(*), count(DISTINCT (host, time, number)) FROM named;
DROP FUNCTION batch;
DROP TABLE named;
