-- What all time functions use. A planner support function that loads the library before the planner's hooks are due.
CREATE FUNCTION varve.time_bucket_support(internal) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_time_bucket_support' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- States of (time, number) pairs.
CREATE FUNCTION varve.points_transition(internal, double precision, timestamptz) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_points_transition' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.points_transition(internal, double precision, timestamptz, timestamptz, timestamptz) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_points_range_transition' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.points_transition(internal, double precision, timestamp) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_points_transition' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.points_transition(internal, double precision, timestamp, timestamp, timestamp) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_points_range_transition' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.points_combine(internal, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_points_combine' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION varve.points_serialize(internal) RETURNS bytea
AS 'MODULE_PATHNAME', 'varve_points_serialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION varve.points_deserialize(bytea, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_points_deserialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
