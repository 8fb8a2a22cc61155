//! What executor.h and tuptable.h define inline.
use super::tid::{self, Tid};
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

/// `clear_tuple` of a virtual slot, which is nothing but marks unless it keeps a copy.
///
/// # Safety
/// As `clear_tuple`; the slot is virtual.
pub unsafe fn clear_virtual(slot: *mut TupleTableSlot) {
    // SAFETY: by contract; this is what its clear function does.
    unsafe {
        if (*slot).tts_flags & pg_sys::TTS_FLAG_SHOULDFREE as u16 != 0 {
            return clear_tuple(slot);
        }
        (*slot).tts_nvalid = 0;
        (*slot).tts_flags |= pg_sys::TTS_FLAG_EMPTY as u16;
        (*slot).tts_tid = tid::to_pg(Tid {
            block: tid::INVALID_BLOCK,
            offset: 0,
        });
    }
}

/// What ExecStoreVirtualTuple does: the slot's values are a row.
///
/// # Safety
/// The slot is virtual, empty, and all its values are set.
pub unsafe fn store_virtual(slot: *mut TupleTableSlot) {
    // SAFETY: by contract.
    unsafe {
        (*slot).tts_flags &= !(pg_sys::TTS_FLAG_EMPTY as u16);
        (*slot).tts_nvalid = (*(*slot).tts_tupleDescriptor).natts as i16;
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

/// The first attributes of a row, and which of them are null.
///
/// # Safety
/// `slot` has a row of so many attributes, which is not touched while the slices are used; must run inside a guarded
/// entry point.
#[inline]
pub unsafe fn attributes<'a>(slot: *mut TupleTableSlot, count: usize) -> (&'a [Datum], &'a [bool]) {
    // SAFETY: the caller's promise.
    unsafe {
        if ((*slot).tts_nvalid as usize) < count {
            pg_sys::slot_getsomeattrs_int(slot, count as i32);
        }
        (
            core::slice::from_raw_parts((*slot).tts_values, count),
            core::slice::from_raw_parts((*slot).tts_isnull, count),
        )
    }
}

/// Lets an empty virtual slot have a row's attributes, as long as that row is there.
///
/// # Safety
/// Both slots have the same attributes; must run inside a guarded entry point.
pub unsafe fn borrow_attributes(slot: *mut TupleTableSlot, row: *mut TupleTableSlot) {
    // SAFETY: the caller's promise.
    unsafe {
        let count = (*(*slot).tts_tupleDescriptor).natts as usize;
        let (values, nulls) = attributes(row, count);
        core::slice::from_raw_parts_mut((*slot).tts_values, count).copy_from_slice(values);
        core::slice::from_raw_parts_mut((*slot).tts_isnull, count).copy_from_slice(nulls);
        (*slot).tts_flags &= !(pg_sys::TTS_FLAG_EMPTY as u16);
        (*slot).tts_nvalid = count as i16;
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

/// What an error of the statement passes through as it is, with its context and all: it jumps over the frames, which must hold
/// plain values only.
pub mod unguarded {
    use super::{clear_virtual, store_virtual};
    use pgrx::pg_sys::{self, EState, ExprContext, ExprState};
    use pgrx::pg_sys::{Plan, PlanState, ProjectionInfo, TupleTableSlot};

    unsafe extern "C-unwind" {
        /// # Safety
        /// The node must be of a plan that the executor is starting.
        pub fn ExecInitNode(node: *mut Plan, estate: *mut EState, flags: i32) -> *mut PlanState;
        fn ExecReScan(node: *mut PlanState);
    }

    /// As `next_row`.
    ///
    /// # Safety
    /// `node` is initialized.
    pub unsafe fn next_row(node: *mut PlanState) -> *mut TupleTableSlot {
        // SAFETY: the caller's promise; an initialized node has the function.
        unsafe {
            if !(*node).chgParam.is_null() {
                ExecReScan(node);
            }
            match (*node).ExecProcNode {
                Some(next) => next(node),
                None => core::ptr::null_mut(),
            }
        }
    }

    /// Does a condition hold, in the per-tuple memory of `context`?
    ///
    /// # Safety
    /// `condition` is initialized, `context` is its node's and set up.
    pub unsafe fn holds(condition: *mut ExprState, context: *mut ExprContext) -> bool {
        // SAFETY: the caller's promise; an initialized expression has the function.
        unsafe {
            let Some(evaluate) = (*condition).evalfunc else {
                return false;
            };
            let previous = pg_sys::CurrentMemoryContext;
            pg_sys::CurrentMemoryContext = (*context).ecxt_per_tuple_memory;
            let mut isnull = false;
            let value = evaluate(condition, context, &mut isnull);
            pg_sys::CurrentMemoryContext = previous;
            !isnull && value.value() as u8 != 0
        }
    }

    /// As `project`, for a projection whose slot is virtual.
    ///
    /// # Safety
    /// `projection` is a node's and its expression context is set up.
    pub unsafe fn project(projection: *mut ProjectionInfo) -> *mut TupleTableSlot {
        // SAFETY: the caller's promise; an initialized expression has the function.
        unsafe {
            let (state, context) = (
                &raw mut (*projection).pi_state,
                (*projection).pi_exprContext,
            );
            let slot = (*state).resultslot;
            clear_virtual(slot);
            if let Some(evaluate) = (*state).evalfunc {
                let previous = pg_sys::CurrentMemoryContext;
                pg_sys::CurrentMemoryContext = (*context).ecxt_per_tuple_memory;
                let mut isnull = false;
                evaluate(state, context, &mut isnull);
                pg_sys::CurrentMemoryContext = previous;
            }
            store_virtual(slot);
            slot
        }
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
        store_virtual(slot);
        slot
    }
}
