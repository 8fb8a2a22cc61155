-- Accidents of another implementation (golden/quirks.csv), and what is returned here; the reference says why.
\set ECHO none
\set QUIET on
\pset format unaligned
\pset tuples_only on
\pset null '\\N'
\set VERBOSITY sqlstate
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
SET extra_float_digits = 1;
CREATE TEMPORARY TABLE golden (number serial, sql text, expected text);
\copy golden (sql, expected) FROM PROGRAM 'cat "$PG_ABS_SRCDIR/sql/golden/quirks.csv"' WITH (FORMAT csv, HEADER)
SELECT 'SELECT ' || quote_literal(sql), sql FROM golden ORDER BY number \gexec
