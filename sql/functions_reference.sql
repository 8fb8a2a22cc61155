-- The examples of docs/reference, in name order, executed.
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET intervalstyle = 'postgres';
\! mkdir -p "$PG_ABS_BUILDDIR/results" && for page in "$PG_ABS_SRCDIR"/docs/reference/*.md; do awk '/^```sql/ { sql = 1; next } /^```/ { sql = 0 } sql' "$page"; done > "$PG_ABS_BUILDDIR/results/reference_examples.sql"
\getenv build PG_ABS_BUILDDIR
\set examples :build '/results/reference_examples.sql'
\i :examples
