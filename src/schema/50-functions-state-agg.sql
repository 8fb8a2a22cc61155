-- state_agg: docs/reference/state_agg.md
CREATE TYPE @extschema@.state_summary AS (
    states text[], durations interval[], first_time timestamptz, last_time timestamptz, last_state text);
CREATE FUNCTION varve.state_agg_transition(internal, timestamptz, text) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_state_agg_transition' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.state_agg_combine(internal, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_state_agg_combine' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.state_agg_serialize(internal) RETURNS bytea
AS 'MODULE_PATHNAME', 'varve_state_agg_serialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION varve.state_agg_deserialize(bytea, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_state_agg_deserialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION varve.state_agg_final(internal) RETURNS @extschema@.state_summary
AS 'MODULE_PATHNAME', 'varve_state_agg_final' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE AGGREGATE @extschema@.state_agg("time" timestamptz, state text) (
    SFUNC = varve.state_agg_transition, STYPE = internal, COMBINEFUNC = varve.state_agg_combine,
    SERIALFUNC = varve.state_agg_serialize, DESERIALFUNC = varve.state_agg_deserialize, FINALFUNC = varve.state_agg_final,
    PARALLEL = SAFE);

-- How long a state lasted; with a time, as if the last state lasted until then.
CREATE FUNCTION @extschema@.duration_in(summary @extschema@.state_summary, state text, until timestamptz DEFAULT NULL) RETURNS interval
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN (summary).states IS NOT NULL AND state IS NOT NULL
            THEN coalesce((summary).durations[array_position((summary).states, state)], interval '0')
                 + CASE WHEN state = (summary).last_state AND until > (summary).last_time
                        THEN make_interval(secs => extract(epoch FROM until - (summary).last_time)::double precision)
                        ELSE interval '0' END END;
CREATE FUNCTION @extschema@.into_values(summary @extschema@.state_summary) RETURNS TABLE (state text, duration interval)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT s.state, s.duration FROM unnest((summary).states, (summary).durations) s(state, duration);
END;
