\set sensor random(1, 1000)
INSERT INTO :table VALUES (clock_timestamp(), :sensor, :sensor / 10.0);
