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
mod gapfill;
mod histogram;
mod layout;
mod lttb;
mod percentile;
mod points;
mod ranges;
mod state_agg;
mod time_bucket;
mod time_weight;
mod timezone;

/// Installs the planner hooks of this layer. Called once, when the library is loaded: for a session's first query that is
/// when the planner calls the support function of one of our functions, before any hook of ours is due.
pub fn init() {
    gapfill::init();
    ranges::init();
}
