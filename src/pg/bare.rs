//! Functions of PostgreSQL that raise no error where they are called as they should be. pgrx guards each call of a C function against
//! errors, which takes longer than these do, and they are called for each page and tuple that is looked at.

use pgrx::pg_sys;

unsafe extern "C-unwind" {
    /// Of a buffer that is pinned. An error would be a fault of ours: more than 200 locks of pages at once.
    pub fn LockBuffer(buffer: pg_sys::Buffer, mode: i32);
    /// Of a buffer that is pinned.
    pub fn ReleaseBuffer(buffer: pg_sys::Buffer);
    /// Of a relation that is open: counts one less that have it open.
    pub fn RelationClose(relation: pg_sys::Relation);
    /// Looks at this process's own state only.
    pub fn TransactionIdIsCurrentTransactionId(xid: pg_sys::TransactionId) -> bool;
    /// The same.
    pub fn TransactionStartedDuringRecovery() -> bool;
    /// The same.
    pub fn GetCurrentSubTransactionId() -> pg_sys::SubTransactionId;
    /// The same.
    pub fn GetCurrentTransactionStartTimestamp() -> pg_sys::TimestampTz;
    /// The same.
    pub fn GetCurrentStatementStartTimestamp() -> pg_sys::TimestampTz;
    /// The same.
    pub fn GetUserId() -> pg_sys::Oid;
    /// Of a live context.
    pub fn MemoryContextGetParent(context: pg_sys::MemoryContext) -> pg_sys::MemoryContext;
    /// Of a set, or of none.
    pub fn bms_next_member(set: *const pg_sys::Bitmapset, before: i32) -> i32;
    /// Of an open table. It may want memory, so who counts many guards all of these calls together.
    pub fn pgstat_count_heap_delete(table: pg_sys::Relation);
    /// Of a tuple of that descriptor, and arrays of as many columns.
    pub fn heap_deform_tuple(
        tuple: pg_sys::HeapTuple,
        descriptor: pg_sys::TupleDesc,
        values: *mut pg_sys::Datum,
        nulls: *mut bool,
    );
    /// Of a slot for such tuples.
    pub fn ExecStoreMinimalTuple(
        tuple: pg_sys::MinimalTuple,
        slot: *mut pg_sys::TupleTableSlot,
        frees: bool,
    ) -> *mut pg_sys::TupleTableSlot;
    /// The address of a constant.
    pub fn GetHeapamTableAmRoutine() -> *const pg_sys::TableAmRoutine;
    /// The planner. It raises errors: who calls it is called by core, and has nothing on its frames that needs dropping.
    pub fn standard_planner(
        query: *mut pg_sys::Query,
        text: *const core::ffi::c_char,
        options: i32,
        values: pg_sys::ParamListInfo,
    ) -> *mut pg_sys::PlannedStmt;
    /// Of the C library: the length of a text, or `most` where it is longer.
    pub fn strnlen(text: *const core::ffi::c_char, most: usize) -> usize;
    /// What is being run; null where nothing is.
    pub static ActivePortal: *mut core::ffi::c_void;
}
