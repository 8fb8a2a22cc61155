//! `CALL varve.compact(table)`

use super::subject;
use crate::functions::fcinfo::{arg_opt, guarded, sql_function};
use crate::pg::error::{self, Code};
use crate::table::compact;
use pgrx::pg_sys;

sql_function! {
    /// `varve.compact(regclass)`, a procedure
    fn varve_compact(fcinfo) {
        guarded(|| {
            // SAFETY: called by core for a procedure of one argument.
            unsafe {
                let Some(table) = arg_opt(fcinfo, 0) else {
                    error::raise(
                        Code::ERRCODE_NULL_VALUE_NOT_ALLOWED,
                        "no table named",
                        "",
                        "CALL varve.compact('a_table')",
                    );
                };
                let table = pg_sys::Oid::from_u32(table.value() as u32);
                check_context((*fcinfo).context);
                check_table(table);
                compact::run(table, subject::check_owner);
            }
            pg_sys::Datum::from(0usize)
        })
    }
}

/// Raises an error where a procedure cannot end transactions.
///
/// # Safety
/// `context` is that of a call.
unsafe fn check_context(context: *mut pg_sys::Node) {
    // SAFETY: by contract; CALL passes its own kind of node.
    let atomic = unsafe {
        context.is_null()
            || (*context).type_ != pg_sys::NodeTag::T_CallContext
            || (*context.cast::<pg_sys::CallContext>()).atomic
    };
    if atomic {
        error::raise(
            Code::ERRCODE_ACTIVE_SQL_TRANSACTION,
            "varve.compact cannot run inside a transaction block",
            "It works in rounds, each of which is a transaction of its own.",
            "Use CALL varve.compact(…) as a statement of its own.",
        );
    }
}

fn check_table(oid: pg_sys::Oid) {
    // SAFETY: raise errors where the server cannot write.
    unsafe {
        pg_sys::PreventCommandDuringRecovery(c"varve.compact".as_ptr());
        pg_sys::PreventCommandIfReadOnly(c"varve.compact".as_ptr());
    }
    let table = subject::open(oid, pg_sys::AccessShareLock);
    subject::check_owner(&table);
    // SAFETY: the table is open once, here.
    unsafe { pg_sys::CheckTableNotInUse(table.rel(), c"varve.compact".as_ptr()) };
}
