//! Snapshots: which transactions' work a reader sees.

use super::transaction;
use super::tuple;
use core::marker::PhantomData;
use pgrx::pg_sys;

/// A snapshot that is active or registered, or one of PostgreSQL's that need not be. It may be none: some of PostgreSQL's callbacks
/// get InvalidSnapshot where nothing is to be judged.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Snapshot<'a> {
    snapshot: pg_sys::Snapshot,
    kept: PhantomData<&'a pg_sys::SnapshotData>,
}

/// A snapshot that is registered as long as this lives.
pub struct Registered(pg_sys::Snapshot);

impl Registered {
    pub fn new(snapshot: Snapshot) -> Registered {
        // SAFETY: a valid snapshot, which is copied where it has to be.
        Registered(unsafe { pg_sys::RegisterSnapshot(snapshot.as_ptr()) })
    }

    #[inline]
    pub fn get(&self) -> Snapshot<'_> {
        // SAFETY: registered until this is dropped.
        unsafe { Snapshot::from_ptr(self.0) }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // While an error unwinds, the resource owner does it.
        if !std::thread::panicking() {
            // SAFETY: registered by `new`.
            unsafe { pg_sys::UnregisterSnapshot(self.0) }
        }
    }
}

/// A copy of a snapshot that stays registered until the transaction ends, whatever part of it has made it, or until it is released.
pub struct Kept(pg_sys::Snapshot);

impl Kept {
    /// A copy of the active one, which may be given another command; None where there is none.
    pub fn active() -> Option<Kept> {
        // SAFETY: inside a transaction.
        unsafe {
            if !pg_sys::ActiveSnapshotSet() {
                return None;
            }
            pg_sys::PushCopiedSnapshot(pg_sys::GetActiveSnapshot());
            let owner = pg_sys::TopTransactionResourceOwner;
            let kept = pg_sys::RegisterSnapshotOnOwner(pg_sys::GetActiveSnapshot(), owner);
            pg_sys::PopActiveSnapshot();
            Some(Kept(kept))
        }
    }

    /// To be called in the transaction that has made it.
    pub fn release(self) {
        // SAFETY: registered by `active`.
        unsafe { pg_sys::UnregisterSnapshotFromOwner(self.0, pg_sys::TopTransactionResourceOwner) }
    }
}

/// Does this process hold a snapshot, so that what somebody has replaced since stays where it was?
pub fn any_is_held() -> bool {
    // SAFETY: a backend has an entry of its own.
    unsafe { (*pg_sys::MyProc).xmin != pg_sys::InvalidTransactionId }
}

/// Is there a snapshot besides that of the statement that runs, by which somebody may read later?
pub fn any_is_prior() -> bool {
    // SAFETY: inside a transaction.
    unsafe {
        pg_sys::InvalidateCatalogSnapshot();
        !pg_sys::ThereAreNoPriorRegisteredSnapshots()
    }
}

/// The snapshot of a transaction that reads by one.
pub fn of_transaction<'a>() -> Snapshot<'a> {
    // SAFETY: inside a transaction, which keeps it to its end.
    unsafe { Snapshot::from_ptr(pg_sys::GetTransactionSnapshot()) }
}

/// Runs `body` with a snapshot of this moment as the active one. An error that leaves `body` ends the (sub)transaction, and the snapshot
/// with it.
pub fn with_latest<R>(body: impl FnOnce(Snapshot<'_>) -> R) -> R {
    // SAFETY: inside a transaction; what is pushed is active until it is popped.
    unsafe {
        pg_sys::PushActiveSnapshot(pg_sys::GetLatestSnapshot());
        let result = body(Snapshot::active());
        pg_sys::PopActiveSnapshot();
        result
    }
}

/// Runs `body` with the snapshot of the transaction's statement that is to come as the active one. An error that leaves `body` ends the
/// (sub)transaction, and the snapshot with it.
pub fn with_that_of_transaction<R>(body: impl FnOnce(Snapshot<'_>) -> R) -> R {
    // SAFETY: inside a transaction; what is pushed is active until it is popped.
    unsafe {
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        let result = body(Snapshot::active());
        pg_sys::PopActiveSnapshot();
        result
    }
}

/// Runs `body` with a snapshot that is registered meanwhile. An error that leaves `body` ends the (sub)transaction, and releases it.
pub fn with_registered<R>(snapshot: Snapshot<'_>, body: impl FnOnce(Snapshot<'_>) -> R) -> R {
    // SAFETY: a valid snapshot, which is copied where it has to be; what is registered is valid until it is not.
    unsafe {
        let registered = pg_sys::RegisterSnapshot(snapshot.as_ptr());
        let result = body(Snapshot::from_ptr(registered));
        pg_sys::UnregisterSnapshot(registered);
        result
    }
}

/// A dirty snapshot, as InitDirtySnapshot makes it: it sees what is not committed yet, and says whose that is.
pub fn dirty() -> pg_sys::SnapshotData {
    pg_sys::SnapshotData {
        snapshot_type: pg_sys::SnapshotType::SNAPSHOT_DIRTY,
        ..Default::default()
    }
}

/// What a dirty snapshot sees of a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is not there, and will not be.
    Gone,
    /// A transaction in progress has written it.
    Coming(pg_sys::TransactionId),
    /// It is there, or has been written by this transaction.
    There,
}

/// Is a tuple there, or about to be? Notes on the tuple what became of its transactions, where that is known.
///
/// # Safety
/// `tuple` must be on the page in `buffer`, which is pinned and locked.
pub unsafe fn presence(tuple: &mut pg_sys::HeapTupleData, buffer: pg_sys::Buffer) -> Presence {
    let mut dirty = dirty();
    // SAFETY: the caller sees to the page.
    let is_there = unsafe { pg_sys::HeapTupleSatisfiesVisibility(tuple, &mut dirty, buffer) };
    if !is_there {
        Presence::Gone
    } else if dirty.xmin != pg_sys::InvalidTransactionId {
        Presence::Coming(dirty.xmin)
    } else {
        Presence::There
    }
}

/// The place of a snapshot in memory, and its command. While a reader that keeps it runs, its snapshot is there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stamp(usize, pg_sys::CommandId);

impl Stamp {
    /// Of no snapshot.
    pub const NONE: Stamp = Stamp(0, 0);
}

impl Snapshot<'static> {
    /// Sees all tuples.
    #[inline]
    pub fn any() -> Self {
        Snapshot {
            snapshot: core::ptr::addr_of_mut!(pg_sys::SnapshotAnyData),
            kept: PhantomData,
        }
    }

    /// None: PostgreSQL's InvalidSnapshot.
    pub const NONE: Self = Snapshot {
        snapshot: core::ptr::null_mut(),
        kept: PhantomData,
    };

    /// Sees what is committed by the time that it looks, and all that this transaction has done.
    #[inline]
    pub fn now() -> Self {
        Snapshot {
            snapshot: core::ptr::addr_of_mut!(pg_sys::SnapshotSelfData),
            kept: PhantomData,
        }
    }
}

impl<'a> Snapshot<'a> {
    /// A snapshot that PostgreSQL hands out.
    ///
    /// # Safety
    /// `snapshot` must be null, or valid as long as the handle is used.
    #[inline]
    pub unsafe fn from_ptr(snapshot: pg_sys::Snapshot) -> Snapshot<'a> {
        Snapshot {
            snapshot,
            kept: PhantomData,
        }
    }

    /// The snapshot of the statement that runs.
    ///
    /// # Safety
    /// It must stay active as long as the handle is used.
    #[inline]
    pub unsafe fn active() -> Snapshot<'a> {
        // SAFETY: by contract.
        unsafe { Snapshot::from_ptr(pg_sys::GetActiveSnapshot()) }
    }

    /// Of this moment.
    ///
    /// # Safety
    /// Until it is registered, it lasts until the next one is taken.
    #[inline]
    pub unsafe fn latest() -> Snapshot<'a> {
        // SAFETY: by contract.
        unsafe { Snapshot::from_ptr(pg_sys::GetLatestSnapshot()) }
    }

    /// For PostgreSQL's functions.
    #[inline]
    pub fn as_ptr(self) -> pg_sys::Snapshot {
        self.snapshot
    }

    /// Where it is in memory.
    #[inline]
    pub fn address(self) -> usize {
        self.snapshot.addr()
    }

    #[inline]
    pub fn is_none(self) -> bool {
        self.snapshot.is_null()
    }

    #[inline]
    fn known(self) -> Option<&'a pg_sys::SnapshotData> {
        // SAFETY: null or valid as long as the handle is used, as `from_ptr` asks.
        unsafe { self.snapshot.as_ref() }
    }

    #[inline]
    fn data(self) -> &'a pg_sys::SnapshotData {
        self.known().expect("BUG: no snapshot to look into")
    }

    #[inline]
    fn is(self, kind: pg_sys::SnapshotType::Type) -> bool {
        self.known()
            .is_some_and(|snapshot| snapshot.snapshot_type == kind)
    }

    /// Is it one of a statement or a transaction?
    #[inline]
    pub fn is_mvcc(self) -> bool {
        self.is(pg_sys::SnapshotType::SNAPSHOT_MVCC)
    }

    /// Was it taken while the server followed another one?
    pub fn is_of_standby(self) -> bool {
        self.data().takenDuringRecovery
    }

    /// Does it see all tuples?
    #[inline]
    pub fn is_any(self) -> bool {
        self.is(pg_sys::SnapshotType::SNAPSHOT_ANY)
    }

    /// Does it see what is not committed yet, and say whose that is?
    #[inline]
    pub fn is_dirty(self) -> bool {
        self.is(pg_sys::SnapshotType::SNAPSHOT_DIRTY)
    }

    /// It sees what this transaction's commands before this one have done.
    #[inline]
    pub fn command(self) -> pg_sys::CommandId {
        self.data().curcid
    }

    /// What tells it from others.
    #[inline]
    pub fn stamp(self) -> Stamp {
        Stamp(self.snapshot.addr(), self.command())
    }

    /// All transactions before this one had ended; one of a dirty snapshot's own: who has written the tuple that it looked at.
    #[inline]
    pub fn xmin(self) -> pg_sys::TransactionId {
        self.data().xmin
    }

    /// This transaction and all that come after it had not ended.
    #[inline]
    pub fn xmax(self) -> pg_sys::TransactionId {
        self.data().xmax
    }

    /// The position in the log when it was taken, where old_snapshot_threshold wants that known.
    #[cfg(feature = "pg15")]
    pub(super) fn log_position(self) -> u64 {
        self.data().lsn
    }

    /// The transactions, and the subtransactions, that were running, as it lists them: one that is being prepared may be there twice. A
    /// copy does not list subtransactions where there were too many.
    pub fn running(self) -> (&'a [pg_sys::TransactionId], &'a [pg_sys::TransactionId]) {
        let snapshot = self.data();
        // SAFETY: the snapshot has so many of each, and lives as long as this.
        unsafe {
            let list = |first: *mut pg_sys::TransactionId, count: usize| {
                if first.is_null() || count == 0 {
                    return &[][..];
                }
                core::slice::from_raw_parts(first, count)
            };
            let of_parts = list(snapshot.subxip, snapshot.subxcnt as usize);
            (list(snapshot.xip, snapshot.xcnt as usize), of_parts)
        }
    }

    /// How many transactions had ended by the time that it was taken, since the server started. A copy says 0, as active snapshots are.
    #[inline]
    pub fn completions(self) -> u64 {
        self.data().snapXactCompletionCount
    }

    /// Takes from a dirty snapshot what it says of who has written a tuple.
    pub fn clear_answer(self) {
        if self.is_dirty() {
            // SAFETY: what a dirty snapshot says is there to be written, by whoever looks with it.
            unsafe {
                (*self.snapshot).xmin = pg_sys::InvalidTransactionId;
                (*self.snapshot).xmax = pg_sys::InvalidTransactionId;
            }
        }
    }

    /// Had the transaction not ended when it was taken? To be asked of one of a statement or a transaction.
    #[inline]
    pub fn is_running(self, transaction: pg_sys::TransactionId) -> bool {
        // Most have, and that is told without a call.
        if transaction::precedes(transaction, self.data().xmin) {
            return false;
        }
        // SAFETY: a snapshot that is there.
        unsafe {
            let snapshot: *const _ = self.data();
            pg_sys::XidInMVCCSnapshot(transaction, snapshot.cast_mut())
        }
    }

    /// What it sees without a call.
    #[inline]
    pub fn plainly(self) -> Plainly {
        Plainly {
            before: self.is_mvcc().then(|| self.data().xmin),
        }
    }

    /// Does it see a tuple? Notes on the tuple what became of its transactions, where that is known.
    ///
    /// # Safety
    /// `tuple` must be on the page in `buffer`, which is pinned and locked.
    #[inline]
    pub unsafe fn sees(self, tuple: &mut pg_sys::HeapTupleData, buffer: pg_sys::Buffer) -> bool {
        // SAFETY: by contract.
        unsafe {
            self.plainly().sees(tuple.t_data)
                || pg_sys::HeapTupleSatisfiesVisibility(tuple, self.snapshot, buffer)
        }
    }
}

/// Tuples that a snapshot sees, as most are seen: nobody has touched them, and their writers had ended before all who were running.
#[derive(Clone, Copy)]
pub struct Plainly {
    before: Option<pg_sys::TransactionId>,
}

impl Plainly {
    /// Is it such a tuple?
    ///
    /// # Safety
    /// It must be on a page that is pinned and locked.
    #[inline]
    pub unsafe fn sees(self, tuple: pg_sys::HeapTupleHeader) -> bool {
        // SAFETY: by contract.
        self.before.is_some_and(|before| unsafe {
            tuple::is_plainly_there(tuple) && transaction::precedes(tuple::raw_xmin(tuple), before)
        })
    }
}
