-- The series index: nbtree's code and pages, entered by chunk (src/am/series_index). CREATE INDEX … USING varve means it.
CREATE FUNCTION varve.series_index_handler(internal) RETURNS index_am_handler
AS 'MODULE_PATHNAME', 'varve_series_index_handler' LANGUAGE C STRICT;
CREATE ACCESS METHOD varve_series TYPE INDEX HANDLER varve.series_index_handler;
COMMENT ON ACCESS METHOD varve_series IS 'finds rows and chunks of varve tables by series and time';

CREATE FUNCTION varve.before_ddl() RETURNS event_trigger
AS 'MODULE_PATHNAME', 'varve_before_ddl' LANGUAGE C;
CREATE EVENT TRIGGER varve_before_ddl ON ddl_command_start
WHEN TAG IN ('CREATE INDEX', 'CREATE SCHEMA', 'ALTER TABLE') EXECUTE FUNCTION varve.before_ddl();

-- Keys with a time column bring a series index along, and tables whose rows will stay uncompressed are named (src/ddl).
CREATE FUNCTION varve.after_ddl() RETURNS event_trigger
AS 'MODULE_PATHNAME', 'varve_after_ddl' LANGUAGE C;
CREATE EVENT TRIGGER varve_after_ddl ON ddl_command_end
WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'CREATE MATERIALIZED VIEW', 'ALTER TABLE', 'CREATE INDEX', 'ALTER INDEX',
             'DROP INDEX', 'CREATE SCHEMA')
EXECUTE FUNCTION varve.after_ddl();

-- Operator classes are btree's, for types whose equal values are the same bytes.
DO $$
DECLARE
    family record;
    class record;
    member record;
    parts text[];
BEGIN
    FOR family IN
        SELECT f.oid, f.opfname AS name FROM pg_opfamily f JOIN pg_am a ON a.oid = f.opfmethod
        WHERE a.amname = 'btree' AND f.opfnamespace = 'pg_catalog'::regnamespace
        AND f.opfname IN ('integer_ops', 'text_ops', 'datetime_ops', 'uuid_ops', 'bool_ops', 'oid_ops', 'char_ops', 'enum_ops',
                          'bytea_ops', 'network_ops', 'macaddr_ops', 'macaddr8_ops', 'bpchar_ops')
        ORDER BY f.opfname
    LOOP
        EXECUTE format('CREATE OPERATOR FAMILY varve.%I USING varve_series', family.name);
        FOR class IN
            SELECT c.opcname AS name, c.opcintype AS type, c.opcdefault AS is_default FROM pg_opclass c
            WHERE c.opcfamily = family.oid AND c.opcdefault ORDER BY c.opcname
        LOOP
            SELECT array_agg(format('OPERATOR %s %s', amopstrategy, amopopr::regoperator) ORDER BY amopstrategy) INTO parts
            FROM pg_amop WHERE amopfamily = family.oid AND amoplefttype = class.type AND amoprighttype = class.type;
            SELECT parts || array_agg(format('FUNCTION %s %s', amprocnum, amproc::oid::regprocedure) ORDER BY amprocnum) INTO parts
            FROM pg_amproc WHERE amprocfamily = family.oid AND amproclefttype = class.type AND amprocrighttype = class.type
            AND amprocnum <> 3;
            EXECUTE format('CREATE OPERATOR CLASS varve.%I DEFAULT FOR TYPE %s USING varve_series FAMILY varve.%I AS %s',
                           class.name, class.type::regtype, family.name, array_to_string(parts, ', '));
        END LOOP;
        FOR member IN
            SELECT format('OPERATOR %s %s', amopstrategy, amopopr::regoperator) AS part
            FROM pg_amop WHERE amopfamily = family.oid AND amoplefttype <> amoprighttype
            UNION ALL
            SELECT format('FUNCTION %s (%s, %s) %s', amprocnum, amproclefttype::regtype, amprocrighttype::regtype,
                          amproc::oid::regprocedure)
            FROM pg_amproc WHERE amprocfamily = family.oid AND amproclefttype <> amprocrighttype AND amprocnum = 1
        LOOP
            EXECUTE format('ALTER OPERATOR FAMILY varve.%I USING varve_series ADD %s', family.name, member.part);
        END LOOP;
    END LOOP;
END
$$;
