\set sensor random(0, 124) * 8 + 1 + :client_id % 8
INSERT INTO :table VALUES (clock_timestamp(), :sensor, :sensor / 10.0);
