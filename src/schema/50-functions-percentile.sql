-- percentile_agg, approx_percentile: docs/reference/percentile.md
CREATE DOMAIN @extschema@.percentile_sketch AS bytea;
CREATE FUNCTION varve.percentile_transition(internal, double precision) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_percentile_transition' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.percentile_rollup_transition(internal, @extschema@.percentile_sketch) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_percentile_rollup_transition' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.percentile_combine(internal, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_percentile_combine' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.percentile_serialize(internal) RETURNS bytea
AS 'MODULE_PATHNAME', 'varve_percentile_bytes' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION varve.percentile_deserialize(bytea, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_percentile_deserialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION varve.percentile_final(internal) RETURNS @extschema@.percentile_sketch
AS 'MODULE_PATHNAME', 'varve_percentile_bytes' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE AGGREGATE @extschema@.percentile_agg(value double precision) (
    SFUNC = varve.percentile_transition, STYPE = internal, COMBINEFUNC = varve.percentile_combine,
    SERIALFUNC = varve.percentile_serialize, DESERIALFUNC = varve.percentile_deserialize, FINALFUNC = varve.percentile_final,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.rollup(sketch @extschema@.percentile_sketch) (
    SFUNC = varve.percentile_rollup_transition, STYPE = internal, COMBINEFUNC = varve.percentile_combine,
    SERIALFUNC = varve.percentile_serialize, DESERIALFUNC = varve.percentile_deserialize, FINALFUNC = varve.percentile_final,
    PARALLEL = SAFE);
CREATE FUNCTION @extschema@.approx_percentile(percentile double precision, sketch @extschema@.percentile_sketch) RETURNS double precision
AS 'MODULE_PATHNAME', 'varve_approx_percentile' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION @extschema@.num_vals(sketch @extschema@.percentile_sketch) RETURNS bigint
AS 'MODULE_PATHNAME', 'varve_percentile_count' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
