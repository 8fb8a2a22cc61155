-- time_bucket: what holds for any time, declarations, and errors. The examples of the reference are in functions_reference.
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';

-- Times of the years 1 to 9999, and widths; reproducible.
CREATE TEMPORARY TABLE times AS
SELECT timestamptz '0001-01-01 00:00+00' + ((n::numeric * 7046029254386353131) % 315537897599999999) * interval '1 microsecond' AS t
FROM generate_series(1, 3000) n;
CREATE TEMPORARY TABLE widths (w interval);
INSERT INTO widths VALUES ('1 microsecond'), ('7 microseconds'), ('20 milliseconds'), ('1 second'), ('13 seconds'), ('5 minutes'),
    ('7 minutes'), ('1 hour'), ('5 hours'), ('1 day'), ('36 hours'), ('1 week'), ('10 days'), ('365 days'), ('10000 days');

-- bucket <= t < bucket + width, idempotence, equality with date_bin, the offset and origin forms agree.
SELECT count(*) AS cases,
       count(*) FILTER (WHERE NOT (b <= t AND t < b + w)) AS outside,
       count(*) FILTER (WHERE time_bucket(w, b) <> b) AS not_idempotent,
       count(*) FILTER (WHERE b <> date_bin(w, t, '2000-01-03 00:00+00')) AS unlike_date_bin,
       count(*) FILTER (WHERE time_bucket(w, t, timestamptz '2001-02-03 04:05:06.789+00')
                           <> date_bin(w, t, '2001-02-03 04:05:06.789+00')) AS unlike_date_bin_with_origin,
       count(*) FILTER (WHERE time_bucket(w, t, interval '01:02:03') <> time_bucket(w, t, timestamptz '2000-01-03 01:02:03+00'))
           AS offset_unlike_origin,
       count(*) FILTER (WHERE time_bucket(w, t, 'UTC') <> b) AS unlike_utc,
       count(*) FILTER (WHERE time_bucket(w, t AT TIME ZONE 'UTC') <> b AT TIME ZONE 'UTC') AS timestamp_differs
FROM times, widths, time_bucket(w, t) b;

-- Months and years, against date_trunc; dates against timestamps.
SELECT count(*) FILTER (WHERE time_bucket('1 month', t) <> date_trunc('month', t, 'UTC')) AS month,
       count(*) FILTER (WHERE time_bucket('3 months', t) <> date_trunc('quarter', t, 'UTC')) AS quarter,
       count(*) FILTER (WHERE time_bucket('1 year', t) <> date_trunc('year', t, 'UTC')) AS year,
       count(*) FILTER (WHERE time_bucket('1 week', t) <> date_trunc('week', t, 'UTC')) AS week,
       count(*) FILTER (WHERE time_bucket('10 days', t::date) <> time_bucket('10 days', date_trunc('day', t, 'UTC'))::date) AS date_days,
       count(*) FILTER (WHERE time_bucket('7 months', t::date) <> time_bucket('7 months', t)::date) AS date_months,
       count(*) FILTER (WHERE time_bucket('7 months', t) > t OR time_bucket('7 months', t) + interval '7 months' <= t) AS outside
FROM times;

-- Integers, against floor().
SELECT count(*) AS cases,
       count(*) FILTER (WHERE time_bucket(w, v) <> floor(v::numeric / w) * w) AS bigint,
       count(*) FILTER (WHERE time_bucket(w, v, o) <> floor((v - o)::numeric / w) * w + o) AS bigint_with_offset,
       count(*) FILTER (WHERE time_bucket(w::int, (v % 1000000)::int) <> floor((v % 1000000)::numeric / w) * w) AS integer,
       count(*) FILTER (WHERE time_bucket(w::smallint, (v % 10000)::smallint) <> floor((v % 10000)::numeric / w) * w) AS smallint
FROM (SELECT (1 + n % 997)::bigint AS w,
             (n::numeric * 6364136223846793005 % 9007199254740881)::bigint * (1 - n % 2 * 2) AS v,
             (n % 77 - 30)::bigint AS o
      FROM generate_series(1, 3000) n) d;

-- Ten zones, every ten minutes of the days around each change of the clock from 2006 to 2012, among them
-- Apia's lost day; St. John's puts its clock back at one minute past midnight, over a boundary.
CREATE TEMPORARY TABLE zones (zone text);
INSERT INTO zones VALUES ('Europe/Berlin'), ('America/New_York'), ('America/Sao_Paulo'), ('America/Havana'), ('Asia/Tehran'),
    ('Asia/Kolkata'), ('Australia/Lord_Howe'), ('Pacific/Apia'), ('Africa/Casablanca'), ('America/St_Johns');
CREATE TEMPORARY TABLE zone_times AS
WITH hours AS (
    SELECT zone, h, (h AT TIME ZONE zone) - (h AT TIME ZONE 'UTC') AS shift
    FROM zones, generate_series(timestamptz '2006-01-01 00:00+00', '2012-12-31 00:00+00', interval '12 hours') h),
changes AS (SELECT zone, h FROM (SELECT *, lag(shift) OVER (PARTITION BY zone ORDER BY h) AS before FROM hours) s WHERE before <> shift)
SELECT DISTINCT zone, t FROM changes, generate_series(h - interval '48 hours', h + interval '48 hours', interval '10 minutes') t;
CREATE TEMPORARY TABLE zone_widths (w interval);
INSERT INTO zone_widths VALUES ('10 minutes'), ('15 minutes'), ('30 minutes'), ('1 hour'), ('2 hours'), ('6 hours'), ('1 day'),
    ('1 week'), ('1 month'), ('1 year');
SELECT w, count(*) > 40000 AS enough,
       count(*) FILTER (WHERE b > t) AS after_t,
       count(*) FILTER (WHERE t >= b + w + interval '25 hours' + CASE WHEN w >= '1 month' THEN interval '3 days' ELSE '0' END) AS too_early,
       count(*) FILTER (WHERE time_bucket(w, b, zone) <> b) AS not_idempotent,
       count(*) FILTER (WHERE b < before AND zone <> 'America/St_Johns') AS not_monotone
FROM (SELECT *, lag(b) OVER (PARTITION BY zone, w ORDER BY t) AS before
      FROM (SELECT zone, t, w, time_bucket(w, t, zone) AS b FROM zone_times, zone_widths) buckets) s
GROUP BY w ORDER BY w;
-- A local date, and a local week, is one bucket.
SELECT w, count(*) AS local_dates_in_two_buckets
FROM (SELECT w, zone, date_bin(w, t AT TIME ZONE zone, '2000-01-03'), count(DISTINCT time_bucket(w, t, zone))
      FROM zone_times, (VALUES (interval '1 day'), ('1 week')) v(w) GROUP BY 1, 2, 3 HAVING count(DISTINCT time_bucket(w, t, zone)) > 1) s
GROUP BY w;
-- date_trunc takes the later one of two midnights.
SELECT zone, count(*) AS unlike_date_trunc
FROM zone_times WHERE time_bucket('1 day', t, zone) <> date_trunc('day', t, zone)
GROUP BY zone ORDER BY zone;
-- A zone that changes from row to row, abbreviations and offsets.
SELECT zone, time_bucket('1 day', timestamptz '2024-07-01 22:30+00', zone)
FROM (VALUES ('Europe/Berlin'), ('America/New_York'), ('EST'), ('MSK'), ('+02:00'), ('Europe/Berlin')) z(zone);

-- Nothing depends on the session's time zone.
SET timezone = 'America/New_York';
SELECT time_bucket('1 day', timestamptz '2020-03-09 12:00+00', interval '1 month 1 day') AT TIME ZONE 'UTC' AS utc;
RESET timezone;
SET timezone = 'UTC';

-- Declarations.
SELECT provolatile, proparallel, proisstrict, count(*) FROM pg_proc WHERE proname = 'time_bucket' GROUP BY 1, 2, 3 ORDER BY 3;

-- Errors.
SELECT time_bucket('0 seconds', timestamptz '2020-01-01+00');
SELECT time_bucket('1 month 1 day', timestamptz '2020-01-01+00');
SELECT time_bucket('1 hour', date '2020-01-01');
SELECT time_bucket('0 days', date '2020-01-01');
SELECT time_bucket('1 day', timestamptz '2020-01-01+00', 'infinity'::timestamptz);
SELECT time_bucket('1 day', timestamptz '2020-01-01+00', 'Mars/Olympus');
SELECT time_bucket('10000 days', timestamptz '4714-11-24 00:00+00 BC');
SELECT time_bucket(0, 1);
SELECT time_bucket(10, -2147483648);
SELECT time_bucket('300.000s', 1::bigint);
SELECT time_bucket('1 day', 'x'::text);
