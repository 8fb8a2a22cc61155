//! Arguments and results of SQL-callable functions (version-1 calling convention), without a guarded call per row.
use super::memory::Context;
use core::ffi::c_void;
use pgrx::callconv::{Arg, ArgAbi};
use pgrx::pg_sys;
use pgrx::pgrx_sql_entity_graph::metadata::{
    ArgumentError, ReturnsError, ReturnsRef, SqlMappingRef, SqlTranslatable, TypeOrigin,
};

/// The call of a function of ours, while it runs.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Fcinfo(pg_sys::FunctionCallInfo);

// SAFETY: pgrx hands over the call itself, which takes no argument of the function's.
unsafe impl<'call> ArgAbi<'call> for Fcinfo {
    /// # Safety
    /// As the trait has it; pgrx hands over what is of the call that runs.
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'call>) -> Self {
        // SAFETY: by contract.
        Fcinfo(unsafe { <pg_sys::FunctionCallInfo as ArgAbi>::unbox_arg_unchecked(arg) })
    }

    fn is_virtual_arg() -> bool {
        true
    }
}

// SAFETY: as pgrx has it for the call itself: no argument in SQL.
unsafe impl SqlTranslatable for Fcinfo {
    const TYPE_IDENT: &'static str =
        <pg_sys::FunctionCallInfoBaseData as SqlTranslatable>::TYPE_IDENT;
    const TYPE_ORIGIN: TypeOrigin =
        <pg_sys::FunctionCallInfoBaseData as SqlTranslatable>::TYPE_ORIGIN;
    const ARGUMENT_SQL: Result<SqlMappingRef, ArgumentError> =
        <pg_sys::FunctionCallInfoBaseData as SqlTranslatable>::ARGUMENT_SQL;
    const RETURN_SQL: Result<ReturnsRef, ReturnsError> =
        <pg_sys::FunctionCallInfoBaseData as SqlTranslatable>::RETURN_SQL;
}

/// A function of ours, as the server calls it.
pub type Function = unsafe extern "C-unwind" fn(Fcinfo) -> pg_sys::Datum;

/// # Safety
/// That of all of them: the call must be the one that runs.
impl Fcinfo {
    /// Says whether the result is NULL.
    ///
    /// # Safety
    /// As all of them.
    #[inline(always)]
    pub unsafe fn set_null(self, is_null: bool) {
        // SAFETY: the call runs.
        unsafe { (*self.0).isnull = is_null }
    }

    /// How many arguments there are.
    ///
    /// # Safety
    /// As all of them.
    #[inline(always)]
    pub unsafe fn arguments(self) -> i16 {
        // SAFETY: the call runs.
        unsafe { (*self.0).nargs }
    }

    /// The collation of the call.
    ///
    /// # Safety
    /// As all of them.
    pub unsafe fn collation(self) -> pg_sys::Oid {
        // SAFETY: the call runs.
        unsafe { (*self.0).fncollation }
    }

    /// The type that the `n`th argument has in the statement.
    ///
    /// # Safety
    /// As all of them; within a guarded entry point.
    pub unsafe fn argument_type(self, n: i32) -> pg_sys::Oid {
        // SAFETY: the call runs.
        unsafe { pg_sys::get_fn_expr_argtype((*self.0).flinfo, n) }
    }

    /// The type that the statement expects.
    ///
    /// # Safety
    /// As all of them; within a guarded entry point.
    pub unsafe fn result_type(self) -> pg_sys::Oid {
        // SAFETY: the call runs.
        unsafe { pg_sys::get_fn_expr_rettype((*self.0).flinfo) }
    }

    /// The memory of the expression that calls, which lives through an execution.
    ///
    /// # Safety
    /// As all of them.
    pub unsafe fn memory(self) -> Context {
        // SAFETY: the call runs.
        unsafe { Context::from((*(*self.0).flinfo).fn_mcxt) }
    }

    /// The memory that the states of the running aggregate live in; None outside an aggregate.
    ///
    /// # Safety
    /// As all of them; within a guarded entry point.
    pub unsafe fn aggregate_memory(self) -> Option<Context> {
        let mut context = core::ptr::null_mut();
        // SAFETY: the call runs.
        let is_aggregate = unsafe { pg_sys::AggCheckCallContext(self.0, &mut context) } != 0;
        is_aggregate.then(|| Context::from(context))
    }

    /// What the function keeps from call to call of one expression, in `memory`; null at first.
    ///
    /// # Safety
    /// As all of them.
    pub unsafe fn kept(self) -> *mut c_void {
        // SAFETY: the call runs.
        unsafe { (*(*self.0).flinfo).fn_extra }
    }

    /// # Safety
    /// As all of them; what is kept must be in `memory`.
    pub unsafe fn keep(self, what: *mut c_void) {
        // SAFETY: the call runs.
        unsafe { (*(*self.0).flinfo).fn_extra = what }
    }

    /// What kind of call it is, as a node; null for one of an expression.
    ///
    /// # Safety
    /// As all of them.
    pub(super) unsafe fn context(self) -> *mut pg_sys::Node {
        // SAFETY: the call runs.
        unsafe { (*self.0).context }
    }

    /// Is the function called as a procedure, where it may end transactions?
    ///
    /// # Safety
    /// As all of them.
    pub unsafe fn may_commit(self) -> bool {
        // SAFETY: the call runs; CALL brings a context of this type.
        unsafe {
            let context = self.context();
            super::node::is(context, pg_sys::NodeTag::T_CallContext)
                && !(*context.cast::<pg_sys::CallContext>()).atomic
        }
    }
}

/// Tells of a function whether it is among some of ours, whatever its name and schema are; None where it is one of the server's own. It
/// raises an error where there is no function of that OID.
pub fn among(function: pg_sys::Oid) -> Option<impl Fn(&[Function]) -> bool> {
    if function.to_u32() < pg_sys::FirstNormalObjectId {
        return None;
    }
    let mut call = pg_sys::FmgrInfo::default();
    // SAFETY: the look-up fills the record, or raises.
    unsafe { pg_sys::fmgr_info(function, &mut call) };
    let address = call.fn_addr? as usize;
    Some(move |ours: &[Function]| ours.iter().any(|own| *own as usize == address))
}

/// Is a function one of ours, whatever its name and schema are?
pub fn is_one_of(function: pg_sys::Oid, ours: &[Function]) -> bool {
    among(function).is_some_and(|is_among| is_among(ours))
}

/// Defines `$name` and its `pg_finfo_` record. The body runs unguarded: it may not raise and may not panic; what can does so
/// inside `guarded`.
macro_rules! sql_function {
    ($(#[$meta:meta])* fn $name:ident($fcinfo:ident) $body:block) => {
        $(#[$meta])*
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $name($fcinfo: $crate::pg::fcinfo::Fcinfo) -> ::pgrx::pg_sys::Datum $body

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
    unsafe { *(*fcinfo.0).args.as_ptr().add(n) }
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
    unsafe { fcinfo.set_null(true) };
    pg_sys::Datum::from(0usize)
}
