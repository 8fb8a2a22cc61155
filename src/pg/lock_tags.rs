//! Heavyweight locks, most of them our own: on rows of chunks, on chunks, and on a table's bulk changers. The tags of these are those of tuples
//! at blocks that no table has; they last as long as the (sub)transaction that took them, prepared transactions included.

use super::lock_mode::LockMode;
use super::relation::Table;
use pgrx::pg_sys;

/// What a lock is on.
#[derive(Clone, Copy)]
pub struct Tag(pg_sys::LOCKTAG);

const ROWS: u32 = 0x8000_0000;
const CHUNKS: u32 = 0xc000_0000;
/// No tag of a chunk or a change has this offset.
const WHOLE: u16 = 1;
/// Two chunks that agree in these bits of their numbers share their locks: somebody may wait who need not, and who has locked one of them has not looked at
/// the other.
const CHUNK_BITS: u32 = 0x3fff_ffff;

impl Tag {
    fn new(table: Table<'_>, block: u32, offset: u16) -> Self {
        Self::of(table.oid(), block, offset)
    }

    fn of(table: pg_sys::Oid, block: u32, offset: u16) -> Self {
        Tag(pg_sys::LOCKTAG {
            // SAFETY: set when a backend connects.
            locktag_field1: unsafe { pg_sys::MyDatabaseId }.to_u32(),
            locktag_field2: table.to_u32(),
            locktag_field3: block,
            locktag_field4: offset,
            locktag_type: pg_sys::LockTagType::LOCKTAG_TUPLE as u8,
            locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
        })
    }

    /// A table of this database, as core locks it for statements.
    pub fn table(table: pg_sys::Oid) -> Self {
        let mut tag = Self::of(table, 0, 0);
        tag.0.locktag_type = pg_sys::LockTagType::LOCKTAG_RELATION as u8;
        tag
    }

    /// A row of a chunk.
    pub fn row(table: Table<'_>, chunk: u64, row: u32) -> Self {
        Self::new(table, ROWS | fold(chunk), row as u16)
    }

    /// A chunk.
    pub fn chunk(table: Table<'_>, chunk: u64) -> Self {
        Self::new(table, CHUNKS | fold(chunk), 0)
    }

    /// A change of a row of a chunk that is not written yet. Rows 65,533 apart share the tag.
    pub fn change(table: Table<'_>, chunk: u64, row: u32) -> Self {
        Self::new(table, CHUNKS | fold(chunk), 2 + (row % 0xfffd) as u16)
    }

    /// A right to do something with the whole table.
    pub fn whole(table: Table<'_>, right: Whole) -> Self {
        Self::of(table.oid(), CHUNKS | right as u32, WHOLE)
    }

    /// The same for a table that need not be open.
    pub fn whole_of(table: pg_sys::Oid, right: Whole) -> Self {
        Self::of(table, CHUNKS | right as u32, WHOLE)
    }
}

impl Tag {
    /// A share of what the server's lock table has room for. It is the same in all databases.
    pub fn share(number: usize) -> Self {
        Tag(pg_sys::LOCKTAG {
            locktag_field1: 0,
            locktag_field2: 0,
            locktag_field3: CHUNKS | number as u32,
            locktag_field4: WHOLE,
            locktag_type: pg_sys::LockTagType::LOCKTAG_TUPLE as u8,
            locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
        })
    }
}

unsafe extern "C" {
    static max_prepared_xacts: core::ffi::c_int;
}

/// May transactions be prepared on this server?
pub fn may_prepare() -> bool {
    // SAFETY: set when the server starts.
    unsafe { max_prepared_xacts > 0 }
}

/// Locks that the server's lock table has room for, at least.
pub fn capacity() -> usize {
    // SAFETY: set when the server starts.
    unsafe {
        let backends = pg_sys::MaxBackends + max_prepared_xacts;
        pg_sys::max_locks_per_xact.max(1) as usize * backends.max(1) as usize
    }
}

/// Locks that each transaction may count on: max_locks_per_transaction.
pub fn locks_each() -> usize {
    // SAFETY: set when the server starts.
    unsafe { pg_sys::max_locks_per_xact }.max(0) as usize
}

/// Takes a lock that lasts until the transaction ends, also where its subtransaction is rolled back; does not wait.
pub fn take_for_transaction(tag: &Tag, mode: LockMode) -> Taken {
    // SAFETY: inside a transaction.
    unsafe {
        as_owner(pg_sys::TopTransactionResourceOwner, || {
            acquire(tag, mode, false)
        })
    }
}

/// Rights to do something with a whole table.
#[derive(Clone, Copy)]
pub enum Whole {
    /// To lock headers in place of rows.
    Bulk,
    /// To bring new keys in batches: shared by who has, until his transaction ends.
    Batches,
    /// To bring such a batch now, alone.
    Entering,
    /// To move rows from one chunk to another.
    Moving,
    /// To refresh the rollup whose buckets the table stores.
    Refreshing,
    /// To remove rows of the table whose buckets rollups keep.
    Removing,
}

fn fold(chunk: u64) -> u32 {
    (chunk ^ (chunk >> 32)) as u32 & CHUNK_BITS
}

/// What came of an attempt to take a lock.
#[derive(Clone, Copy, PartialEq)]
pub enum Taken {
    New,
    /// This transaction has it already; it is counted once more.
    Again,
    No,
}

/// Takes a lock for the current part of the transaction, as tuples are locked by its xid; waits for it if `wait` says so.
pub fn take(tag: &Tag, mode: LockMode, wait: bool) -> Taken {
    // SAFETY: inside a transaction.
    unsafe {
        as_owner(pg_sys::CurTransactionResourceOwner, || {
            acquire(tag, mode, wait)
        })
    }
}

/// Gives a lock back before the part of the transaction that has taken it ends.
pub fn release(tag: &Tag, mode: LockMode) {
    // SAFETY: taken by the caller.
    unsafe {
        as_owner(pg_sys::CurTransactionResourceOwner, || {
            pg_sys::LockRelease(&tag.0, mode.as_raw(), false)
        })
    };
}

fn acquire(tag: &Tag, mode: LockMode, wait: bool) -> Taken {
    // SAFETY: a valid tag; inside a transaction.
    match unsafe { pg_sys::LockAcquire(&tag.0, mode.as_raw(), false, !wait) } {
        pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL => Taken::No,
        pg_sys::LockAcquireResult::LOCKACQUIRE_OK => Taken::New,
        _ => Taken::Again,
    }
}

/// Runs `body`, whose locks go with `owner`. A cursor has an owner of its own: where it fails in a savepoint, all that it has ever locked goes, also what it
/// has locked before the savepoint.
///
/// # Safety
/// Inside a transaction, which has `owner`. An error of `body` must abort a part of the transaction, and that sets its own owner.
unsafe fn as_owner<R>(owner: pg_sys::ResourceOwner, body: impl FnOnce() -> R) -> R {
    // SAFETY: by contract.
    unsafe {
        let before = pg_sys::CurrentResourceOwner;
        pg_sys::CurrentResourceOwner = owner;
        let answer = body();
        pg_sys::CurrentResourceOwner = before;
        answer
    }
}

/// Has anybody else a lock that conflicts with `mode`? Nothing is locked, not even for a moment.
pub fn has_conflicts(tag: &Tag, mode: LockMode) -> bool {
    // SAFETY: a valid tag; the list is palloc'd.
    unsafe {
        let mut count = 0;
        let list = pg_sys::GetLockConflicts(&tag.0, mode.as_raw(), &mut count);
        pg_sys::pfree(list.cast());
        count != 0
    }
}

/// Does this transaction have the lock in exactly this mode?
pub fn is_held(tag: &Tag, mode: LockMode) -> bool {
    // SAFETY: a valid tag.
    unsafe {
        #[cfg(feature = "pg15")]
        return pg_sys::LockHeldByMe(&tag.0, mode.as_raw());
        #[cfg(feature = "pg17")]
        return pg_sys::LockHeldByMe(&tag.0, mode.as_raw(), false);
    }
}

unsafe extern "C-unwind" {
    #[cfg(feature = "pg15")]
    fn BackendIdGetTransactionIds(
        backend: i32,
        xid: *mut pg_sys::TransactionId,
        xmin: *mut pg_sys::TransactionId,
    );
    fn TwoPhaseGetXidByVirtualXID(
        virtual_xid: pg_sys::VirtualTransactionId,
        more: *mut bool,
    ) -> pg_sys::TransactionId;
    #[cfg(feature = "pg15")]
    fn BackendIdGetProc(backend: i32) -> *mut pg_sys::PGPROC;
}

/// Transactions of others that hold a lock which conflicts with `mode`. One that has ended meanwhile may be missing.
pub fn holders(tag: &Tag, mode: LockMode) -> Vec<pg_sys::TransactionId> {
    let mut found = Vec::new();
    // SAFETY: the array has `count` entries and lives in the current context.
    unsafe {
        let mut count = 0;
        let list = pg_sys::GetLockConflicts(&tag.0, mode.as_raw(), &mut count);
        for at in 0..count as usize {
            let holder = *list.add(at);
            let mut more = false;
            // What was prepared by now is no longer its backend's.
            found.push(running(holder));
            found.push(pg_sys::ffi::pg_guard_ffi_boundary(|| {
                TwoPhaseGetXidByVirtualXID(holder, &mut more)
            }));
        }
        pg_sys::pfree(list.cast());
    }
    found.retain(|&xid| xid != pg_sys::InvalidTransactionId);
    found.sort_unstable();
    found.dedup();
    found
}

/// The transaction of a holder; none where it has ended, or its backend has left it to be prepared.
fn running(holder: pg_sys::VirtualTransactionId) -> pg_sys::TransactionId {
    #[cfg(feature = "pg15")]
    let backend = (holder.backendId > 0).then_some(holder.backendId);
    #[cfg(feature = "pg17")]
    let backend = (holder.procNumber >= 0).then_some(holder.procNumber);
    let Some(backend) = backend else {
        // Prepared before a restart.
        return pg_sys::TransactionId::from(holder.localTransactionId);
    };
    let xid = xid_of(backend);
    // A backend never comes back to a number, so this one was the holder's when its xid was read.
    match number_of(backend) == Some(holder.localTransactionId) {
        true => xid,
        false => pg_sys::InvalidTransactionId,
    }
}

/// The xid of the transaction that a backend runs, if it has one.
fn xid_of(backend: i32) -> pg_sys::TransactionId {
    let mut xid = pg_sys::InvalidTransactionId;
    let mut xmin = pg_sys::InvalidTransactionId;
    // SAFETY: fills what it is given.
    unsafe {
        #[cfg(feature = "pg15")]
        pg_sys::ffi::pg_guard_ffi_boundary(|| {
            BackendIdGetTransactionIds(backend, &mut xid, &mut xmin);
        });
        #[cfg(feature = "pg17")]
        pg_sys::ProcNumberGetTransactionIds(backend, &mut xid, &mut xmin, &mut 0, &mut false);
    }
    xid
}

/// The number that a backend gave the transaction that it runs; none if the backend is gone.
fn number_of(backend: i32) -> Option<pg_sys::LocalTransactionId> {
    // SAFETY: the entries of processes live in shared memory as long as the server.
    unsafe {
        #[cfg(feature = "pg15")]
        let process = pg_sys::ffi::pg_guard_ffi_boundary(|| BackendIdGetProc(backend));
        #[cfg(feature = "pg17")]
        let process = pg_sys::ProcNumberGetProc(backend);
        if process.is_null() {
            return None;
        }
        #[cfg(feature = "pg15")]
        let number = &raw const (*process).lxid;
        #[cfg(feature = "pg17")]
        let number = &raw const (*process).vxid.lxid;
        Some(number.read_volatile())
    }
}

/// Locks a relation by its OID, until the transaction ends.
pub fn lock_relation(relation: pg_sys::Oid, lock: LockMode) {
    // SAFETY: any OID can be locked.
    unsafe { pg_sys::LockRelationOid(relation, lock.as_raw()) }
}

/// The same where nobody has to be waited for; false where somebody would be.
pub fn try_lock_relation(relation: pg_sys::Oid, lock: LockMode) -> bool {
    // SAFETY: any OID can be locked.
    unsafe { pg_sys::ConditionalLockRelationOid(relation, lock.as_raw()) }
}

/// Locks a relation as an object of the catalog, until the transaction ends: who takes this lock waits for others that take it, and not for
/// those that use the relation.
pub fn lock_as_object(relation: pg_sys::Oid, lock: LockMode) {
    // SAFETY: any OID can be locked.
    unsafe { pg_sys::LockDatabaseObject(pg_sys::RelationRelationId, relation, 0, lock.as_raw()) }
}

/// Waits for the end of all other transactions that have a lock on the table now.
pub fn await_users(table: Table<'_>) {
    // SAFETY: a valid tag.
    unsafe {
        pg_sys::WaitForLockers(
            Tag::table(table.oid()).0,
            LockMode::AccessExclusive.as_raw(),
            false,
        )
    }
}

/// Has any other transaction a lock on the table?
pub fn has_users(table: Table<'_>) -> bool {
    has_conflicts(&Tag::table(table.oid()), LockMode::AccessExclusive)
}
