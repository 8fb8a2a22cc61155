//! Reading pages of a relation: a cursor that keeps one page pinned, and walks over line pointers.

use super::bare;
use super::descriptor::Descriptor;
use super::lock_mode::LockMode;
use super::relation::{Relation, Table};
use super::tid::{self, Tid};
use super::tuple::{self, TUPLE_HEADER_BYTES};
use pgrx::pg_sys;
use std::marker::PhantomData;

const LP_NORMAL: u32 = 1;
const LP_DEAD: u32 = 3;
const PAGE_HEADER_BYTES: usize = 24;
/// What is free on a page without tuples.
pub const EMPTY_BYTES: usize = pg_sys::BLCKSZ as usize - PAGE_HEADER_BYTES;
const POINTER_BYTES: usize = 4;
/// Most tuples of a page of a table: MaxHeapTuplesPerPage.
const MOST_TUPLES: usize = EMPTY_BYTES / (24 + POINTER_BYTES);
/// What is free on a page that heap takes for empty whatever the fill factor is: nearlyEmptyFreeSpace (hio.c), and the next line pointer.
pub const NEARLY_EMPTY_BYTES: usize =
    MOST_TUPLE_BYTES - MOST_TUPLES / 8 * POINTER_BYTES + POINTER_BYTES;
/// The largest tuple of a table: MaxHeapTupleSize.
pub const MOST_TUPLE_BYTES: usize = EMPTY_BYTES - POINTER_BYTES.next_multiple_of(8);
/// Where pd_prune_xid is.
pub(super) const PRUNABLE_BY: usize = 20;
const BUFFER_LOCK_UNLOCK: i32 = 0;
const BUFFER_LOCK_SHARE: i32 = 1;

/// One line pointer's tuple, on a page that stays pinned for `'p`. Others may write header fields unless it is locked.
#[derive(Clone, Copy)]
pub struct PageTuple<'p> {
    pub tid: Tid,
    header: pg_sys::HeapTupleHeader,
    len: u32,
    page: PhantomData<&'p ()>,
}

impl<'p> PageTuple<'p> {
    /// A tuple that core's functions have found.
    ///
    /// # Safety
    /// `found` must name a tuple that is there as long as it is lent, on a page that is pinned, or in memory.
    #[inline]
    pub unsafe fn of(found: &'p pg_sys::HeapTupleData) -> PageTuple<'p> {
        PageTuple {
            tid: tid::from_pg(&found.t_self),
            header: found.t_data,
            len: found.t_len,
            page: PhantomData,
        }
    }

    /// Its header, for functions that read one. Who uses it must have this tuple still.
    #[inline]
    pub fn header(self) -> pg_sys::HeapTupleHeader {
        self.header
    }

    /// How long it is, with its header.
    #[inline]
    pub fn bytes(self) -> u32 {
        self.len
    }

    /// How many columns a tuple of a table has.
    #[inline]
    pub fn attribute_count(self) -> u16 {
        // SAFETY: its header and what it counts as its own are there for `'p`.
        unsafe { tuple::attribute_count(self.header) }
    }

    /// Where the values of a tuple of a table begin.
    #[inline]
    pub fn values(self) -> *const u8 {
        // SAFETY: its header is there for `'p`, and says how long it is.
        unsafe { self.header.cast::<u8>().add((*self.header).t_hoff.into()) }
    }

    /// Is any of them null?
    #[inline]
    pub fn has_nulls(self) -> bool {
        // SAFETY: its header is there for `'p`.
        unsafe { tuple::has_nulls(self.header) }
    }

    /// The bytes after the header of a tuple of a table.
    #[inline]
    pub fn body(self) -> &'p [u8] {
        // SAFETY: its header and what it counts as its own are there for `'p`.
        unsafe { tuple::body(self.header, self.len) }
    }

    /// Its values, and which of them are null. What they point to is there as long as the tuple.
    ///
    /// # Safety
    /// It must be one of the descriptor.
    pub unsafe fn take_apart(
        self,
        descriptor: Descriptor<'_>,
        values: &mut [pg_sys::Datum],
        nulls: &mut [bool],
    ) {
        let mut found = self.to_heap_tuple(pg_sys::InvalidOid);
        // SAFETY: by contract.
        unsafe { tuple::take_apart(&mut found, descriptor, values, nulls) }
    }

    /// A descriptor for core's functions. Who uses it must have this tuple still.
    pub fn to_heap_tuple(self, table: pg_sys::Oid) -> pg_sys::HeapTupleData {
        pg_sys::HeapTupleData {
            t_len: self.len,
            t_self: tid::to_pg(self.tid),
            t_tableOid: table,
            t_data: self.header,
        }
    }
}

/// What VACUUM takes a tuple for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TupleState {
    /// Its writer has committed, and nobody has deleted it.
    Live,
    /// Its writer is in progress.
    Coming,
    /// Who deletes it is in progress.
    Going,
    /// It is deleted, and somebody may still see it.
    RecentlyDead,
    /// It was never there, or nobody can see it.
    Dead,
}

/// Keeps at most one page of `relation` pinned; moving to another page releases it.
pub struct PageCursor<'a> {
    relation: Relation<'a>,
    buffer: pg_sys::Buffer,
    block: u32,
    strategy: pg_sys::BufferAccessStrategy,
}

impl<'a> PageCursor<'a> {
    /// `relation` must stay open as long as the cursor lives.
    pub fn new(relation: impl Into<Relation<'a>>) -> Self {
        PageCursor {
            relation: relation.into(),
            buffer: 0,
            block: pg_sys::InvalidBlockNumber,
            strategy: core::ptr::null_mut(),
        }
    }

    pub fn relation(&self) -> Relation<'a> {
        self.relation
    }

    pub fn buffer(&self) -> pg_sys::Buffer {
        self.buffer
    }

    /// Pins `block`, which must exist.
    pub fn go(&mut self, block: u32) {
        if self.buffer != 0 && self.block == block {
            return;
        }
        self.release();
        // SAFETY: the relation is open; errors unwind before `buffer` is set.
        self.buffer = unsafe {
            pg_sys::ReadBufferExtended(
                self.relation.as_ptr(),
                pg_sys::ForkNumber::MAIN_FORKNUM,
                block,
                pg_sys::ReadBufferMode::RBM_NORMAL,
                self.strategy,
            )
        };
        self.block = block;
    }

    /// Pins `block` where it is still in the shared `buffer` that it was in before.
    pub fn go_again(&mut self, block: u32, buffer: pg_sys::Buffer) -> bool {
        if self.buffer != 0 && self.block == block {
            return true;
        }
        self.release();
        // SAFETY: the relation is open, and the buffer one of the server's.
        let is_there = unsafe {
            #[cfg(feature = "pg15")]
            let file = (*self.relation.as_ptr()).rd_node;
            #[cfg(feature = "pg17")]
            let file = (*self.relation.as_ptr()).rd_locator;
            let main = pg_sys::ForkNumber::MAIN_FORKNUM;
            pg_sys::ReadRecentBuffer(file, main, block, buffer)
        };
        if is_there {
            (self.buffer, self.block) = (buffer, block);
        }
        is_there
    }

    /// Is a tuple of the pinned page, share-locked by `locked`, dead to all snapshots? The answer may be no where it is yes.
    ///
    /// # Safety
    /// The tuple must be on that page, and the page locked.
    pub unsafe fn is_surely_dead(&self, item: PageTuple<'_>) -> bool {
        let mut found = item.to_heap_tuple(self.relation.oid());
        // SAFETY: by contract; the relation is open.
        unsafe {
            let horizon = pg_sys::GlobalVisTestFor(self.relation.as_ptr());
            pg_sys::HeapTupleIsSurelyDead(&mut found, horizon)
        }
    }

    /// What VACUUM would take a tuple for, of which transactions from `horizon` on may still see what it was. Notes on the tuple what became
    /// of its transactions, where that is known.
    ///
    /// # Safety
    /// The tuple must be on the page that the cursor has locked.
    pub unsafe fn state_of(
        &self,
        _locked: &Page<'_>,
        item: PageTuple<'_>,
        horizon: pg_sys::TransactionId,
    ) -> TupleState {
        use pg_sys::HTSV_Result::*;
        let mut found = item.to_heap_tuple(self.relation.oid());
        // SAFETY: by contract.
        match unsafe { pg_sys::HeapTupleSatisfiesVacuum(&mut found, horizon, self.buffer) } {
            HEAPTUPLE_LIVE => TupleState::Live,
            HEAPTUPLE_INSERT_IN_PROGRESS => TupleState::Coming,
            HEAPTUPLE_DELETE_IN_PROGRESS => TupleState::Going,
            HEAPTUPLE_RECENTLY_DEAD => TupleState::RecentlyDead,
            _ => TupleState::Dead,
        }
    }

    /// Prunes the pinned page of a heap where that is worth it, as its scans do.
    pub fn prune(&self) {
        // SAFETY: the page is pinned, and not locked.
        unsafe { pg_sys::heap_page_prune_opt(self.relation.as_ptr(), self.buffer) }
    }

    pub fn release(&mut self) {
        if self.buffer != 0 {
            // SAFETY: pinned by `go`.
            unsafe { bare::ReleaseBuffer(self.buffer) };
            self.buffer = 0;
            self.block = pg_sys::InvalidBlockNumber;
        }
    }

    /// Runs `body` with the pinned page share-locked. The lock ends with `body`, but its tuples are there as long as the cursor is lent.
    pub fn locked<'c, R>(&'c self, body: impl FnOnce(&Page<'c>) -> R) -> R {
        // SAFETY: the buffer is pinned, and stays so until the cursor is moved or dropped, which it cannot be while it is lent.
        unsafe { share_locked(self.buffer, self.block, body) }
    }

    /// The tuple at `tid`, if there is a normal line pointer; its page stays pinned as long as the tuple is used. The relation must be locked.
    pub fn tuple_at(&mut self, tid: Tid) -> Option<PageTuple<'_>> {
        self.pinned_at(tid).map(|(_, item)| item)
    }

    /// The same, in a relation of which the caller knows how many blocks it has.
    pub fn tuple(&mut self, tid: Tid, blocks: u32) -> Option<PageTuple<'_>> {
        self.pinned(tid, blocks).map(|(_, item)| item)
    }

    /// `tuple_at` for who needs the cursor, too, while he has the tuple: to lock the page again, say.
    pub fn pinned_at(&mut self, tid: Tid) -> Option<(&Self, PageTuple<'_>)> {
        if !self.relation.has_block(tid.block) {
            return None;
        }
        self.pinned(tid, tid.block + 1)
    }

    /// The same of `tuple`.
    pub fn pinned(&mut self, tid: Tid, blocks: u32) -> Option<(&Self, PageTuple<'_>)> {
        if tid.block >= blocks {
            return None;
        }
        self.go(tid.block);
        // From here on it is lent as what does not move.
        let here = &*self;
        let item = here.locked(|page| page.tuple(tid.offset))?;
        Some((here, item))
    }
}

/// Runs `body` with a pinned page share-locked. Nothing that the page lends leaves it.
///
/// # Safety
/// `buffer` must be pinned, and have page `block`.
pub unsafe fn locked<R>(
    buffer: pg_sys::Buffer,
    block: u32,
    body: impl FnOnce(&Page<'_>) -> R,
) -> R {
    // SAFETY: by contract; `body` is one for all lifetimes, so this one is over with the call.
    unsafe { share_locked(buffer, block, body) }
}

/// Lets the processor fetch the first lines of a tuple from memory. The page is not locked: whatever its line pointers are just then, it is but a hint.
///
/// # Safety
/// `buffer` must be pinned.
pub unsafe fn prefetch_tuple(buffer: pg_sys::Buffer, offset: u16) {
    const LINE_BYTES: usize = 64;
    const MOST_LINES: usize = 6;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: by contract; the line pointer and what is named lie on the page.
    unsafe {
        use core::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        let page = pg_sys::BufferGetPage(buffer).cast::<u8>();
        let end = pg_sys::BLCKSZ as usize;
        let at = PAGE_HEADER_BYTES + 4 * usize::from(offset).saturating_sub(1);
        if at + 4 > end {
            return;
        }
        let item = page.add(at).cast::<u32>().read_volatile();
        let start = (item & 0x7fff) as usize;
        let stop = (start + MOST_LINES * LINE_BYTES).min(end);
        for line in (start..stop).step_by(LINE_BYTES) {
            _mm_prefetch::<_MM_HINT_T0>(page.add(line).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (buffer, offset, LINE_BYTES, MOST_LINES);
}

/// The same for a `body` that returns what the page lends.
///
/// # Safety
/// `buffer` must have page `block`, and be pinned for `'p`.
unsafe fn share_locked<'p, R>(
    buffer: pg_sys::Buffer,
    block: u32,
    body: impl FnOnce(&Page<'p>) -> R,
) -> R {
    // SAFETY: by contract; should `body` raise an error, abort releases the lock.
    unsafe {
        bare::LockBuffer(buffer, BUFFER_LOCK_SHARE);
        let result = body(&Page::of(pg_sys::BufferGetPage(buffer), block));
        bare::LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
        result
    }
}

impl Drop for PageCursor<'_> {
    fn drop(&mut self) {
        // While an error unwinds, the resource owner releases the pin.
        if !std::thread::panicking() {
            self.release();
        }
    }
}

/// Runs `body` with a page of a table locked for changes of it, and the buffer that it is in. Nothing that the page lends leaves it. Should `body`
/// raise an error, abort releases the lock.
pub fn locked_for_change<R>(
    table: Table<'_>,
    block: u32,
    body: impl FnOnce(&Page<'_>, pg_sys::Buffer) -> R,
) -> R {
    const BUFFER_LOCK_EXCLUSIVE: i32 = 2;
    // SAFETY: the table is open; the page is pinned and locked while `body` runs.
    unsafe {
        let buffer = pg_sys::ReadBuffer(table.as_ptr(), block);
        pg_sys::LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
        let page = Page::of(pg_sys::BufferGetPage(buffer), block);
        let result = body(&page, buffer);
        pg_sys::UnlockReleaseBuffer(buffer);
        result
    }
}

/// What keeps a command from changing a tuple; TM_Ok where nothing does. Notes on the tuple what became of its transactions, where that is
/// known.
///
/// # Safety
/// The tuple must be on the page in `buffer`, which is pinned and locked.
pub unsafe fn changeable(
    table: Table<'_>,
    item: PageTuple<'_>,
    command: pg_sys::CommandId,
    buffer: pg_sys::Buffer,
) -> pg_sys::TM_Result::Type {
    let mut found = item.to_heap_tuple(table.oid());
    // SAFETY: by contract.
    unsafe { pg_sys::HeapTupleSatisfiesUpdate(&mut found, command, buffer) }
}

/// Extends a table by an empty page, and returns its number.
pub fn extend(table: Table<'_>) -> u32 {
    let exclusive = LockMode::Exclusive.as_raw();
    // SAFETY: the extension lock orders extenders; an empty page is initialised as heap does it, and the first insertion logs the
    // initialisation.
    unsafe {
        pg_sys::LockRelationForExtension(table.as_ptr(), exclusive);
        let buffer = pg_sys::ReadBufferExtended(
            table.as_ptr(),
            pg_sys::ForkNumber::MAIN_FORKNUM,
            pg_sys::InvalidBlockNumber,
            pg_sys::ReadBufferMode::RBM_ZERO_AND_LOCK,
            core::ptr::null_mut(),
        );
        pg_sys::UnlockRelationForExtension(table.as_ptr(), exclusive);
        pg_sys::PageInit(pg_sys::BufferGetPage(buffer), pg_sys::BLCKSZ as usize, 0);
        pg_sys::MarkBufferDirty(buffer);
        let block = pg_sys::BufferGetBlockNumber(buffer);
        pg_sys::UnlockReleaseBuffer(buffer);
        block
    }
}

/// A page that stays pinned for `'p`.
pub struct Page<'p> {
    data: pg_sys::Page,
    block: u32,
    pin: PhantomData<&'p ()>,
}

impl<'p> Page<'p> {
    /// # Safety
    /// `data` must be a page that stays in memory, or a copy of one, for `'p`.
    pub unsafe fn of(data: pg_sys::Page, block: u32) -> Self {
        Page {
            data,
            block,
            pin: PhantomData,
        }
    }

    pub fn as_ptr(&self) -> pg_sys::Page {
        self.data
    }

    pub fn line_pointers(&self) -> u16 {
        // SAFETY: pd_lower sits at byte 12 of every page; a new page has 0 there.
        let lower = unsafe {
            self.data
                .cast::<u8>()
                .add(12)
                .cast::<u16>()
                .read_unaligned()
        };
        (usize::from(lower).saturating_sub(PAGE_HEADER_BYTES) / 4) as u16
    }

    /// Bytes between the line pointers and the tuples. A page that nobody has used yet, all zeros, has those of an empty one, which heap makes of it.
    pub fn free_bytes(&self) -> usize {
        // SAFETY: pd_lower and pd_upper sit at bytes 12 and 14 of every page.
        let (lower, upper) = unsafe {
            let bounds = self.data.cast::<u8>().add(12).cast::<u16>();
            (bounds.read_unaligned(), bounds.add(1).read_unaligned())
        };
        match upper {
            0 => EMPTY_BYTES,
            _ => usize::from(upper).saturating_sub(usize::from(lower)),
        }
    }

    /// Is the line pointer normal, redirected or dead?
    pub fn is_used(&self, offset: u16) -> bool {
        self.flags(offset) != 0
    }

    /// Is it dead, waiting for VACUUM?
    pub fn is_dead(&self, offset: u16) -> bool {
        self.flags(offset) == LP_DEAD
    }

    fn flags(&self, offset: u16) -> u32 {
        if offset == 0 || offset > self.line_pointers() {
            return 0;
        }
        let at = PAGE_HEADER_BYTES + 4 * (usize::from(offset) - 1);
        // SAFETY: within the line pointer array, checked above.
        let item = unsafe {
            self.data
                .cast::<u8>()
                .add(at)
                .cast::<u32>()
                .read_unaligned()
        };
        (item >> 15) & 3
    }

    /// Does it say that everybody sees all of its tuples? Then the visibility map may say so, too.
    pub fn is_all_visible(&self) -> bool {
        const ALL_VISIBLE: u16 = 0x0004;
        // SAFETY: pd_flags sits at byte 10 of every page.
        let flags = unsafe { self.data.cast::<u8>().add(10).cast::<u16>().read() };
        flags & ALL_VISIBLE != 0
    }

    /// The first transaction that has left something to prune; invalid where none has.
    pub fn prunable_by(&self) -> pg_sys::TransactionId {
        // SAFETY: pd_prune_xid sits there on every page.
        let xid = unsafe { self.data.cast::<u8>().add(PRUNABLE_BY).cast::<u32>().read() };
        pg_sys::TransactionId::from_inner(xid)
    }

    /// Where on the page a tuple of it begins.
    pub fn offset_of(&self, item: PageTuple<'p>) -> usize {
        item.header.addr() - self.data.addr()
    }

    /// The position in the log behind which the page was not changed.
    pub fn changed(&self) -> u64 {
        // SAFETY: pd_lsn is at the start of every page, its upper half first.
        let (upper, lower) = unsafe {
            let halves = self.data.cast::<u8>().cast::<u32>();
            (halves.read_unaligned(), halves.add(1).read_unaligned())
        };
        u64::from(upper) << 32 | u64::from(lower)
    }

    /// The tuple of a normal line pointer; `None` for unused, dead and redirected ones.
    #[inline]
    pub fn tuple(&self, offset: u16) -> Option<PageTuple<'p>> {
        self.tuple_if(offset, |flags| flags == LP_NORMAL)
    }

    /// The same, and the tuple of one that is marked dead, of an index: there it stays until it is deleted.
    #[inline]
    pub fn stored(&self, offset: u16) -> Option<PageTuple<'p>> {
        self.tuple_if(offset, |flags| flags == LP_NORMAL || flags == LP_DEAD)
    }

    #[inline]
    fn tuple_if(&self, offset: u16, wanted: impl Fn(u32) -> bool) -> Option<PageTuple<'p>> {
        if offset == 0 || offset > self.line_pointers() {
            return None;
        }
        // SAFETY: checked above.
        unsafe { self.tuple_of(offset, wanted) }
    }

    /// # Safety
    /// There must be so many line pointers.
    #[inline]
    unsafe fn tuple_of(&self, offset: u16, wanted: impl Fn(u32) -> bool) -> Option<PageTuple<'p>> {
        // SAFETY: by contract.
        let item = unsafe {
            self.data
                .cast::<u8>()
                .add(PAGE_HEADER_BYTES + 4 * (usize::from(offset) - 1))
                .cast::<u32>()
                .read_unaligned()
        };
        let (start, flags, len) = (item & 0x7fff, (item >> 15) & 3, item >> 17);
        // None begins so near the end that a tuple's header would not fit, of however few bytes it says that it is.
        let starts = PAGE_HEADER_BYTES as u32..=pg_sys::BLCKSZ - TUPLE_HEADER_BYTES as u32;
        if !wanted(flags) || !starts.contains(&start) || start + len > pg_sys::BLCKSZ {
            return None;
        }
        Some(PageTuple {
            tid: Tid {
                block: self.block,
                offset,
            },
            // SAFETY: a line pointer that is in use names a tuple on this page.
            header: unsafe { self.data.cast::<u8>().add(start as usize).cast() },
            len,
            page: PhantomData,
        })
    }

    /// For each line pointer the root of its chain; 0 for one that has none.
    ///
    /// # Safety
    /// The page must be locked, and be one of a heap.
    pub unsafe fn chain_roots(&self) -> Vec<u16> {
        let mut roots = vec![0; pg_sys::BLCKSZ as usize / 24];
        // SAFETY: by contract; a page has fewer line pointers than the array has places.
        unsafe { pg_sys::heap_get_root_tuples(self.data, roots.as_mut_ptr()) };
        roots
    }

    #[inline]
    pub fn tuples(&self) -> impl Iterator<Item = PageTuple<'p>> + '_ {
        let is_normal = |flags| flags == LP_NORMAL;
        // SAFETY: there are so many.
        (1..=self.line_pointers())
            .filter_map(move |offset| unsafe { self.tuple_of(offset, is_normal) })
    }
}

/// A copy of a page, for who looks at tuples while the page is not locked.
pub struct PageCopy {
    data: Box<[u64; pg_sys::BLCKSZ as usize / 8]>,
    block: u32,
}

impl PageCopy {
    /// Of no page yet.
    pub fn new() -> PageCopy {
        PageCopy {
            data: Box::new([0; pg_sys::BLCKSZ as usize / 8]),
            block: pg_sys::InvalidBlockNumber,
        }
    }

    /// Copies a page that is locked.
    pub fn take(&mut self, page: &Page<'_>) {
        // SAFETY: a page has as many bytes, and lies where words do.
        unsafe {
            core::ptr::copy_nonoverlapping(
                page.data.cast(),
                self.data.as_mut_ptr(),
                self.data.len(),
            )
        };
        self.block = page.block;
    }

    /// The page as it was.
    pub fn page(&self) -> Page<'_> {
        let data = self.data.as_ptr().cast_mut().cast();
        // SAFETY: a copy of a page, or no page's bytes, which say that there is no tuple.
        unsafe { Page::of(data, self.block) }
    }
}
