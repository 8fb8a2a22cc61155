-- time_weight: docs/reference/time_weight.md
CREATE TYPE @extschema@.time_weight_summary AS (
    method text, first_time timestamptz, first_value double precision, last_time timestamptz, last_value double precision,
    integral double precision);
CREATE FUNCTION varve.time_weight_transition(internal, text, timestamptz, double precision) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_time_weight_transition' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.time_weight_final(internal) RETURNS @extschema@.time_weight_summary
AS 'MODULE_PATHNAME', 'varve_time_weight_final' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE AGGREGATE @extschema@.time_weight(method text, "time" timestamptz, value double precision) (
    SFUNC = varve.time_weight_transition, STYPE = internal, COMBINEFUNC = varve.points_combine, SERIALFUNC = varve.points_serialize,
    DESERIALFUNC = varve.points_deserialize, FINALFUNC = varve.time_weight_final, PARALLEL = SAFE);

CREATE FUNCTION @extschema@.average(summary @extschema@.time_weight_summary) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN (summary).last_time > (summary).first_time
            THEN (summary).integral / extract(epoch FROM (summary).last_time - (summary).first_time)::double precision
            ELSE (summary).first_value END;
CREATE FUNCTION @extschema@.integral(summary @extschema@.time_weight_summary, unit text DEFAULT 'second') RETURNS double precision
LANGUAGE sql STABLE PARALLEL SAFE
RETURN (summary).integral / extract(epoch FROM ('1 ' || unit)::interval)::double precision;

-- Summaries of stretches that do not overlap become one.
CREATE FUNCTION varve.time_weight_rollup(@extschema@.time_weight_summary[]) RETURNS @extschema@.time_weight_summary
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT ROW(min(s.method), min(s.first_time), (array_agg(s.first_value ORDER BY s.first_time))[1],
               max(s.last_time), (array_agg(s.last_value ORDER BY s.last_time DESC))[1],
               sum(s.integral + coalesce(s.gap, 0)))::@extschema@.time_weight_summary
    FROM (SELECT p.*, (CASE WHEN p.method = 'LOCF' THEN p.last_value ELSE (p.last_value + lead(p.first_value) OVER w) / 2 END)
                 * extract(epoch FROM lead(p.first_time) OVER w - p.last_time)::double precision AS gap
          FROM unnest($1) p WHERE p.first_time IS NOT NULL WINDOW w AS (ORDER BY p.first_time)) s
    HAVING count(*) > 0;
END;
CREATE AGGREGATE @extschema@.rollup(summary @extschema@.time_weight_summary) (
    SFUNC = array_append, STYPE = @extschema@.time_weight_summary[], COMBINEFUNC = array_cat, FINALFUNC = varve.time_weight_rollup,
    PARALLEL = SAFE);
