//! What people type about time: buckets, gaps, first and last, counters, sketches. Every function works on any table.
//!
//! `fcinfo` unpacks arguments, `errors` raises, the other files hold one family each. The SQL declarations are the
//! `src/schema/50-functions-*.sql` fragments; the reference is `docs/reference/`.
mod admin;
mod aggregate;
mod bucket;
mod candlestick;
mod composite;
mod counter;
mod errors;
mod fcinfo;
mod first_last;
pub mod gapfill;
mod histogram;
mod layout;
mod lttb;
mod percentile;
mod points;
pub mod ranges;
pub mod rollup;
mod state_agg;
mod time_bucket;
mod time_weight;
mod timezone;
