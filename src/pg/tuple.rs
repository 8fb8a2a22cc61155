//! Heap tuples as PostgreSQL lays them out: attribute count, header fields, and building tuples of
//! zero attributes for storage.

use super::bare;
use super::descriptor::Descriptor;
use super::tid::{self, Tid, INVALID_BLOCK};
use pgrx::pg_sys;

const HEAP_HASNULL: u16 = 0x0001;
const HEAP_NATTS_MASK: u16 = 0x07ff;
const HEAP_ONLY_TUPLE: u16 = 0x8000;
const HEAP_HOT_UPDATED: u16 = 0x4000;
const HEAP_XMAX_INVALID: u16 = 0x0800;
const HEAP_XMAX_LOCK_ONLY: u16 = 0x0080;
/// Bytes before a body: the fixed header of 23 bytes, aligned to 8.
pub const TUPLE_HEADER_BYTES: usize = 24;

/// # Safety
/// `header` must point to a tuple header.
pub(super) unsafe fn attribute_count(header: pg_sys::HeapTupleHeader) -> u16 {
    // SAFETY: by contract.
    unsafe { (*header).t_infomask2 & HEAP_NATTS_MASK }
}

/// # Safety
/// As above.
#[inline]
pub(super) unsafe fn has_nulls(header: pg_sys::HeapTupleHeader) -> bool {
    // SAFETY: by contract.
    unsafe { (*header).t_infomask & HEAP_HASNULL != 0 }
}

/// # Safety
/// As above.
pub unsafe fn is_heap_only(header: pg_sys::HeapTupleHeader) -> bool {
    // SAFETY: by contract.
    unsafe { (*header).t_infomask2 & HEAP_ONLY_TUPLE != 0 }
}

/// HeapTupleHeaderIsHotUpdated: a newer version on the same page exists.
///
/// # Safety
/// As above.
pub unsafe fn is_hot_updated(header: pg_sys::HeapTupleHeader) -> bool {
    // SAFETY: by contract.
    unsafe {
        (*header).t_infomask2 & HEAP_HOT_UPDATED != 0
            && (*header).t_infomask & HEAP_XMAX_INVALID == 0
            && !xmin_invalid(header)
    }
}

/// # Safety
/// As above.
unsafe fn xmin_invalid(header: pg_sys::HeapTupleHeader) -> bool {
    const COMMITTED: u16 = 0x0100;
    const INVALID: u16 = 0x0200;
    // SAFETY: by contract.
    unsafe { (*header).t_infomask & (COMMITTED | INVALID) == INVALID }
}

/// What is known, without a question, of the transaction that has inserted a tuple.
pub enum Inserter {
    Committed,
    Aborted,
    Unknown(pg_sys::TransactionId),
}

/// # Safety
/// As above.
#[inline]
pub unsafe fn inserter(header: pg_sys::HeapTupleHeader) -> Inserter {
    const COMMITTED: u16 = 0x0100;
    const INVALID: u16 = 0x0200;
    // SAFETY: by contract.
    unsafe {
        let mask = (*header).t_infomask;
        if mask & COMMITTED != 0 {
            Inserter::Committed
        } else if mask & INVALID != 0 {
            Inserter::Aborted
        } else {
            Inserter::Unknown(raw_xmin(header))
        }
    }
}

/// Is it known without a question that a tuple's writer has committed, and that nobody has deleted or locked it, or tried to?
///
/// # Safety
/// As above.
#[inline]
pub unsafe fn is_plainly_there(header: pg_sys::HeapTupleHeader) -> bool {
    const COMMITTED: u16 = 0x0100;
    const BOTH: u16 = COMMITTED | HEAP_XMAX_INVALID;
    // SAFETY: by contract.
    unsafe { (*header).t_infomask & BOTH == BOTH }
}

/// Who wrote a tuple that would be plainly there, were it known that its writer has committed.
///
/// # Safety
/// As above.
#[inline]
pub unsafe fn writer_in_question(header: pg_sys::HeapTupleHeader) -> Option<pg_sys::TransactionId> {
    const BOTH_KNOWN: u16 = 0x0300;
    // SAFETY: by contract.
    unsafe {
        let mask = (*header).t_infomask;
        (mask & (BOTH_KNOWN | HEAP_XMAX_INVALID) == HEAP_XMAX_INVALID).then(|| raw_xmin(header))
    }
}

/// Is there a value of it that lies elsewhere?
///
/// # Safety
/// As above.
pub unsafe fn has_external(header: pg_sys::HeapTupleHeader) -> bool {
    const EXTERNAL: u16 = 0x0004;
    // SAFETY: by contract.
    unsafe { (*header).t_infomask & EXTERNAL != 0 }
}

/// The bytes of a header, from xmax to both masks, of a tuple that is deleted since it moved, as `heap_delete` writes them. Nobody may have
/// deleted or locked it before.
///
/// # Safety
/// As above.
pub unsafe fn moved_head(
    header: pg_sys::HeapTupleHeader,
    deleter: pg_sys::TransactionId,
    command: pg_sys::CommandId,
) -> [u8; 18] {
    const KEYS_UPDATED: u16 = 0x2000;
    const COMBO_COMMAND: u16 = 0x0020;
    // Of xmax, and of old versions' VACUUM FULL.
    const OVER: u16 = 0x1cd0 | 0xc000;
    // SAFETY: by contract.
    let (counts, mask) = unsafe { ((*header).t_infomask2, (*header).t_infomask) };
    let moved = tid::to_pg(Tid::MOVED);
    let parts = [
        moved.ip_blkid.bi_hi,
        moved.ip_blkid.bi_lo,
        moved.ip_posid,
        counts & !HEAP_HOT_UPDATED | KEYS_UPDATED,
        mask & !(OVER | COMBO_COMMAND),
    ];
    let mut head = [0; 18];
    head[..4].copy_from_slice(&deleter.into_inner().to_ne_bytes());
    head[4..8].copy_from_slice(&command.to_ne_bytes());
    for (bytes, part) in head[8..].chunks_exact_mut(2).zip(parts) {
        bytes.copy_from_slice(&part.to_ne_bytes());
    }
    head
}

/// Is it known without a question that nobody has deleted or locked a tuple, or tried to? Who has written it may not be known.
///
/// # Safety
/// As above.
pub unsafe fn is_untouched(header: pg_sys::HeapTupleHeader) -> bool {
    // SAFETY: by contract.
    unsafe { (*header).t_infomask & HEAP_XMAX_INVALID != 0 }
}

/// Xmin as stored, or the frozen id.
///
/// # Safety
/// As above.
pub unsafe fn xmin(header: pg_sys::HeapTupleHeader) -> pg_sys::TransactionId {
    const FROZEN: u16 = 0x0300;
    // SAFETY: by contract.
    unsafe {
        if (*header).t_infomask & FROZEN == FROZEN {
            pg_sys::FrozenTransactionId
        } else {
            (*header).t_choice.t_heap.t_xmin
        }
    }
}

/// Xmin as stored, frozen or not.
///
/// # Safety
/// As above.
#[inline]
pub unsafe fn raw_xmin(header: pg_sys::HeapTupleHeader) -> pg_sys::TransactionId {
    // SAFETY: by contract.
    unsafe { (*header).t_choice.t_heap.t_xmin }
}

/// The command that has inserted the tuple, or taken it away, as stored: which of them, the transactions tell.
///
/// # Safety
/// As above.
#[inline]
pub unsafe fn raw_command(header: pg_sys::HeapTupleHeader) -> pg_sys::CommandId {
    // SAFETY: by contract.
    unsafe { (*header).t_choice.t_heap.t_field3.t_cid }
}

/// Has a header say that `xmax` has the tuple's key locked, and nothing else.
///
/// # Safety
/// As above, of a tuple that nobody else reads meanwhile.
pub unsafe fn show_lock(header: pg_sys::HeapTupleHeader, xmax: pg_sys::TransactionId) {
    const KEY_SHARE: u16 = 0x0010;
    const LOCK_ONLY: u16 = 0x0080;
    const XMAX_BITS: u16 = 0x0010 | 0x0040 | 0x0080 | 0x0400 | 0x0800 | 0x1000;
    const KEYS_UPDATED: u16 = 0x2000;
    // SAFETY: by contract.
    unsafe {
        (*header).t_infomask &= !XMAX_BITS;
        (*header).t_infomask |= KEY_SHARE | LOCK_ONLY;
        (*header).t_infomask2 &= !KEYS_UPDATED;
        (*header).t_choice.t_heap.t_xmax = xmax;
    }
}

/// # Safety
/// As above.
#[inline]
pub unsafe fn raw_xmax(header: pg_sys::HeapTupleHeader) -> pg_sys::TransactionId {
    // SAFETY: by contract.
    unsafe { (*header).t_choice.t_heap.t_xmax }
}

/// # Safety
/// As above.
pub unsafe fn ctid(header: pg_sys::HeapTupleHeader) -> Tid {
    // SAFETY: by contract.
    tid::from_pg(unsafe { &(*header).t_ctid })
}

/// The bytes after the header: `t_len - t_hoff` of them.
///
/// # Safety
/// `tuple` must describe a tuple that stays pinned, or in memory, for `'a`.
pub(super) unsafe fn body<'a>(header: pg_sys::HeapTupleHeader, len: u32) -> &'a [u8] {
    // SAFETY: by contract; t_hoff never exceeds the tuple's length in a valid page.
    unsafe {
        let offset = usize::from((*header).t_hoff).min(len as usize);
        core::slice::from_raw_parts(header.cast::<u8>().add(offset), len as usize - offset)
    }
}

/// A palloc'd tuple of zero attributes with `body` behind its header, freed on drop.
pub struct BareTuple(pg_sys::HeapTuple);

impl BareTuple {
    /// Builds the tuple in the current memory context.
    pub fn new(table: pg_sys::Oid, body: &[u8]) -> Self {
        let head = core::mem::size_of::<pg_sys::HeapTupleData>().next_multiple_of(8);
        let len = TUPLE_HEADER_BYTES + body.len();
        // SAFETY: one zeroed allocation holds the descriptor, the header and the body.
        unsafe {
            let tuple: pg_sys::HeapTuple = pg_sys::palloc0(head + len).cast();
            let data: pg_sys::HeapTupleHeader = tuple.cast::<u8>().add(head).cast();
            (*tuple).t_len = len as u32;
            (*tuple).t_tableOid = table;
            (*tuple).t_data = data;
            (*tuple).t_self = tid::to_pg(Tid {
                block: INVALID_BLOCK,
                offset: 0,
            });
            (*data).t_hoff = TUPLE_HEADER_BYTES as u8;
            core::ptr::copy_nonoverlapping(
                body.as_ptr(),
                data.cast::<u8>().add(TUPLE_HEADER_BYTES),
                body.len(),
            );
            BareTuple(tuple)
        }
    }

    pub fn as_ptr(&self) -> pg_sys::HeapTuple {
        self.0
    }

    pub fn tid(&self) -> Tid {
        // SAFETY: the tuple lives as long as self.
        tid::from_pg(unsafe { &(*self.0).t_self })
    }
}

impl Drop for BareTuple {
    fn drop(&mut self) {
        // An unwinding error frees the memory context anyway, perhaps already.
        if !std::thread::panicking() {
            // SAFETY: allocated in `new`.
            unsafe { pg_sys::pfree(self.0.cast()) }
        }
    }
}

/// Values of a tuple, and which of them are null. What they point to is there as long as the tuple.
///
/// # Safety
/// The tuple must be one of this descriptor, in memory or pinned.
pub unsafe fn take_apart(
    tuple: &mut pg_sys::HeapTupleData,
    descriptor: Descriptor<'_>,
    values: &mut [pg_sys::Datum],
    nulls: &mut [bool],
) {
    let columns = descriptor.len();
    assert!(
        values.len() >= columns && nulls.len() >= columns,
        "BUG: a tuple has more columns"
    );
    let (values, nulls) = (values.as_mut_ptr(), nulls.as_mut_ptr());
    // SAFETY: by contract.
    unsafe { bare::heap_deform_tuple(tuple, descriptor.as_ptr(), values, nulls) }
}

/// A palloc'd tuple of values, freed on drop.
pub struct Formed(pg_sys::HeapTuple);

impl Formed {
    /// Builds the tuple in the current memory context.
    ///
    /// # Safety
    /// There must be a value of the right type for each column.
    pub unsafe fn new(
        descriptor: Descriptor<'_>,
        values: &mut [pg_sys::Datum],
        nulls: &mut [bool],
    ) -> Formed {
        let columns = descriptor.len();
        assert!(
            values.len() >= columns && nulls.len() >= columns,
            "BUG: a tuple without all of its columns"
        );
        // SAFETY: by contract.
        Formed(unsafe {
            pg_sys::heap_form_tuple(descriptor.as_ptr(), values.as_mut_ptr(), nulls.as_mut_ptr())
        })
    }

    /// A copy of a tuple.
    ///
    /// # Safety
    /// The tuple must be on a page that is pinned, or in memory.
    pub unsafe fn copy(mut tuple: pg_sys::HeapTupleData) -> Formed {
        // SAFETY: by contract.
        Formed(unsafe { pg_sys::heap_copytuple(&mut tuple) })
    }

    /// Its values, and which of them are null. What they point to is there as long as the tuple.
    ///
    /// # Safety
    /// The tuple must be one of this descriptor.
    pub unsafe fn columns(&self, descriptor: Descriptor<'_>) -> (Vec<pg_sys::Datum>, Vec<bool>) {
        let columns = descriptor.len();
        let (mut values, mut nulls) = (vec![pg_sys::Datum::null(); columns], vec![true; columns]);
        // SAFETY: by contract.
        unsafe { take_apart(&mut *self.0, descriptor, &mut values, &mut nulls) };
        (values, nulls)
    }

    /// # Safety
    /// `tuple` must be palloc'd in one piece, and nobody else's.
    pub unsafe fn from_ptr(tuple: pg_sys::HeapTuple) -> Formed {
        Formed(tuple)
    }

    pub fn as_ptr(&self) -> pg_sys::HeapTuple {
        self.0
    }

    /// How long it is, with its header.
    pub fn bytes(&self) -> u32 {
        // SAFETY: the tuple lives as long as self.
        unsafe { (*self.0).t_len }
    }

    /// Where it was inserted.
    pub fn tid(&self) -> Tid {
        // SAFETY: the tuple lives as long as self.
        tid::from_pg(unsafe { &(*self.0).t_self })
    }
}

impl Drop for Formed {
    fn drop(&mut self) {
        // An unwinding error frees the memory context anyway, perhaps already.
        if !std::thread::panicking() {
            // SAFETY: palloc'd by whoever made it.
            unsafe { pg_sys::heap_freetuple(self.0) }
        }
    }
}

/// The transaction that updated or deleted the tuple, whatever became of it.
///
/// # Safety
/// As above.
pub unsafe fn deleter(header: pg_sys::HeapTupleHeader) -> Option<pg_sys::TransactionId> {
    // SAFETY: by contract.
    unsafe {
        let mask = (*header).t_infomask;
        let deleted = mask & HEAP_XMAX_INVALID == 0 && mask & HEAP_XMAX_LOCK_ONLY == 0;
        deleted.then(|| update_xid(header))
    }
}

/// HeapTupleHeaderGetUpdateXid: the transaction that updated or deleted the tuple, lockers aside.
///
/// # Safety
/// As above.
pub unsafe fn update_xid(header: pg_sys::HeapTupleHeader) -> pg_sys::TransactionId {
    const MULTI: u16 = 0x1000;
    // SAFETY: by contract.
    unsafe {
        let mask = (*header).t_infomask & (HEAP_XMAX_INVALID | MULTI | HEAP_XMAX_LOCK_ONLY);
        if mask == MULTI {
            pg_sys::HeapTupleGetUpdateXid(header)
        } else {
            raw_xmax(header)
        }
    }
}

/// Who has deleted, updated or locked a tuple, whatever became of them.
#[derive(Clone, Copy, PartialEq)]
pub enum Xmax {
    None,
    /// A transaction that has deleted or updated it, or locked it exclusively.
    One(pg_sys::TransactionId),
    /// A transaction that shares it with others.
    Sharer(pg_sys::TransactionId),
    /// A multixact; true: of lockers only.
    Members(pg_sys::TransactionId, bool),
}

/// # Safety
/// As above.
pub unsafe fn xmax(header: pg_sys::HeapTupleHeader) -> Xmax {
    const KEY_SHARE: u16 = 0x0010;
    const EXCLUSIVE: u16 = 0x0040;
    const MULTI: u16 = 0x1000;
    // SAFETY: by contract.
    unsafe {
        let (mask, raw) = ((*header).t_infomask, raw_xmax(header));
        let only_locks = mask & HEAP_XMAX_LOCK_ONLY != 0;
        if mask & HEAP_XMAX_INVALID != 0 {
            Xmax::None
        } else if mask & MULTI != 0 {
            Xmax::Members(raw, only_locks)
        } else if only_locks && mask & (KEY_SHARE | EXCLUSIVE) != EXCLUSIVE {
            Xmax::Sharer(raw)
        } else {
            Xmax::One(raw)
        }
    }
}
