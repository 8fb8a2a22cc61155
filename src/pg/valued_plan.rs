//! Plans with values for their parameters. A node on top of the plan carries them, so that whoever copies the plan and keeps it has them too: core does
//! so with a statement without parameters that is prepared. When a copy is started, the node goes, and its values become those that the query is run with.

use super::error::{self, Code};
use super::memory;
use super::node::{self, items};
use pgrx::pg_guard;
use pgrx::pg_sys::{self, NodeTag};

static METHODS: Methods = Methods(pg_sys::CustomScanMethods {
    CustomName: c"VarveValues".as_ptr(),
    CreateCustomScanState: Some(refuse),
});

/// The node is taken away before a plan starts, unless another extension starts it without calling our hook.
#[pg_guard]
unsafe extern "C-unwind" fn refuse(_scan: *mut pg_sys::CustomScan) -> *mut pg_sys::Node {
    error::raise(
        Code::ERRCODE_FEATURE_NOT_SUPPORTED,
        "a plan that varve has kept was started without varve's ExecutorStart_hook",
        "",
        "Try SET plan_cache_mode = force_custom_plan.",
    )
}

/// Constants, which any thread may read.
struct Methods(pg_sys::CustomScanMethods);

// SAFETY: nobody writes to it.
unsafe impl Sync for Methods {}

/// What is allocated for a run of a plan: the cells of the list follow it.
#[repr(C)]
struct Run {
    statement: pg_sys::PlannedStmt,
    carrier: pg_sys::CustomScan,
    values: pg_sys::List,
}

/// A plan that is to be run with constants for its parameters, in the current memory context. It shares the plan's tree and refers to the constants.
///
/// # Safety
/// The plan must be valid, and have as many parameters; it must live, like the constants, as long as the result.
pub(super) unsafe fn make(
    plan: *mut pg_sys::PlannedStmt,
    constants: impl ExactSizeIterator<Item = *mut pg_sys::Const>,
) -> *mut pg_sys::PlannedStmt {
    let count = constants.len();
    // SAFETY: by contract; all that is written lies within what is allocated.
    unsafe {
        let bytes = size_of::<Run>() + count * size_of::<pg_sys::ListCell>();
        let run: *mut Run = pg_sys::palloc0(bytes).cast();
        let statement = &raw mut (*run).statement;
        *statement = *plan;
        if count == 0 {
            return statement;
        }
        let tree = (*plan).planTree;
        let carrier = &raw mut (*run).carrier;
        let top = &raw mut (*carrier).scan.plan;
        (*top).type_ = NodeTag::T_CustomScan;
        (*top).startup_cost = (*tree).startup_cost;
        (*top).total_cost = (*tree).total_cost;
        (*top).plan_rows = (*tree).plan_rows;
        (*top).plan_width = (*tree).plan_width;
        (*top).targetlist = (*tree).targetlist;
        (*top).lefttree = tree;
        (*carrier).methods = &raw const METHODS.0;
        let values = &raw mut (*run).values;
        let cells: *mut pg_sys::ListCell = run.add(1).cast();
        (*values).type_ = NodeTag::T_List;
        (*values).length = count as i32;
        (*values).max_length = count as i32;
        (*values).elements = cells;
        for (at, constant) in constants.enumerate() {
            (*cells.add(at)).ptr_value = constant.cast();
        }
        (*carrier).custom_private = values;
        (*statement).planTree = top;
        statement
    }
}

/// Has a query that is about to start run with the values that its plan carries, if it does.
///
/// # Safety
/// `query` must be a query that has not started. Within a guarded entry point.
pub(super) unsafe fn give_values(query: *mut pg_sys::QueryDesc) {
    // SAFETY: by contract; the node's tag says what it is.
    unsafe {
        let statement = (*query).plannedstmt;
        let top = (*statement).planTree;
        let carrier = node::cast::<pg_sys::CustomScan>(top.cast(), NodeTag::T_CustomScan);
        let Some(carrier) =
            carrier.filter(|&node| core::ptr::eq((*node).methods, &raw const METHODS.0))
        else {
            return;
        };
        let constants = items::<pg_sys::Const>((*carrier).custom_private);
        let count = constants.size_hint().0;
        let statement_bytes = size_of::<pg_sys::PlannedStmt>();
        let bytes = statement_bytes
            + size_of::<pg_sys::ParamListInfoData>()
            + count * size_of::<pg_sys::ParamExternData>();
        const {
            assert!(size_of::<pg_sys::PlannedStmt>()
                .is_multiple_of(align_of::<pg_sys::ParamListInfoData>()))
        }
        let bare: *mut pg_sys::PlannedStmt = memory::current().alloc_zeroed(bytes).cast();
        *bare = *statement;
        (*bare).planTree = (*top).lefttree;
        let params: pg_sys::ParamListInfo = bare.add(1).cast();
        (*params).numParams = count as i32;
        let first: *mut pg_sys::ParamExternData = (&raw mut (*params).params).cast();
        for (at, constant) in constants.enumerate() {
            let constant = &*constant;
            first.add(at).write(pg_sys::ParamExternData {
                value: match constant.constisnull {
                    true => pg_sys::Datum::from(0usize),
                    false => constant.constvalue,
                },
                isnull: constant.constisnull,
                pflags: pg_sys::PARAM_FLAG_CONST as u16,
                ptype: constant.consttype,
            });
        }
        (*query).plannedstmt = bare;
        (*query).params = params;
    }
}
