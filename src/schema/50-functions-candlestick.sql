-- candlestick: docs/reference/candlestick.md
CREATE TYPE @extschema@.candlestick AS (
    open_time timestamptz, open double precision, high_time timestamptz, high double precision, low_time timestamptz,
    low double precision, close_time timestamptz, close double precision, volume double precision, vwap double precision);
CREATE FUNCTION varve.candlestick_transition(internal, timestamptz, double precision) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_candlestick_transition' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.candlestick_transition(internal, timestamptz, double precision, double precision) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_candlestick_transition' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.candlestick_combine(internal, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_candlestick_combine' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.candlestick_serialize(internal) RETURNS bytea
AS 'MODULE_PATHNAME', 'varve_candlestick_serialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION varve.candlestick_deserialize(bytea, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_candlestick_deserialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION varve.candlestick_final(internal) RETURNS @extschema@.candlestick
AS 'MODULE_PATHNAME', 'varve_candlestick_final' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE AGGREGATE @extschema@.candlestick("time" timestamptz, price double precision) (
    SFUNC = varve.candlestick_transition, STYPE = internal, COMBINEFUNC = varve.candlestick_combine,
    SERIALFUNC = varve.candlestick_serialize, DESERIALFUNC = varve.candlestick_deserialize, FINALFUNC = varve.candlestick_final,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.candlestick("time" timestamptz, price double precision, volume double precision) (
    SFUNC = varve.candlestick_transition, STYPE = internal, COMBINEFUNC = varve.candlestick_combine,
    SERIALFUNC = varve.candlestick_serialize, DESERIALFUNC = varve.candlestick_deserialize, FINALFUNC = varve.candlestick_final,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.candlestick_agg("time" timestamptz, price double precision, volume double precision) (
    SFUNC = varve.candlestick_transition, STYPE = internal, COMBINEFUNC = varve.candlestick_combine,
    SERIALFUNC = varve.candlestick_serialize, DESERIALFUNC = varve.candlestick_deserialize, FINALFUNC = varve.candlestick_final,
    PARALLEL = SAFE);

CREATE FUNCTION @extschema@.open(candlestick @extschema@.candlestick) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (candlestick).open;
CREATE FUNCTION @extschema@.high(candlestick @extschema@.candlestick) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (candlestick).high;
CREATE FUNCTION @extschema@.low(candlestick @extschema@.candlestick) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (candlestick).low;
CREATE FUNCTION @extschema@.close(candlestick @extschema@.candlestick) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (candlestick).close;
CREATE FUNCTION @extschema@.volume(candlestick @extschema@.candlestick) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (candlestick).volume;
CREATE FUNCTION @extschema@.vwap(candlestick @extschema@.candlestick) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (candlestick).vwap;
CREATE FUNCTION @extschema@.open_time(candlestick @extschema@.candlestick) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (candlestick).open_time;
CREATE FUNCTION @extschema@.high_time(candlestick @extschema@.candlestick) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (candlestick).high_time;
CREATE FUNCTION @extschema@.low_time(candlestick @extschema@.candlestick) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (candlestick).low_time;
CREATE FUNCTION @extschema@.close_time(candlestick @extschema@.candlestick) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (candlestick).close_time;

-- Candlesticks of stretches of time become one.
CREATE FUNCTION varve.candlestick_rollup(@extschema@.candlestick[]) RETURNS @extschema@.candlestick LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT ROW(min(c.open_time), (array_agg(c.open ORDER BY c.open_time))[1],
               (array_agg(c.high_time ORDER BY c.high DESC, c.high_time))[1], max(c.high),
               (array_agg(c.low_time ORDER BY c.low, c.low_time))[1], min(c.low),
               max(c.close_time), (array_agg(c.close ORDER BY c.close_time DESC))[1],
               sum(c.volume), sum(c.vwap * c.volume) / nullif(sum(c.volume) FILTER (WHERE c.vwap IS NOT NULL), 0))::@extschema@.candlestick
    FROM unnest($1) c WHERE c.open_time IS NOT NULL
    HAVING count(*) > 0;
END;
CREATE AGGREGATE @extschema@.rollup(candlestick @extschema@.candlestick) (
    SFUNC = array_append, STYPE = @extschema@.candlestick[], COMBINEFUNC = array_cat, FINALFUNC = varve.candlestick_rollup,
    PARALLEL = SAFE);
