-- time_bucket_gapfill, locf, interpolate: docs/reference/gapfill.md
-- STABLE, so that they are not folded into constants before the planner hook has seen them.
CREATE FUNCTION @extschema@.time_bucket_gapfill(bucket_width smallint, ts smallint, start smallint DEFAULT NULL, finish smallint DEFAULT NULL) RETURNS smallint
AS 'MODULE_PATHNAME', 'varve_gapfill_int2' LANGUAGE C STABLE PARALLEL SAFE SUPPORT varve.time_bucket_support;
CREATE FUNCTION @extschema@.time_bucket_gapfill(bucket_width integer, ts integer, start integer DEFAULT NULL, finish integer DEFAULT NULL) RETURNS integer
AS 'MODULE_PATHNAME', 'varve_gapfill_int4' LANGUAGE C STABLE PARALLEL SAFE SUPPORT varve.time_bucket_support;
CREATE FUNCTION @extschema@.time_bucket_gapfill(bucket_width bigint, ts bigint, start bigint DEFAULT NULL, finish bigint DEFAULT NULL) RETURNS bigint
AS 'MODULE_PATHNAME', 'varve_gapfill_int8' LANGUAGE C STABLE PARALLEL SAFE SUPPORT varve.time_bucket_support;
CREATE FUNCTION @extschema@.time_bucket_gapfill(bucket_width interval, ts date, start date DEFAULT NULL, finish date DEFAULT NULL) RETURNS date
AS 'MODULE_PATHNAME', 'varve_gapfill_date' LANGUAGE C STABLE PARALLEL SAFE SUPPORT varve.time_bucket_support;
CREATE FUNCTION @extschema@.time_bucket_gapfill(bucket_width interval, ts timestamp, start timestamp DEFAULT NULL, finish timestamp DEFAULT NULL) RETURNS timestamp
AS 'MODULE_PATHNAME', 'varve_gapfill_time' LANGUAGE C STABLE PARALLEL SAFE SUPPORT varve.time_bucket_support;
CREATE FUNCTION @extschema@.time_bucket_gapfill(bucket_width interval, ts timestamptz, start timestamptz DEFAULT NULL, finish timestamptz DEFAULT NULL) RETURNS timestamptz
AS 'MODULE_PATHNAME', 'varve_gapfill_time' LANGUAGE C STABLE PARALLEL SAFE SUPPORT varve.time_bucket_support;
CREATE FUNCTION @extschema@.time_bucket_gapfill(bucket_width interval, ts timestamptz, timezone text, start timestamptz DEFAULT NULL, finish timestamptz DEFAULT NULL) RETURNS timestamptz
AS 'MODULE_PATHNAME', 'varve_gapfill_zone' LANGUAGE C STABLE PARALLEL SAFE SUPPORT varve.time_bucket_support;

CREATE FUNCTION @extschema@.locf(value anyelement, prev anyelement DEFAULT NULL, treat_null_as_missing boolean DEFAULT false) RETURNS anyelement
AS 'MODULE_PATHNAME', 'varve_locf' LANGUAGE C STABLE PARALLEL SAFE SUPPORT varve.time_bucket_support;

CREATE FUNCTION @extschema@.interpolate(value smallint, prev record DEFAULT NULL, next record DEFAULT NULL) RETURNS smallint
AS 'MODULE_PATHNAME', 'varve_interpolate' LANGUAGE C STABLE PARALLEL SAFE SUPPORT varve.time_bucket_support;
CREATE FUNCTION @extschema@.interpolate(value integer, prev record DEFAULT NULL, next record DEFAULT NULL) RETURNS integer
AS 'MODULE_PATHNAME', 'varve_interpolate' LANGUAGE C STABLE PARALLEL SAFE SUPPORT varve.time_bucket_support;
CREATE FUNCTION @extschema@.interpolate(value bigint, prev record DEFAULT NULL, next record DEFAULT NULL) RETURNS bigint
AS 'MODULE_PATHNAME', 'varve_interpolate' LANGUAGE C STABLE PARALLEL SAFE SUPPORT varve.time_bucket_support;
CREATE FUNCTION @extschema@.interpolate(value real, prev record DEFAULT NULL, next record DEFAULT NULL) RETURNS real
AS 'MODULE_PATHNAME', 'varve_interpolate' LANGUAGE C STABLE PARALLEL SAFE SUPPORT varve.time_bucket_support;
CREATE FUNCTION @extschema@.interpolate(value double precision, prev record DEFAULT NULL, next record DEFAULT NULL) RETURNS double precision
AS 'MODULE_PATHNAME', 'varve_interpolate' LANGUAGE C STABLE PARALLEL SAFE SUPPORT varve.time_bucket_support;
