\set sensor random(1, 1000)
SELECT time, value FROM :table WHERE sensor = :sensor ORDER BY time DESC LIMIT 1;
