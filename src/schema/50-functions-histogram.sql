-- histogram: docs/reference/histogram.md
CREATE FUNCTION varve.histogram_transition(internal, double precision, double precision, double precision, integer) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_histogram_transition' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.histogram_combine(internal, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_histogram_combine' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.histogram_serialize(internal) RETURNS bytea
AS 'MODULE_PATHNAME', 'varve_histogram_serialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION varve.histogram_deserialize(bytea, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_histogram_deserialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION varve.histogram_final(internal) RETURNS integer[]
AS 'MODULE_PATHNAME', 'varve_histogram_final' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE AGGREGATE @extschema@.histogram(value double precision, min double precision, max double precision, nbuckets integer) (
    SFUNC = varve.histogram_transition, STYPE = internal, COMBINEFUNC = varve.histogram_combine,
    SERIALFUNC = varve.histogram_serialize, DESERIALFUNC = varve.histogram_deserialize,
    FINALFUNC = varve.histogram_final, PARALLEL = SAFE);
