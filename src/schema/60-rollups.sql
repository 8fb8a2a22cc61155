-- Rollups: docs/reference/rollups.md. Times are in the unit of the source's time column: microseconds or days since 2000-01-01, or
-- an integer column's own. Read and written by the library (src/rollup/catalog.rs); nobody else needs to see them.
-- Materialized views in name only (05-marks.sql).
CREATE MATERIALIZED VIEW varve.rollup USING heap AS
SELECT 0::regclass AS stored, 0::regclass AS view, 0::regclass AS source, 0::int2 AS time_column, 0::bigint AS width_max,
    0::bigint AS over_max, 0::bigint AS threshold, 0::bigint AS watermark, 0::int2 AS bucket_column, 0::bigint AS removed,
    0::regclass AS below, 0::int2 AS key_column, 0::int2 AS key_stored, false AS ignores_late
WHERE varve.is_refreshed();
CREATE UNIQUE INDEX rollup_stored ON varve.rollup USING btree (stored);
CREATE INDEX rollup_source ON varve.rollup USING btree (source);
CREATE INDEX rollup_below ON varve.rollup USING btree (below);
CREATE INDEX rollup_view ON varve.rollup USING btree (view);
CREATE MATERIALIZED VIEW varve.rollup_mark USING heap AS
SELECT 0::regclass AS stored, 0::bigint AS first, 0::bigint AS last, NULL::text AS series, false AS by_ddl WHERE varve.is_refreshed();
CREATE INDEX rollup_mark_stored ON varve.rollup_mark USING btree (stored);
CREATE MATERIALIZED VIEW varve.rollup_late USING heap AS SELECT 0::regclass AS stored, 0::bigint AS rows WHERE varve.is_refreshed();
CREATE INDEX rollup_late_stored ON varve.rollup_late USING btree (stored);
REVOKE ALL ON varve.rollup, varve.rollup_mark, varve.rollup_late FROM PUBLIC;
CREATE OR REPLACE FUNCTION varve.is_refreshed() RETURNS bool LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'wrong_object_type', MESSAGE = 'materialized views of varve cannot be refreshed',
        DETAIL = 'The library writes what is in them.';
END
$$;

CREATE FUNCTION varve.create_rollup(name text, query text) RETURNS void
AS 'MODULE_PATHNAME', 'varve_create_rollup' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION varve.create_rollup(text, text) IS
'makes a view that gives what a query grouped by time_bucket gives, and stores what is settled';

-- What the views ask. A reader of the view needs no right beyond that on the view.
CREATE FUNCTION varve.rollup_watermark(stored regclass, "like" anyelement) RETURNS anyelement
AS 'MODULE_PATHNAME', 'varve_rollup_watermark' LANGUAGE C STABLE PARALLEL RESTRICTED;
CREATE FUNCTION varve.rollup_is_live(stored regclass, start anyelement) RETURNS bool
AS 'MODULE_PATHNAME', 'varve_rollup_is_live' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED;
CREATE FUNCTION varve.rollup_live(stored regclass, "like" anyelement, OUT low anyelement, OUT high anyelement,
    OUT first anyelement, OUT last anyelement)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'varve_rollup_live_wrapper' LANGUAGE C STABLE PARALLEL RESTRICTED ROWS 2;

-- The steps of a refresh; each looks whether the caller is the rollup's owner.
CREATE FUNCTION varve.rollup_begin(stored regclass) RETURNS bigint
AS 'MODULE_PATHNAME', 'varve_rollup_begin' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
-- Is there more to do? What has been done may be committed before.
CREATE FUNCTION varve.rollup_step(stored regclass, threshold bigint) RETURNS bool
AS 'MODULE_PATHNAME', 'varve_rollup_step' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
CREATE FUNCTION varve.rollup_mark_range(stored regclass, first anyelement, last anyelement) RETURNS void
AS 'MODULE_PATHNAME', 'varve_rollup_mark_range' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
CREATE FUNCTION varve.rollup_stored(view regclass) RETURNS regclass
AS 'MODULE_PATHNAME', 'varve_rollup_stored' LANGUAGE C STRICT STABLE PARALLEL SAFE;
CREATE FUNCTION varve.rollup_source(view regclass) RETURNS regclass
AS 'MODULE_PATHNAME', 'varve_rollup_source' LANGUAGE C STRICT STABLE PARALLEL SAFE;

-- A source and its partitions. Nothing is locked, and nobody waited for.
CREATE FUNCTION varve.source_tables(source oid) RETURNS SETOF oid LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    WITH RECURSIVE tree AS (
        SELECT source AS part UNION ALL SELECT i.inhrelid FROM tree t JOIN pg_inherits i ON i.inhparent = t.part)
    SELECT part FROM tree;
END;
CREATE FUNCTION varve.rollup_writers(source oid) RETURNS text[] LANGUAGE sql VOLATILE PARALLEL RESTRICTED
RETURN ARRAY(
    SELECT virtualtransaction FROM pg_locks
    WHERE locktype = 'relation' AND relation IN (SELECT varve.source_tables(source))
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND granted AND pid <> pg_backend_pid()
    AND mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'));
CREATE FUNCTION varve.source_changes(source oid) RETURNS bigint LANGUAGE sql STABLE PARALLEL RESTRICTED
RETURN (SELECT sum(varve.changes(part))::bigint FROM varve.source_tables(source) part);

-- Transactions that may have read an older threshold are those that can write to the source, by what they hold when the new one is
-- committed. Waiting takes no lock, so nobody queues behind it; prepared transactions have marked whatever they changed.
CREATE PROCEDURE varve.refresh_rollup(name regclass, "from" anyelement, "to" anyelement)
LANGUAGE plpgsql AS $$
DECLARE
    kept pg_catalog.regclass := varve.rollup_stored(name);
BEGIN
    IF "from" IS NULL OR "to" IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'the range of a refresh has no end',
            HINT = 'Give both times, such as ''-infinity'' and ''infinity'', or none.';
    ELSIF "from" OPERATOR(pg_catalog.>) "to" THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'the range of a refresh ends before it begins',
            HINT = 'Give the earlier time first.';
    END IF;
    PERFORM varve.rollup_mark_range(kept, "from", "to");
    CALL varve.refresh_rollup(name);
END
$$;

CREATE PROCEDURE varve.refresh_rollup(name regclass)
LANGUAGE plpgsql AS $$
DECLARE
    kept pg_catalog.regclass;
    source pg_catalog.regclass;
    threshold bigint;
    writers text[];
    patience pg_catalog.timestamptz;
BEGIN
    IF name IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'no rollup named',
            HINT = 'CALL varve.refresh_rollup(''a_rollup'').';
    END IF;
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    kept := varve.rollup_stored(name);
    source := varve.rollup_source(name);
    threshold := varve.rollup_begin(kept);
    COMMIT;
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    writers := varve.rollup_writers(source);
    patience := clock_timestamp() + interval '1 minute';
    WHILE EXISTS (SELECT FROM pg_catalog.pg_locks WHERE virtualtransaction = ANY (writers) AND pid IS NOT NULL) LOOP
        IF clock_timestamp() > patience THEN
            RAISE EXCEPTION USING ERRCODE = 'lock_not_available',
                MESSAGE = 'refresh gave up waiting for transactions that write to the source of the rollup',
                DETAIL = 'What has not been stored is computed by whoever reads the rollup.',
                HINT = 'Refresh again when they have ended; pg_locks shows them.';
        END IF;
        COMMIT;
        PERFORM pg_catalog.pg_sleep(0.01);
        PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    END LOOP;
    COMMIT;
    WHILE varve.rollup_step(kept, threshold) LOOP
        COMMIT;
    END LOOP;
    COMMIT;
END
$$;
COMMENT ON PROCEDURE varve.refresh_rollup(regclass) IS
'stores what is settled of a rollup, and what has been changed since it was stored; not inside a transaction block';

CREATE FUNCTION varve.rollup_ignore_late(stored regclass, ignore bool) RETURNS void
AS 'MODULE_PATHNAME', 'varve_rollup_ignore_late' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
CREATE FUNCTION varve.alter_rollup(name regclass, ignore_late_rows bool) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE AS $$
BEGIN
    IF name IS NULL OR ignore_late_rows IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'a rollup and true or false are needed',
            HINT = 'SELECT varve.alter_rollup(''a_rollup'', ignore_late_rows => true).';
    END IF;
    PERFORM varve.rollup_ignore_late(varve.rollup_stored(name), ignore_late_rows);
END
$$;
COMMENT ON FUNCTION varve.alter_rollup(regclass, bool) IS
'says whether rows of times that retention has removed are counted, or refused';

CREATE FUNCTION varve.drop_rollup(name regclass) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF name IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'null_value_not_allowed', MESSAGE = 'no rollup named',
            HINT = 'SELECT varve.drop_rollup(''a_rollup'').';
    END IF;
    PERFORM varve.rollup_stored(name);
    EXECUTE pg_catalog.format('DROP VIEW %s', name);
END
$$;
COMMENT ON FUNCTION varve.drop_rollup(regclass) IS 'drops a rollup and what it has stored';

CREATE FUNCTION varve.rollup_remove(stored regclass) RETURNS void
AS 'MODULE_PATHNAME', 'varve_rollup_remove' LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE;
REVOKE ALL ON FUNCTION varve.rollup_remove(regclass) FROM PUBLIC;

-- A view that goes takes along what it has stored, and its entry.
CREATE FUNCTION varve.drop_what_rollups_stored() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    gone record;
BEGIN
    FOR gone IN
        SELECT r.stored, EXISTS (SELECT FROM pg_class c WHERE c.oid = r.stored) AS is_left
        FROM varve.rollup r
        WHERE EXISTS (
            SELECT FROM pg_event_trigger_dropped_objects() o
            WHERE o.classid = 'pg_class'::regclass AND o.objsubid = 0 AND o.objid IN (r.view, r.stored))
    LOOP
        PERFORM varve.rollup_remove(gone.stored);
        IF gone.is_left THEN
            EXECUTE format('DROP TABLE %s', gone.stored);
        END IF;
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION varve.drop_what_rollups_stored() FROM PUBLIC;

-- Where there are rollups, it calls that.
CREATE FUNCTION varve.after_rollup_drop() RETURNS event_trigger
AS 'MODULE_PATHNAME', 'varve_after_rollup_drop' LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
-- CASCADE takes views along with anything that they use: functions, types, operators, other extensions.
CREATE EVENT TRIGGER varve_after_rollup_drop ON sql_drop EXECUTE FUNCTION varve.after_rollup_drop();
ALTER EVENT TRIGGER varve_after_rollup_drop ENABLE ALWAYS;

-- What would make a rollup wrong is refused.
CREATE FUNCTION varve.refuse_for_rollups() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wrong record;
    -- What the statement has changed, with what inherits from it and what it inherits from. Other rollups are others' business.
    concerned oid[];
    -- Views that it has given a query, whichever.
    replaced oid[];
BEGIN
    WITH changed AS MATERIALIZED (
        SELECT coalesce(w.ev_class, c.objid) AS relation FROM pg_event_trigger_ddl_commands() c
        LEFT JOIN pg_rewrite w ON c.classid = 'pg_rewrite'::regclass AND w.oid = c.objid
        WHERE c.classid IN ('pg_class'::regclass, 'pg_rewrite'::regclass))
    SELECT array_agg(relation) INTO concerned FROM (
        SELECT part FROM changed, varve.source_tables(changed.relation) part
        UNION SELECT i.inhparent FROM changed JOIN pg_inherits i ON i.inhrelid = changed.relation) all_of_them(relation);
    FOR wrong IN
        SELECT r.view, c.oid::regclass AS source,
            CASE WHEN c.relrowsecurity AND c.oid = r.source THEN 'row-level security'
                 WHEN c.relkind <> 'p' AND c.relam <> (SELECT oid FROM pg_am WHERE amname = 'varve') THEN 'another access method'
                 WHEN c.relpersistence <> 'p' THEN 'rows that a crash takes'
                 WHEN c.relkind <> 'p' AND c.relhassubclass THEN 'tables that inherit from it'
                 WHEN NOT a.attnotnull THEN 'times that may be NULL' END AS what
        FROM varve.rollup r
        CROSS JOIN LATERAL varve.source_tables(r.source) part
        JOIN pg_class c ON c.oid = part
        JOIN pg_attribute a ON a.attrelid = r.source AND a.attnum = r.time_column
        WHERE (r.source = ANY (concerned) OR c.oid = ANY (concerned))
        AND (c.relrowsecurity AND c.oid = r.source OR NOT a.attnotnull OR c.relpersistence <> 'p'
             OR c.relkind <> 'p' AND (c.relhassubclass OR c.relam <> (SELECT oid FROM pg_am WHERE amname = 'varve')))
        ORDER BY r.stored, c.oid <> r.source, c.oid
    LOOP
        RAISE EXCEPTION USING ERRCODE = 'dependent_objects_still_exist',
            MESSAGE = format('table %s cannot have %s', wrong.source, wrong.what),
            DETAIL = format('The rollup %s is computed from it.', wrong.view),
            HINT = 'Drop the rollup with varve.drop_rollup first.';
    END LOOP;
    SELECT array_agg(coalesce(w.ev_class, c.objid)) INTO replaced FROM pg_event_trigger_ddl_commands() c
    LEFT JOIN pg_rewrite w ON c.classid = 'pg_rewrite'::regclass AND w.oid = c.objid
    WHERE c.command_tag = 'CREATE VIEW' OR w.ev_type = '1';
    -- View and stored table are the rollup's own.
    FOR wrong IN
        SELECT r.view, r.stored, own.what
        FROM varve.rollup r
        JOIN pg_class c ON c.oid = r.stored
        CROSS JOIN LATERAL (
            SELECT CASE WHEN c.relam <> (SELECT oid FROM pg_am WHERE amname = 'varve') THEN 'another access method'
                        WHEN c.relrowsecurity THEN 'row-level security'
                        WHEN c.relpersistence <> 'p' THEN 'rows that a crash takes'
                        WHEN c.relhassubclass THEN 'tables that inherit from it' END) own(what)
        WHERE (r.view = ANY (concerned) OR r.stored = ANY (concerned))
        AND (own.what IS NOT NULL OR r.view = ANY (replaced) OR (
            SELECT count(DISTINCT d.refclassid) FROM pg_rewrite w
            JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid
            WHERE w.ev_class = r.view
            AND (d.refclassid = 'pg_class'::regclass AND d.refobjid = r.stored
                 OR d.refclassid = 'pg_proc'::regclass AND d.refobjid = 'varve.rollup_live'::regproc)) < 2)
        ORDER BY r.stored
    LOOP
        RAISE EXCEPTION USING ERRCODE = 'dependent_objects_still_exist',
            MESSAGE = CASE WHEN wrong.what IS NULL THEN format('view %s cannot have another query', wrong.view)
                           ELSE format('table %s cannot have %s', wrong.stored, wrong.what) END,
            DETAIL = CASE WHEN wrong.what IS NULL THEN 'It is a rollup.'
                          ELSE format('The rollup %s is stored in it.', wrong.view) END,
            HINT = 'Drop the rollup with varve.drop_rollup, and create it with another query.';
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION varve.refuse_for_rollups() FROM PUBLIC;

-- Where there are rollups, it calls that.
CREATE FUNCTION varve.after_source_ddl() RETURNS event_trigger
AS 'MODULE_PATHNAME', 'varve_after_source_ddl' LANGUAGE C SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
CREATE EVENT TRIGGER varve_after_source_ddl ON ddl_command_end
WHEN TAG IN ('ALTER TABLE', 'CREATE TABLE', 'ALTER FOREIGN TABLE', 'CREATE FOREIGN TABLE', 'CREATE SCHEMA', 'CREATE VIEW', 'CREATE RULE')
EXECUTE FUNCTION varve.after_source_ddl();
ALTER EVENT TRIGGER varve_after_source_ddl ENABLE ALWAYS;

-- A user sees the rollups of views that they own.
CREATE VIEW varve.rollups AS
    SELECT r.view AS name, r.source, r.stored,
        CASE WHEN t.name IN ('timestamptz', 'timestamp') THEN (least(r.width_max, 9000000000000000000) * interval '1 microsecond')::text
             WHEN t.name = 'date' THEN (least(r.width_max, 2000000000) * interval '1 day')::text
             ELSE r.width_max::text END AS width,
        CASE WHEN r.watermark = -9223372036854775808 THEN '-infinity'
             WHEN t.name = 'timestamptz' THEN (t.zero + t.us * interval '1 microsecond')::text
             WHEN t.name = 'timestamp' THEN (timestamp '2000-01-01' + t.us * interval '1 microsecond')::text
             WHEN t.name = 'date' THEN (date '2000-01-01' + least(greatest(r.watermark, -2400000), 2000000000)::int)::text
             ELSE r.watermark::text END AS watermark,
        CASE WHEN r.watermark > -9223372036854775808 AND t.name = 'timestamptz'
             THEN now() - (t.zero + t.us * interval '1 microsecond') END AS lag,
        (SELECT count(*) FROM varve.rollup_mark m WHERE m.stored = r.stored) AS marked_ranges,
        (SELECT coalesce(sum(l.rows), 0)::bigint FROM varve.rollup_late l WHERE l.stored = r.stored) AS ignored_rows,
        (SELECT greatest(c.reltuples, 0)::bigint FROM pg_class c WHERE c.oid = r.stored) AS rows,
        pg_total_relation_size(r.stored) AS bytes
    FROM varve.rollup r
    JOIN pg_class v ON v.oid = r.view
    JOIN pg_attribute a ON a.attrelid = r.source AND a.attnum = r.time_column
    CROSS JOIN LATERAL (SELECT (SELECT typname FROM pg_type WHERE oid = a.atttypid) AS name,
        timestamptz '2000-01-01 00:00:00+00' AS zero, least(greatest(r.watermark, -200000000000000000), 9000000000000000000) AS us) t
    WHERE pg_has_role(v.relowner, 'USAGE');
GRANT SELECT ON varve.rollups TO PUBLIC;
COMMENT ON VIEW varve.rollups IS 'the rollups of the current user: how far they are stored, and what has to be computed again';
