\set sensor random(1, 1000)
\set second random(0, 599)
INSERT INTO :table VALUES ('2026-01-01'::timestamptz + :second * interval '1 s', :sensor, :second / 10.0)
ON CONFLICT (sensor, time) DO UPDATE SET value = EXCLUDED.value;
