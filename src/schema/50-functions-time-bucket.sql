-- time_bucket: docs/reference/time_bucket.md
CREATE FUNCTION @extschema@.time_bucket(bucket_width interval, ts timestamptz) RETURNS timestamptz
AS 'MODULE_PATHNAME', 'varve_time_bucket' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT varve.time_bucket_support;
CREATE FUNCTION @extschema@.time_bucket(bucket_width interval, ts timestamptz, origin timestamptz) RETURNS timestamptz
AS 'MODULE_PATHNAME', 'varve_time_bucket_origin' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT varve.time_bucket_support;
CREATE FUNCTION @extschema@.time_bucket(bucket_width interval, ts timestamptz, "offset" interval) RETURNS timestamptz
AS 'MODULE_PATHNAME', 'varve_time_bucket_offset' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT varve.time_bucket_support;
CREATE FUNCTION @extschema@.time_bucket(bucket_width interval, ts timestamptz, timezone text,
                                        origin timestamptz DEFAULT NULL, "offset" interval DEFAULT NULL) RETURNS timestamptz
AS 'MODULE_PATHNAME', 'varve_time_bucket_zone' LANGUAGE C IMMUTABLE PARALLEL SAFE SUPPORT varve.time_bucket_support;

CREATE FUNCTION @extschema@.time_bucket(bucket_width interval, ts timestamp) RETURNS timestamp
AS 'MODULE_PATHNAME', 'varve_time_bucket' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT varve.time_bucket_support;
CREATE FUNCTION @extschema@.time_bucket(bucket_width interval, ts timestamp, origin timestamp) RETURNS timestamp
AS 'MODULE_PATHNAME', 'varve_time_bucket_origin' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT varve.time_bucket_support;
CREATE FUNCTION @extschema@.time_bucket(bucket_width interval, ts timestamp, "offset" interval) RETURNS timestamp
AS 'MODULE_PATHNAME', 'varve_time_bucket_offset' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT varve.time_bucket_support;

CREATE FUNCTION @extschema@.time_bucket(bucket_width interval, ts date) RETURNS date
AS 'MODULE_PATHNAME', 'varve_time_bucket_date' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT varve.time_bucket_support;
CREATE FUNCTION @extschema@.time_bucket(bucket_width interval, ts date, origin date) RETURNS date
AS 'MODULE_PATHNAME', 'varve_time_bucket_date' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT varve.time_bucket_support;
CREATE FUNCTION @extschema@.time_bucket(bucket_width interval, ts date, "offset" interval) RETURNS date
AS 'MODULE_PATHNAME', 'varve_time_bucket_date_offset' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT varve.time_bucket_support;

CREATE FUNCTION @extschema@.time_bucket(bucket_width smallint, ts smallint) RETURNS smallint
AS 'MODULE_PATHNAME', 'varve_time_bucket_int2' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT varve.time_bucket_support;
CREATE FUNCTION @extschema@.time_bucket(bucket_width smallint, ts smallint, "offset" smallint) RETURNS smallint
AS 'MODULE_PATHNAME', 'varve_time_bucket_int2' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT varve.time_bucket_support;
CREATE FUNCTION @extschema@.time_bucket(bucket_width integer, ts integer) RETURNS integer
AS 'MODULE_PATHNAME', 'varve_time_bucket_int4' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT varve.time_bucket_support;
CREATE FUNCTION @extschema@.time_bucket(bucket_width integer, ts integer, "offset" integer) RETURNS integer
AS 'MODULE_PATHNAME', 'varve_time_bucket_int4' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT varve.time_bucket_support;
CREATE FUNCTION @extschema@.time_bucket(bucket_width bigint, ts bigint) RETURNS bigint
AS 'MODULE_PATHNAME', 'varve_time_bucket_int8' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT varve.time_bucket_support;
CREATE FUNCTION @extschema@.time_bucket(bucket_width bigint, ts bigint, "offset" bigint) RETURNS bigint
AS 'MODULE_PATHNAME', 'varve_time_bucket_int8' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE SUPPORT varve.time_bucket_support;
