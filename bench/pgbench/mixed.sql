\set what random(1, 10)
\set sensor random(0, 124) * 8 + 1 + :client_id % 8
\if :what <= 6
INSERT INTO :table VALUES (clock_timestamp(), :sensor, :sensor / 10.0);
\elif :what <= 8
INSERT INTO :table VALUES (date_trunc('second', clock_timestamp()), :sensor, :sensor / 10.0)
ON CONFLICT (sensor, time) DO UPDATE SET value = EXCLUDED.value;
\else
SELECT time, value FROM :table WHERE sensor = :sensor ORDER BY time DESC LIMIT 1;
\endif
