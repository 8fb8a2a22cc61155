-- lttb: docs/reference/lttb.md
CREATE TYPE @extschema@.lttb_point AS ("time" timestamptz, value double precision);
CREATE FUNCTION varve.lttb_transition(internal, timestamptz, double precision, integer) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_lttb_transition' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.lttb_final(internal) RETURNS @extschema@.lttb_point[]
AS 'MODULE_PATHNAME', 'varve_lttb_final' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE AGGREGATE @extschema@.lttb("time" timestamptz, value double precision, points integer) (
    SFUNC = varve.lttb_transition, STYPE = internal, COMBINEFUNC = varve.points_combine, SERIALFUNC = varve.points_serialize,
    DESERIALFUNC = varve.points_deserialize, FINALFUNC = varve.lttb_final, PARALLEL = SAFE);
