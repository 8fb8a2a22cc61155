//! Arguments and results of SQL-callable functions (version-1 calling convention), without a guarded call per row.
use pgrx::pg_sys;

pub type Fcinfo = pg_sys::FunctionCallInfo;

/// Defines `$name` and its `pg_finfo_` record. The body runs unguarded: it may not raise and may not panic; what can does so
/// inside `guarded`.
macro_rules! sql_function {
    ($(#[$meta:meta])* fn $name:ident($fcinfo:ident) $body:block) => {
        $(#[$meta])*
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $name($fcinfo: $crate::functions::fcinfo::Fcinfo) -> ::pgrx::pg_sys::Datum $body

        const _: () = {
            #[export_name = concat!("pg_finfo_", stringify!($name))]
            extern "C" fn finfo() -> &'static ::pgrx::pg_sys::Pg_finfo_record {
                static V1: ::pgrx::pg_sys::Pg_finfo_record = ::pgrx::pg_sys::Pg_finfo_record { api_version: 1 };
                &V1
            }
        };
    };
}
pub(crate) use sql_function;

/// Runs what may raise: a Rust panic or a PostgreSQL error inside becomes an ordinary PostgreSQL error.
#[inline(always)]
pub fn guarded<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: called at a C entry point, with no Rust frame above it that owns anything.
    unsafe { pg_sys::panic::pgrx_extern_c_guard(work) }
}

/// The `n`th argument as it was passed.
///
/// # Safety
/// `fcinfo` is the current call's and has more than `n` arguments.
#[inline(always)]
pub unsafe fn raw_arg(fcinfo: Fcinfo, n: usize) -> pg_sys::NullableDatum {
    // SAFETY: the caller's promise; `args` is a flexible array of `nargs` members.
    unsafe { *(*fcinfo).args.as_ptr().add(n) }
}

/// The `n`th argument of a strict function.
///
/// # Safety
/// As `raw_arg`.
#[inline(always)]
pub unsafe fn arg(fcinfo: Fcinfo, n: usize) -> pg_sys::Datum {
    // SAFETY: the caller's promise.
    unsafe { raw_arg(fcinfo, n).value }
}

/// The `n`th argument, or None for NULL.
///
/// # Safety
/// As `raw_arg`.
#[inline(always)]
pub unsafe fn arg_opt(fcinfo: Fcinfo, n: usize) -> Option<pg_sys::Datum> {
    // SAFETY: the caller's promise.
    let a = unsafe { raw_arg(fcinfo, n) };
    (!a.isnull).then_some(a.value)
}

/// An `interval` argument.
///
/// # Safety
/// As `raw_arg`, and the argument is a non-null interval.
#[inline(always)]
pub unsafe fn interval_arg<'a>(fcinfo: Fcinfo, n: usize) -> &'a pg_sys::Interval {
    // SAFETY: the caller's promise; an interval is a fixed-size value passed by reference.
    unsafe { &*arg(fcinfo, n).cast_mut_ptr::<pg_sys::Interval>() }
}

/// The bytes of a `text` value.
///
/// # Safety
/// `datum` is a non-null varlena; the slice lives as long as the value or the current memory context.
pub unsafe fn text_bytes<'a>(datum: pg_sys::Datum) -> &'a [u8] {
    // SAFETY: the caller's promise; detoasting returns its argument or a copy in the current context.
    unsafe {
        let packed = pg_sys::pg_detoast_datum_packed(datum.cast_mut_ptr());
        std::slice::from_raw_parts(
            pgrx::vardata_any(packed).cast::<u8>(),
            pgrx::varsize_any_exhdr(packed),
        )
    }
}

/// The bytes of a `text` value that is stored plainly in its datum; None for one that would have to be fetched or unpacked.
///
/// # Safety
/// `datum` is a non-null varlena.
#[inline(always)]
pub unsafe fn plain_text_bytes<'a>(datum: pg_sys::Datum) -> Option<&'a [u8]> {
    // SAFETY: the caller's promise.
    unsafe {
        let varlena = datum.cast_mut_ptr::<pg_sys::varlena>();
        if pgrx::varatt_is_1b_e(varlena) || pgrx::varatt_is_4b_c(varlena) {
            return None;
        }
        Some(std::slice::from_raw_parts(
            pgrx::vardata_any(varlena).cast::<u8>(),
            pgrx::varsize_any_exhdr(varlena),
        ))
    }
}

/// Returns SQL NULL.
///
/// # Safety
/// `fcinfo` is the current call's.
#[inline(always)]
pub unsafe fn null(fcinfo: Fcinfo) -> pg_sys::Datum {
    // SAFETY: the caller's promise.
    unsafe { (*fcinfo).isnull = true };
    pg_sys::Datum::from(0usize)
}
