//! Functions of the server that pgrx has no binding for, as they are: a caller at a callback of core's lets errors pass through, any other guards them
//! (`pg_guard_ffi_boundary`). What only one file of `pg` needs is declared there.

use core::ffi::{c_char, c_void};
use pgrx::pg_sys::{
    AggClauseCosts, AggSplit, Datum, DestReceiver, EState, Expr, HeapTuple, IndexInfo,
    IndexScanDesc, IndexTuple, IndexUniqueCheck, ItemPointer, MultiXactId, Oid, ParamListInfo,
    PlanState, PlannedStmt, PlannerInfo, ProcessUtilityContext, QueryCompletion, QueryDesc,
    QueryEnvironment, Relation, ScanDirection, ScanKey, Snapshot, TableScanDesc, TransactionId,
    TupleDesc, TupleTableSlot, Tuplesortstate,
};

/// What is called for each node of a started plan; true ends the walk.
pub type StateVisitor = unsafe extern "C-unwind" fn(*mut PlanState, *mut c_void) -> bool;

/// What begin_heap_rewrite makes.
#[repr(C)]
pub struct RewriteState {
    _opaque: [u8; 0],
}

unsafe extern "C-unwind" {
    // executor/executor.h
    pub fn standard_ExecutorRun(
        query: *mut QueryDesc,
        direction: ScanDirection::Type,
        count: u64,
        once: bool,
    );
    pub fn standard_ExecutorFinish(query: *mut QueryDesc);

    // tcop/utility.h
    pub fn standard_ProcessUtility(
        statement: *mut PlannedStmt,
        text: *const c_char,
        read_only: bool,
        context: ProcessUtilityContext::Type,
        params: ParamListInfo,
        environment: *mut QueryEnvironment,
        receiver: *mut DestReceiver,
        completion: *mut QueryCompletion,
    );

    // nodes/nodeFuncs.h
    #[cfg_attr(feature = "pg17", link_name = "planstate_tree_walker_impl")]
    pub fn planstate_tree_walker(
        state: *mut PlanState,
        visitor: StateVisitor,
        context: *mut c_void,
    ) -> bool;

    // optimizer/prep.h
    pub fn get_agg_clause_costs(
        root: *mut PlannerInfo,
        split: AggSplit::Type,
        costs: *mut AggClauseCosts,
    );

    // parser/parse_agg.h
    pub fn build_aggregate_transfn_expr(
        inputs: *mut Oid,
        input_count: i32,
        direct_count: i32,
        is_variadic: bool,
        state: Oid,
        collation: Oid,
        transition: Oid,
        inverse: Oid,
        expression: *mut *mut Expr,
        inverse_expression: *mut *mut Expr,
    );

    // access/rewriteheap.h
    pub fn begin_heap_rewrite(
        old: Relation,
        new: Relation,
        oldest: TransactionId,
        freeze: TransactionId,
        multi: MultiXactId,
    ) -> *mut RewriteState;
    pub fn end_heap_rewrite(state: *mut RewriteState);
    pub fn rewrite_heap_tuple(state: *mut RewriteState, old: HeapTuple, new: HeapTuple);
    pub fn rewrite_heap_dead_tuple(state: *mut RewriteState, old: HeapTuple) -> bool;

    // access/genam.h
    pub fn index_insert(
        index: Relation,
        values: *mut Datum,
        nulls: *mut bool,
        item: ItemPointer,
        table: Relation,
        check: IndexUniqueCheck::Type,
        unchanged: bool,
        info: *mut IndexInfo,
    ) -> bool;

    // access/itup.h
    pub fn index_deform_tuple(
        tuple: IndexTuple,
        descriptor: TupleDesc,
        values: *mut Datum,
        nulls: *mut bool,
    );

    // access/nbtree.h
    pub fn btinsert(
        index: Relation,
        values: *mut Datum,
        nulls: *mut bool,
        item: ItemPointer,
        table: Relation,
        check: IndexUniqueCheck::Type,
        unchanged: bool,
        info: *mut IndexInfo,
    ) -> bool;
    pub fn btrescan(
        scan: IndexScanDesc,
        keys: ScanKey,
        count: i32,
        orders: ScanKey,
        order_count: i32,
    );
    pub fn btgettuple(scan: IndexScanDesc, direction: ScanDirection::Type) -> bool;
    pub fn btendscan(scan: IndexScanDesc);

    // utils/tuplesort.h
    pub fn tuplesort_putindextuplevalues(
        sort: *mut Tuplesortstate,
        index: Relation,
        item: ItemPointer,
        values: *mut Datum,
        nulls: *mut bool,
    );
    pub fn tuplesort_performsort(sort: *mut Tuplesortstate);

    // catalog/index.h
    pub fn FormIndexDatum(
        info: *mut IndexInfo,
        slot: *mut TupleTableSlot,
        estate: *mut EState,
        values: *mut Datum,
        nulls: *mut bool,
    );

    // utils/datum.h: a copy of a value in the current memory context.
    #[link_name = "datumCopy"]
    pub fn datum_copy(value: Datum, by_value: bool, length: i32) -> Datum;

    // access/heapam.h: for who guards the reading of many rows once.
    pub fn heap_getnext(scan: TableScanDesc, direction: ScanDirection::Type) -> HeapTuple;

    // storage/lmgr.h
    pub fn LockRelationOid(relation: Oid, mode: i32);

    // storage/predicate.h
    pub fn PredicateLockRelation(relation: Relation, snapshot: Snapshot);

    // tcop/tcopprot.h, postmaster/interrupt.h: handlers of signals.
    pub fn die(signal: i32);
    pub fn SignalHandlerForConfigReload(signal: i32);
}
