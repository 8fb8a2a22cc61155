-- first, last: docs/reference/first_last.md
CREATE FUNCTION varve.first_transition(internal, anyelement, "any") RETURNS internal
AS 'MODULE_PATHNAME', 'varve_first_transition' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.last_transition(internal, anyelement, "any") RETURNS internal
AS 'MODULE_PATHNAME', 'varve_last_transition' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.first_combine(internal, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_first_combine' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.last_combine(internal, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_last_combine' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.first_last_serialize(internal) RETURNS bytea
AS 'MODULE_PATHNAME', 'varve_first_last_serialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION varve.first_last_deserialize(bytea, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_first_last_deserialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION varve.first_last_final(internal, anyelement, "any") RETURNS anyelement
AS 'MODULE_PATHNAME', 'varve_first_last_final' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE AGGREGATE @extschema@.first(value anyelement, "time" "any") (
    SFUNC = varve.first_transition, STYPE = internal, COMBINEFUNC = varve.first_combine,
    SERIALFUNC = varve.first_last_serialize, DESERIALFUNC = varve.first_last_deserialize,
    FINALFUNC = varve.first_last_final, FINALFUNC_EXTRA, PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.last(value anyelement, "time" "any") (
    SFUNC = varve.last_transition, STYPE = internal, COMBINEFUNC = varve.last_combine,
    SERIALFUNC = varve.first_last_serialize, DESERIALFUNC = varve.first_last_deserialize,
    FINALFUNC = varve.first_last_final, FINALFUNC_EXTRA, PARALLEL = SAFE);
