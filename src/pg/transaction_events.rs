//! What is done when transactions, and parts of them, begin and end.

use core::ffi::c_void;
use pgrx::pg_sys::panic::pgrx_extern_c_guard;
use pgrx::pg_sys::{self, SubTransactionId, SubXactEvent, XactEvent};

/// Work at these moments, within guarded entry points.
pub trait AtTransactions {
    /// The transaction is about to commit, or to be prepared for that. It may still fail, and catalogs be read.
    fn before_commit(prepares: bool);

    /// It has ended here. One that is prepared has not committed.
    fn end(has_committed: bool);

    fn begin_part(part: SubTransactionId);

    fn end_part(part: SubTransactionId, parent: SubTransactionId, has_committed: bool);
}

/// To be called once, when a backend loads the library.
pub fn install<H: AtTransactions>() {
    // SAFETY: the callbacks live as long as the library.
    unsafe {
        pg_sys::RegisterXactCallback(Some(transaction_event::<H>), core::ptr::null_mut());
        pg_sys::RegisterSubXactCallback(Some(subtransaction_event::<H>), core::ptr::null_mut());
    }
}

unsafe extern "C-unwind" fn transaction_event<H: AtTransactions>(
    event: XactEvent::Type,
    _arg: *mut c_void,
) {
    let body = || match event {
        XactEvent::XACT_EVENT_PRE_COMMIT => H::before_commit(false),
        XactEvent::XACT_EVENT_PRE_PREPARE => H::before_commit(true),
        XactEvent::XACT_EVENT_COMMIT => H::end(true),
        XactEvent::XACT_EVENT_ABORT | XactEvent::XACT_EVENT_PREPARE => H::end(false),
        _ => {}
    };
    // SAFETY: called by core; no frame above owns anything.
    unsafe { pgrx_extern_c_guard(body) }
}

unsafe extern "C-unwind" fn subtransaction_event<H: AtTransactions>(
    event: SubXactEvent::Type,
    part: SubTransactionId,
    parent: SubTransactionId,
    _arg: *mut c_void,
) {
    let body = || match event {
        SubXactEvent::SUBXACT_EVENT_START_SUB => H::begin_part(part),
        SubXactEvent::SUBXACT_EVENT_COMMIT_SUB => H::end_part(part, parent, true),
        SubXactEvent::SUBXACT_EVENT_ABORT_SUB => H::end_part(part, parent, false),
        _ => {}
    };
    // SAFETY: as above.
    unsafe { pgrx_extern_c_guard(body) }
}
