//! What people type about time: buckets, gaps, first and last, counters, sketches. Every function works on any table.
//!
//! `fcinfo` unpacks arguments, `errors` raises, the other files hold one family each. The SQL declarations are the
//! `src/schema/50-functions-*.sql` fragments; the reference is `docs/reference/`.
pub mod admin;
pub mod aggregate;
pub mod bucket;
pub mod candlestick;
pub mod composite;
pub mod counter;
pub mod errors;
pub mod fcinfo;
pub mod first_last;
pub mod gapfill_calls;
pub mod histogram;
pub mod layout;
pub mod lttb;
pub mod percentile;
pub mod points;
pub mod rollup;
pub mod state_agg;
pub mod time_bucket;
pub mod time_weight;
pub mod timezone;

/// Is a function one of ours that never falls where its second argument, a time, rises? Not those of a time zone: its clock goes
/// back once a year.
pub fn is_monotone_bucket(function: pgrx::pg_sys::Oid) -> bool {
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
pub fn is_zoned_bucket(function: pgrx::pg_sys::Oid) -> bool {
    let ours: [Function; 2] = [
        time_bucket::varve_time_bucket_zone,
        gapfill_calls::varve_gapfill_zone,
    ];
    is_one_of(function, &ours)
}

type Function = unsafe extern "C-unwind" fn(fcinfo::Fcinfo) -> pgrx::pg_sys::Datum;

fn is_one_of(function: pgrx::pg_sys::Oid, ours: &[Function]) -> bool {
    if function.to_u32() < pgrx::pg_sys::FirstNormalObjectId {
        return false;
    }
    let mut call = pgrx::pg_sys::FmgrInfo::default();
    // SAFETY: a function of a plan exists.
    unsafe { pgrx::pg_sys::fmgr_info(function, &mut call) };
    call.fn_addr
        .is_some_and(|address| ours.iter().any(|own| *own as usize == address as usize))
}

/// The zone of a name, abbreviation or offset; None where there is none.
///
/// # Safety
/// Inside a guarded entry point.
pub unsafe fn zone_by_name(name: &[u8]) -> Option<*mut pgrx::pg_sys::pg_tz> {
    let name = std::ffi::CString::new(name).ok()?;
    // SAFETY: by contract.
    let zone = unsafe { timezone::zone_by_name(&name) };
    (!zone.is_null()).then_some(zone)
}
