-- rate, increase, delta, irate, resets: docs/reference/counter.md
CREATE FUNCTION varve.rate_final(internal) RETURNS double precision
AS 'MODULE_PATHNAME', 'varve_rate_final' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.increase_final(internal) RETURNS double precision
AS 'MODULE_PATHNAME', 'varve_increase_final' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.delta_final(internal) RETURNS double precision
AS 'MODULE_PATHNAME', 'varve_delta_final' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.irate_final(internal) RETURNS double precision
AS 'MODULE_PATHNAME', 'varve_irate_final' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.resets_final(internal) RETURNS bigint
AS 'MODULE_PATHNAME', 'varve_resets_final' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE AGGREGATE @extschema@.rate(value double precision, "time" timestamptz) (
    SFUNC = varve.points_transition, STYPE = internal, COMBINEFUNC = varve.points_combine, SERIALFUNC = varve.points_serialize,
    DESERIALFUNC = varve.points_deserialize, FINALFUNC = varve.rate_final, PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.rate(value double precision, "time" timestamptz, range_start timestamptz, range_end timestamptz) (
    SFUNC = varve.points_transition, STYPE = internal, COMBINEFUNC = varve.points_combine, SERIALFUNC = varve.points_serialize,
    DESERIALFUNC = varve.points_deserialize, FINALFUNC = varve.rate_final, PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.rate(value double precision, "time" timestamp) (
    SFUNC = varve.points_transition, STYPE = internal, COMBINEFUNC = varve.points_combine, SERIALFUNC = varve.points_serialize,
    DESERIALFUNC = varve.points_deserialize, FINALFUNC = varve.rate_final, PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.rate(value double precision, "time" timestamp, range_start timestamp, range_end timestamp) (
    SFUNC = varve.points_transition, STYPE = internal, COMBINEFUNC = varve.points_combine, SERIALFUNC = varve.points_serialize,
    DESERIALFUNC = varve.points_deserialize, FINALFUNC = varve.rate_final, PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.increase(value double precision, "time" timestamptz) (
    SFUNC = varve.points_transition, STYPE = internal, COMBINEFUNC = varve.points_combine, SERIALFUNC = varve.points_serialize,
    DESERIALFUNC = varve.points_deserialize, FINALFUNC = varve.increase_final, PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.increase(value double precision, "time" timestamptz, range_start timestamptz, range_end timestamptz) (
    SFUNC = varve.points_transition, STYPE = internal, COMBINEFUNC = varve.points_combine, SERIALFUNC = varve.points_serialize,
    DESERIALFUNC = varve.points_deserialize, FINALFUNC = varve.increase_final, PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.increase(value double precision, "time" timestamp) (
    SFUNC = varve.points_transition, STYPE = internal, COMBINEFUNC = varve.points_combine, SERIALFUNC = varve.points_serialize,
    DESERIALFUNC = varve.points_deserialize, FINALFUNC = varve.increase_final, PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.increase(value double precision, "time" timestamp, range_start timestamp, range_end timestamp) (
    SFUNC = varve.points_transition, STYPE = internal, COMBINEFUNC = varve.points_combine, SERIALFUNC = varve.points_serialize,
    DESERIALFUNC = varve.points_deserialize, FINALFUNC = varve.increase_final, PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.delta(value double precision, "time" timestamptz) (
    SFUNC = varve.points_transition, STYPE = internal, COMBINEFUNC = varve.points_combine, SERIALFUNC = varve.points_serialize,
    DESERIALFUNC = varve.points_deserialize, FINALFUNC = varve.delta_final, PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.delta(value double precision, "time" timestamptz, range_start timestamptz, range_end timestamptz) (
    SFUNC = varve.points_transition, STYPE = internal, COMBINEFUNC = varve.points_combine, SERIALFUNC = varve.points_serialize,
    DESERIALFUNC = varve.points_deserialize, FINALFUNC = varve.delta_final, PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.delta(value double precision, "time" timestamp) (
    SFUNC = varve.points_transition, STYPE = internal, COMBINEFUNC = varve.points_combine, SERIALFUNC = varve.points_serialize,
    DESERIALFUNC = varve.points_deserialize, FINALFUNC = varve.delta_final, PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.delta(value double precision, "time" timestamp, range_start timestamp, range_end timestamp) (
    SFUNC = varve.points_transition, STYPE = internal, COMBINEFUNC = varve.points_combine, SERIALFUNC = varve.points_serialize,
    DESERIALFUNC = varve.points_deserialize, FINALFUNC = varve.delta_final, PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.irate(value double precision, "time" timestamptz) (
    SFUNC = varve.points_transition, STYPE = internal, COMBINEFUNC = varve.points_combine, SERIALFUNC = varve.points_serialize,
    DESERIALFUNC = varve.points_deserialize, FINALFUNC = varve.irate_final, PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.irate(value double precision, "time" timestamp) (
    SFUNC = varve.points_transition, STYPE = internal, COMBINEFUNC = varve.points_combine, SERIALFUNC = varve.points_serialize,
    DESERIALFUNC = varve.points_deserialize, FINALFUNC = varve.irate_final, PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.resets(value double precision, "time" timestamptz) (
    SFUNC = varve.points_transition, STYPE = internal, COMBINEFUNC = varve.points_combine, SERIALFUNC = varve.points_serialize,
    DESERIALFUNC = varve.points_deserialize, FINALFUNC = varve.resets_final, PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.resets(value double precision, "time" timestamp) (
    SFUNC = varve.points_transition, STYPE = internal, COMBINEFUNC = varve.points_combine, SERIALFUNC = varve.points_serialize,
    DESERIALFUNC = varve.points_deserialize, FINALFUNC = varve.resets_final, PARALLEL = SAFE);
