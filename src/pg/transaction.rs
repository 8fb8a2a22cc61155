//! What a session keeps until its transaction ends. `PerTransaction` is the only place for it: each value registers itself when
//! it is first used, and all of them are emptied at the one place where core tells that a transaction, or a part of it, has ended.
//! That is at commit, at abort, which is what an error comes to, and at PREPARE TRANSACTION.

use super::bare;
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::thread::LocalKey;

/// A value that is empty when a transaction begins.
#[derive(Default)]
pub struct PerTransaction<T> {
    value: RefCell<T>,
    is_registered: Cell<bool>,
    /// Goes with any part of a transaction.
    ends_with_parts: bool,
}

impl<T: Default> PerTransaction<T> {
    /// A value that is emptied too whenever a subtransaction ends, by commit or abort.
    pub fn until_a_part_ends() -> PerTransaction<T> {
        PerTransaction {
            ends_with_parts: true,
            ..PerTransaction::default()
        }
    }
}

trait Ending {
    fn ends_with_parts(&'static self) -> bool;
    /// The transaction has ended.
    fn end(&'static self);
    /// A part of it has ended.
    fn empty(&'static self);
}

impl<T: Default + 'static> Ending for LocalKey<PerTransaction<T>> {
    fn ends_with_parts(&'static self) -> bool {
        self.with(|kept| kept.ends_with_parts)
    }

    fn end(&'static self) {
        self.with(|kept| kept.is_registered.set(false));
        self.empty();
    }

    fn empty(&'static self) {
        // What goes is dropped when the value can be used again.
        drop(self.take());
    }
}

thread_local! {
    /// What has been used in this transaction.
    static USED: RefCell<Vec<&'static dyn Ending>> = const { RefCell::new(Vec::new()) };
}

/// How values are used: as those of a `RefCell` in a `thread_local!`.
pub trait Access<T> {
    fn with_borrow<R>(&'static self, body: impl FnOnce(&T) -> R) -> R;
    fn with_borrow_mut<R>(&'static self, body: impl FnOnce(&mut T) -> R) -> R;
    fn replace(&'static self, value: T) -> T;
    /// Leaves it empty, so that there is nothing more to do at the end for its sake.
    fn take(&'static self) -> T;
}

impl<T: Default + 'static> Access<T> for LocalKey<PerTransaction<T>> {
    fn with_borrow<R>(&'static self, body: impl FnOnce(&T) -> R) -> R {
        self.with(|kept| body(&kept.value.borrow()))
    }

    fn with_borrow_mut<R>(&'static self, body: impl FnOnce(&mut T) -> R) -> R {
        self.with(|kept| {
            if !kept.is_registered.replace(true) {
                USED.with_borrow_mut(|used| used.push(self));
            }
            body(&mut kept.value.borrow_mut())
        })
    }

    fn replace(&'static self, value: T) -> T {
        self.with_borrow_mut(|old| core::mem::replace(old, value))
    }

    fn take(&'static self) -> T {
        self.with(|kept| kept.value.take())
    }
}

/// Registers for the ends of transactions and of their parts. Called once, when the library is loaded.
pub fn init() {
    // libc looks up what registers a destructor, among the symbols of all libraries, when a thread-local value first has one. Backends have the answer from the postmaster, if it is
    // asked there.
    USED.with_borrow(Vec::is_empty);
    // SAFETY: the callbacks live as long as the library.
    unsafe {
        pg_sys::RegisterXactCallback(Some(transaction_event), core::ptr::null_mut());
        pg_sys::RegisterSubXactCallback(Some(subtransaction_event), core::ptr::null_mut());
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn transaction_event(
    event: pg_sys::XactEvent::Type,
    _arg: *mut core::ffi::c_void,
) {
    match event {
        pg_sys::XactEvent::XACT_EVENT_COMMIT
        | pg_sys::XactEvent::XACT_EVENT_ABORT
        | pg_sys::XactEvent::XACT_EVENT_PREPARE
        | pg_sys::XactEvent::XACT_EVENT_PARALLEL_COMMIT
        | pg_sys::XactEvent::XACT_EVENT_PARALLEL_ABORT => {
            let mut used = USED.take();
            used.drain(..).for_each(|kept| kept.end());
            // The next transaction uses its memory, unless values that went have used others.
            USED.with_borrow_mut(|now| {
                if now.is_empty() {
                    *now = used;
                }
            });
        }
        _ => {}
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn subtransaction_event(
    event: pg_sys::SubXactEvent::Type,
    _sub: pg_sys::SubTransactionId,
    _parent: pg_sys::SubTransactionId,
    _arg: *mut core::ffi::c_void,
) {
    if matches!(
        event,
        pg_sys::SubXactEvent::SUBXACT_EVENT_COMMIT_SUB
            | pg_sys::SubXactEvent::SUBXACT_EVENT_ABORT_SUB
    ) {
        let used = USED.with_borrow(Vec::clone);
        let parts = used.into_iter().filter(|kept| kept.ends_with_parts());
        parts.for_each(|kept| kept.empty());
    }
}

/// Is the transaction this one, or a part of it that has not been rolled back?
#[inline]
pub fn is_current(transaction: pg_sys::TransactionId) -> bool {
    // SAFETY: looks into this backend's memory; any number will do.
    unsafe { bare::TransactionIdIsCurrentTransactionId(transaction) }
}

/// Is a transaction running, as far as the server knows?
#[inline]
pub fn is_in_progress(transaction: pg_sys::TransactionId) -> bool {
    // SAFETY: any number will do.
    unsafe { pg_sys::TransactionIdIsInProgress(transaction) }
}

/// Has a transaction committed? To be asked of one that is not running, and not frozen.
#[inline]
pub fn did_commit(transaction: pg_sys::TransactionId) -> bool {
    // SAFETY: raises an error where the log does not reach back so far.
    unsafe { pg_sys::TransactionIdDidCommit(transaction) }
}

/// TransactionIdPrecedes: does a number come before another in the circle of numbers? Those that are no real ones come before all.
#[inline]
pub fn precedes(one: pg_sys::TransactionId, other: pg_sys::TransactionId) -> bool {
    let (one, other) = (one.into_inner(), other.into_inner());
    let is_real = |xid: u32| xid >= pg_sys::FirstNormalTransactionId.into_inner();
    if is_real(one) && is_real(other) {
        (one.wrapping_sub(other) as i32) < 0
    } else {
        one < other
    }
}

/// The number of this transaction, or of the part of it that runs. It is given one where it has none.
#[inline]
pub fn id() -> pg_sys::TransactionId {
    // SAFETY: raises an error where none can be given.
    unsafe { pg_sys::GetCurrentTransactionId() }
}

/// The number of the whole of this transaction, which is given one where it has none.
#[inline]
pub fn top_id() -> pg_sys::TransactionId {
    // SAFETY: as above.
    unsafe { pg_sys::GetTopTransactionId() }
}

/// Others may make this transaction a member of multixacts from now on: VACUUM freezes none of them while it runs.
pub fn may_be_in_multixacts() {
    // SAFETY: inside a transaction.
    unsafe { pg_sys::MultiXactIdSetOldestMember() };
}

/// Is a transaction in progress, whose current part has not failed? Else nothing can be looked up.
pub fn is_sound() -> bool {
    // SAFETY: reads this backend's memory.
    unsafe { pg_sys::IsTransactionState() }
}

/// The outermost part of each transaction: TopSubTransactionId.
pub const OUTERMOST: pg_sys::SubTransactionId = 1;

/// The part of the transaction that runs.
#[inline]
pub fn part() -> pg_sys::SubTransactionId {
    // SAFETY: reads this backend's memory.
    unsafe { bare::GetCurrentSubTransactionId() }
}

/// The command that runs; `writes` where it marks tuples.
#[inline]
pub fn command(writes: bool) -> pg_sys::CommandId {
    // SAFETY: raises an error where a parallel worker is about to write.
    unsafe { pg_sys::GetCurrentCommandId(writes) }
}

/// What has been done by now, the next command sees.
#[inline]
pub fn next_command() {
    // SAFETY: raises an error where a parallel worker has written.
    unsafe { pg_sys::CommandCounterIncrement() }
}

/// When the transaction started, in microseconds.
#[inline]
pub fn started() -> i64 {
    // SAFETY: reads this backend's memory.
    unsafe { bare::GetCurrentTransactionStartTimestamp() }
}

/// When the statement started that the client has sent, in microseconds.
#[inline]
pub fn statement_started() -> i64 {
    // SAFETY: reads this backend's memory.
    unsafe { bare::GetCurrentStatementStartTimestamp() }
}

/// Has the transaction one snapshot for all its statements?
#[inline]
pub fn keeps_its_snapshot() -> bool {
    // SAFETY: set when the transaction begins.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32 }
}

/// Is it SERIALIZABLE?
#[inline]
pub fn is_serializable() -> bool {
    // SAFETY: set when the transaction begins.
    unsafe { pg_sys::XactIsoLevel == pg_sys::XACT_SERIALIZABLE as i32 }
}

/// Raises an error on a standby.
pub fn prevent_in_recovery(command: &'static CStr) {
    // SAFETY: raises an error, or does nothing.
    unsafe { pg_sys::PreventCommandDuringRecovery(command.as_ptr()) }
}

/// Raises an error in a transaction that is read only.
pub fn prevent_if_read_only(command: &'static CStr) {
    // SAFETY: raises an error, or does nothing.
    unsafe { pg_sys::PreventCommandIfReadOnly(command.as_ptr()) }
}

/// What tells the transactions of this process from one another.
pub fn local_id() -> u32 {
    // SAFETY: a backend has an entry of its own.
    unsafe {
        #[cfg(feature = "pg15")]
        return (*pg_sys::MyProc).lxid;
        #[cfg(feature = "pg17")]
        return (*pg_sys::MyProc).vxid.lxid;
    }
}

/// Is it the id of a transaction, and none of those that stand for something else?
pub fn is_normal(transaction: pg_sys::TransactionId) -> bool {
    pg_sys::TransactionIdIsNormal(transaction)
}

/// The members of a multixact whose locks or changes conflict with a lock on the tuple, as heap's table of row locks has it.
pub fn conflicting_members(
    multi: pg_sys::TransactionId,
    only_locks: bool,
    mode: pg_sys::LockTupleMode::Type,
) -> Vec<pg_sys::TransactionId> {
    use pg_sys::{LockTupleMode as Mode, MultiXactStatus as Status};
    let conflicts = |status: Status::Type| match mode {
        Mode::LockTupleKeyShare => [
            Status::MultiXactStatusForUpdate,
            Status::MultiXactStatusUpdate,
        ]
        .contains(&status),
        Mode::LockTupleShare => status >= Status::MultiXactStatusForNoKeyUpdate,
        Mode::LockTupleNoKeyExclusive => status >= Status::MultiXactStatusForShare,
        _ => true,
    };
    // SAFETY: the members are palloc'd, as many as are returned.
    unsafe {
        let mut members = core::ptr::null_mut();
        let count = pg_sys::GetMultiXactIdMembers(multi, &mut members, false, only_locks);
        (0..count.max(0) as usize)
            .map(|at| *members.add(at))
            .filter(|member| conflicts(member.status))
            .map(|member| member.xid)
            .collect()
    }
}

/// Does the server run for pg_upgrade, which brings files of tables afterwards?
pub fn is_binary_upgrade() -> bool {
    // SAFETY: a flag of the server's.
    unsafe { pg_sys::IsBinaryUpgrade }
}
