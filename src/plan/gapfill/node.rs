//! The executor's side: a custom scan node above the grouping.
//!
//! A query without other group columns has one group, also when there is no row. Buckets outside the range pass through.
use super::buckets::TimeType;
use super::rows::{Column, ColumnKind, Gapfill, Limit};
use crate::pg::custom_scan::{self, Shared};
use crate::pg::executor;
use crate::pg::node::{self, integers, items};
use crate::pg::value_layout::Layout;
use pgrx::pg_sys::{self, NodeTag, Oid};
use pgrx::{pg_guard, PgMemoryContexts};
use std::ffi::CStr;

#[repr(C)]
struct ScanState {
    base: pg_sys::CustomScanState,
    gapfill: *mut Gapfill,
}

pub const NAME: &CStr = c"VarveGapfill";

static SCAN_METHODS: Shared<pg_sys::CustomScanMethods> = Shared(pg_sys::CustomScanMethods {
    CustomName: NAME.as_ptr(),
    CreateCustomScanState: Some(create),
});

static EXEC_METHODS: Shared<pg_sys::CustomExecMethods> =
    Shared(custom_scan::exec_methods(NAME, begin, exec, end, rescan));

pub fn init() {
    // SAFETY: runs once, while the library is loaded; the methods live as long as the process.
    unsafe { pg_sys::RegisterCustomScanMethods(scan_methods()) };
}

pub fn scan_methods() -> *const pg_sys::CustomScanMethods {
    &raw const SCAN_METHODS.0
}

#[pg_guard]
unsafe extern "C-unwind" fn create(_scan: *mut pg_sys::CustomScan) -> *mut pg_sys::Node {
    // SAFETY: our state begins with the one that the executor knows.
    unsafe {
        let state = node::make::<ScanState>(NodeTag::T_CustomScanState);
        (*state).base.methods = &raw const EXEC_METHODS.0;
        state.cast()
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn begin(
    node: *mut pg_sys::CustomScanState,
    estate: *mut pg_sys::EState,
    eflags: i32,
) {
    // SAFETY: called by the executor for a node of ours; the plan is what `plan_custom_path` made.
    unsafe {
        let state = node.cast::<ScanState>();
        let scan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
        let input = pg_sys::ExecInitNode(
            items::<pg_sys::Plan>((*scan).custom_plans)
                .next()
                .unwrap_or(std::ptr::null_mut()),
            estate,
            eflags,
        );
        (*node).custom_ps = node::list([input]);
        let expressions: Vec<*mut pg_sys::ExprState> = items::<pg_sys::Expr>((*scan).custom_exprs)
            .map(|expression| pg_sys::ExecInitExpr(expression, &mut (*node).ss.ps))
            .collect();
        let lists: Vec<Vec<i32>> = items::<pg_sys::List>((*scan).custom_private)
            .map(|list| integers(list))
            .collect();
        let [kinds, equalities, collations, limits] = &lists[..] else {
            panic!("BUG: a plan with {} lists", lists.len())
        };
        let (limit_values, fill_arguments) = expressions[4..].split_at(limits.len() / 4);
        let oid = |n: i32| Oid::from(n as u32);
        let columns: Vec<Column> = items::<pg_sys::TargetEntry>((*scan).custom_scan_tlist)
            .enumerate()
            .map(|(n, entry)| {
                let typ = pg_sys::exprType((*entry).expr.cast());
                let equality = (equalities[n] != 0).then(|| {
                    let mut function = pg_sys::FmgrInfo::default();
                    pg_sys::fmgr_info(oid(equalities[n]), &mut function);
                    function
                });
                Column {
                    kind: ColumnKind::of(kinds[n]),
                    typ,
                    layout: Layout::of(typ),
                    equality,
                    collation: oid(collations[n]),
                    arguments: [fill_arguments[2 * n], fill_arguments[2 * n + 1]],
                    kept: None,
                    before: None,
                    after: None,
                }
            })
            .collect();
        let time_types = [
            TimeType::Int2,
            TimeType::Int4,
            TimeType::Int8,
            TimeType::Date,
            TimeType::Timestamp,
        ];
        let limits = limits
            .chunks_exact(4)
            .zip(limit_values)
            .map(|(limit, value)| Limit {
                lower: limit[0] != 0,
                successor: limit[1] != 0,
                date_from_timestamp: limit[2] != 0,
                time_type: time_types[limit[3] as usize],
                value: *value,
            });
        let bucket = columns
            .iter()
            .position(|c| c.kind == ColumnKind::Bucket)
            .expect("BUG: a plan without a bucket");
        let time_type = TimeType::of(columns[bucket].typ).expect("BUG: a bucket that is no time");
        let context = (*estate).es_query_cxt;
        let gapfill = Gapfill {
            input,
            bucket,
            time_type,
            zoned: !expressions[1].is_null(),
            arguments: [
                expressions[0],
                expressions[1],
                expressions[2],
                expressions[3],
            ],
            limits: limits.collect(),
            columns,
            context,
            range: None,
            pending: std::ptr::null_mut(),
            input_ended: false,
            next: None,
            in_group: false,
        };
        (*state).gapfill = PgMemoryContexts::For(context).leak_and_drop_on_delete(gapfill);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn end(node: *mut pg_sys::CustomScanState) {
    // SAFETY: called by the executor for a node that `begin` initialized.
    unsafe { pg_sys::ExecEndNode((*(*node.cast::<ScanState>()).gapfill).input) }
}

#[pg_guard]
unsafe extern "C-unwind" fn rescan(node: *mut pg_sys::CustomScanState) {
    // SAFETY: called by the executor for a node that `begin` initialized.
    unsafe {
        let gapfill = &mut *(*node.cast::<ScanState>()).gapfill;
        gapfill.range = None;
        gapfill.pending = std::ptr::null_mut();
        gapfill.input_ended = false;
        gapfill.next = None;
        gapfill.leave_group();
        custom_scan::rescan_source(node, gapfill.input);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn exec(
    node: *mut pg_sys::CustomScanState,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: called by the executor for a node that `begin` initialized.
    unsafe {
        let gapfill = &mut *(*node.cast::<ScanState>()).gapfill;
        let slot = (*node).ss.ss_ScanTupleSlot;
        let context = (*node).ss.ps.ps_ExprContext;
        pg_sys::MemoryContextReset((*context).ecxt_per_tuple_memory);
        pgrx::check_for_interrupts!();
        executor::clear_tuple(slot);
        (*context).ecxt_scantuple = slot;
        if gapfill.range.is_none() {
            gapfill.range = Some(gapfill.evaluate_range(context));
        }
        if !gapfill.next_row(slot, context) {
            executor::clear_tuple(slot);
            return slot;
        }
        let projection = (*node).ss.ps.ps_ProjInfo;
        if projection.is_null() {
            slot
        } else {
            executor::project(projection)
        }
    }
}
