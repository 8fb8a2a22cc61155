//! What people type about time: buckets, gaps, first and last, counters, sketches. Every function works on any table.
//!
//! `errors` raises, the other files hold one family each. The SQL declarations are the
//! `src/schema/50-functions-*.sql` fragments; the reference is `docs/reference/`.
pub mod admin;
pub mod aggregate;
pub mod bucket;
pub mod candlestick;
pub mod counter;
pub mod errors;
pub mod first_last;
pub mod gapfill_calls;
pub mod histogram;
pub mod lttb;
pub mod percentile;
pub mod points;
pub mod rollup;
pub mod state_agg;
pub mod time_bucket;
pub mod time_weight;
pub mod timezone;

use crate::pg::fcinfo::{is_one_of, Function};
use crate::pg::Oid;

/// Is a function one of ours that never falls where its second argument, a time, rises? Not those of a time zone: its clock goes
/// back once a year.
pub fn is_monotone_bucket(function: Oid) -> bool {
    use gapfill_calls::{varve_gapfill_date, varve_gapfill_int2, varve_gapfill_int4};
    use gapfill_calls::{varve_gapfill_int8, varve_gapfill_time};
    use time_bucket::{varve_time_bucket, varve_time_bucket_date, varve_time_bucket_date_offset};
    use time_bucket::{varve_time_bucket_int2, varve_time_bucket_int4, varve_time_bucket_int8};
    use time_bucket::{varve_time_bucket_offset, varve_time_bucket_origin};
    let ours: [Function; 13] = [
        varve_time_bucket,
        varve_time_bucket_origin,
        varve_time_bucket_offset,
        varve_time_bucket_date,
        varve_time_bucket_date_offset,
        varve_time_bucket_int2,
        varve_time_bucket_int4,
        varve_time_bucket_int8,
        varve_gapfill_int2,
        varve_gapfill_int4,
        varve_gapfill_int8,
        varve_gapfill_date,
        varve_gapfill_time,
    ];
    is_one_of(function, &ours)
}

/// Is a function one of ours whose second argument, a time, it puts into a bucket by the clock of its third, a zone?
pub fn is_zoned_bucket(function: Oid) -> bool {
    let ours: [Function; 2] = [
        time_bucket::varve_time_bucket_zone,
        gapfill_calls::varve_gapfill_zone,
    ];
    is_one_of(function, &ours)
}
