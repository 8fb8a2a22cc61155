//! What executor.h and tuptable.h define inline.
use pgrx::pg_sys::{self, ffi::pg_guard_ffi_boundary, Datum, TupleTableSlot};

/// # Safety
/// `slot` is valid; must run inside a guarded entry point.
pub unsafe fn clear_tuple(slot: *mut TupleTableSlot) {
    // SAFETY: every slot type has a clear function.
    unsafe {
        let clear = (*(*slot).tts_ops)
            .clear
            .expect("BUG: a slot type without clear");
        pg_guard_ffi_boundary(|| clear(slot));
    }
}

/// Whether the executor's end of data: no slot, or an empty one.
///
/// # Safety
/// `slot` is null or valid.
pub unsafe fn is_empty(slot: *mut TupleTableSlot) -> bool {
    // SAFETY: the caller's promise.
    slot.is_null() || unsafe { (*slot).tts_flags } & pg_sys::TTS_FLAG_EMPTY as u16 != 0
}

/// Takes all attributes of a row apart.
///
/// # Safety
/// `slot` has a row; must run inside a guarded entry point.
pub unsafe fn get_all_attributes(slot: *mut TupleTableSlot) {
    // SAFETY: the caller's promise.
    unsafe {
        let natts = (*(*slot).tts_tupleDescriptor).natts;
        if i32::from((*slot).tts_nvalid) < natts {
            pg_sys::slot_getsomeattrs_int(slot, natts);
        }
    }
}

/// The next row of a child node.
///
/// # Safety
/// `node` is initialized; must run inside a guarded entry point.
pub unsafe fn next_row(node: *mut pg_sys::PlanState) -> *mut TupleTableSlot {
    // SAFETY: the caller's promise.
    unsafe {
        if !(*node).chgParam.is_null() {
            pg_sys::ExecReScan(node);
        }
        let next = (*node)
            .ExecProcNode
            .expect("BUG: a plan state without ExecProcNode");
        pg_guard_ffi_boundary(|| next(node))
    }
}

/// The value of an expression, in the per-tuple memory of `context`.
///
/// # Safety
/// `expression` is initialized, `context` is its node's; must run inside a guarded entry point.
pub unsafe fn evaluate(
    expression: *mut pg_sys::ExprState,
    context: *mut pg_sys::ExprContext,
    isnull: &mut bool,
) -> Datum {
    // SAFETY: the caller's promise.
    unsafe {
        let evaluate = (*expression)
            .evalfunc
            .expect("BUG: an expression that is not initialized");
        let previous = pg_sys::CurrentMemoryContext;
        pg_sys::CurrentMemoryContext = (*context).ecxt_per_tuple_memory;
        let value = pg_guard_ffi_boundary(|| evaluate(expression, context, isnull));
        pg_sys::CurrentMemoryContext = previous;
        value
    }
}

/// The row that a projection makes.
///
/// # Safety
/// `projection` is a node's and its expression context is set up; must run inside a guarded entry point.
pub unsafe fn project(projection: *mut pg_sys::ProjectionInfo) -> *mut TupleTableSlot {
    // SAFETY: the caller's promise.
    unsafe {
        let state = &raw mut (*projection).pi_state;
        let slot = (*state).resultslot;
        clear_tuple(slot);
        let mut isnull = false;
        evaluate(state, (*projection).pi_exprContext, &mut isnull);
        (*slot).tts_flags &= !(pg_sys::TTS_FLAG_EMPTY as u16);
        (*slot).tts_nvalid = (*(*slot).tts_tupleDescriptor).natts as i16;
        slot
    }
}
