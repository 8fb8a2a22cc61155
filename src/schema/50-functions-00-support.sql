-- What all time functions use. A planner support function that loads the library before the planner's hooks are due.
CREATE FUNCTION varve.time_bucket_support(internal) RETURNS internal
AS 'MODULE_PATHNAME', 'varve_time_bucket_support' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
