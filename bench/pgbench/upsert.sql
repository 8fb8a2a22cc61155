\set sensor random(1, 1000)
INSERT INTO :table VALUES (date_trunc('second', clock_timestamp()), :sensor, :sensor / 10.0)
ON CONFLICT (sensor, time) DO UPDATE SET value = EXCLUDED.value;
