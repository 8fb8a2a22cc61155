//! The slot of a varve table. It starts as a BufferHeapTupleTableSlot and behaves as one, except while
//! it shows a row of a chunk: then it shares the chunk's reader and asks it for columns.

use crate::chunk::reader::Reader;
use crate::pg::descriptor::Descriptor;
use crate::pg::memory;
use crate::pg::tid::{self, Tid};
use crate::pg::transaction;
use crate::pg::tuple;
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::ops::Range;
use std::rc::Rc;

/// Keeps the reader of a slot. It is palloc'd beside the slot with a context callback of its own, since
/// slots may be freed one by one or with their context.
#[repr(C)]
struct Holder {
    callback: pg_sys::MemoryContextCallback,
    reader: *const Reader,
}

#[repr(C)]
pub struct VarveSlot {
    base: pg_sys::BufferHeapTupleTableSlot,
    holder: *mut Holder,
    row: u32,
    /// Columns (from 0, ascending) that can be asked for while a row of a chunk is shown; null: all.
    wanted: *const Vec<u16>,
}

struct Ops(pg_sys::TupleTableSlotOps);
// SAFETY: a table of function pointers, never written.
unsafe impl Sync for Ops {}

static OPS: Ops = Ops(pg_sys::TupleTableSlotOps {
    base_slot_size: core::mem::size_of::<VarveSlot>(),
    init: Some(init),
    release: Some(release),
    clear: Some(clear),
    getsomeattrs: Some(getsomeattrs),
    getsysattr: Some(getsysattr),
    #[cfg(feature = "pg17")]
    is_current_xact_tuple: Some(is_current_xact_tuple),
    materialize: Some(materialize),
    copyslot: Some(copyslot),
    get_heap_tuple: Some(get_heap_tuple),
    get_minimal_tuple: None,
    copy_heap_tuple: Some(copy_heap_tuple),
    copy_minimal_tuple: Some(copy_minimal_tuple),
});

type Slot = *mut pg_sys::TupleTableSlot;

pub fn ops() -> *const pg_sys::TupleTableSlotOps {
    &OPS.0
}

fn heap_ops() -> &'static pg_sys::TupleTableSlotOps {
    // SAFETY: a constant of the server.
    unsafe { &*core::ptr::addr_of!(pg_sys::TTSOpsBufferHeapTuple) }
}

macro_rules! heap {
    ($name:ident ( $($arg:expr),* )) => {
        heap_ops().$name.expect("BUG: heap slots lack an operation")($($arg),*)
    };
}

/// Is this a slot of ours?
///
/// # Safety
/// `slot` must be a live slot.
pub unsafe fn is_ours(slot: Slot) -> bool {
    // SAFETY: by contract.
    unsafe { core::ptr::eq((*slot).tts_ops, ops()) }
}

/// Lets heapam's functions store into the slot, which insist on its own slot type.
///
/// # Safety
/// `slot` must be a live slot of ours.
#[inline]
pub unsafe fn as_heap<R>(slot: Slot, body: impl FnOnce() -> R) -> R {
    // SAFETY: our slots start with heap's; an error abandons the slot.
    unsafe {
        if row_of(slot).is_some() {
            clear(slot);
        }
        let own = (*slot).tts_ops;
        (*slot).tts_ops = heap_ops();
        let result = body();
        (*slot).tts_ops = own;
        result
    }
}

/// The heap part of a slot.
pub fn heap_part(slot: Slot) -> *mut pg_sys::BufferHeapTupleTableSlot {
    slot.cast()
}

/// Reader and row that the slot shows, if it shows a row of a chunk.
///
/// # Safety
/// `slot` must be a live slot of ours.
#[inline]
pub unsafe fn row_of<'a>(slot: Slot) -> Option<(&'a Reader, u32)> {
    // SAFETY: the holder's reader is null or kept alive by it.
    unsafe {
        let own = slot.cast::<VarveSlot>();
        let holder = (*own).holder;
        if holder.is_null() || (*holder).reader.is_null() {
            None
        } else {
            Some((&*(*holder).reader, (*own).row))
        }
    }
}

unsafe extern "C-unwind" fn drop_reader(arg: *mut core::ffi::c_void) {
    // SAFETY: `arg` is the holder whose context goes away.
    unsafe { set_reader(arg.cast(), core::ptr::null()) }
}

/// Makes a reader, or none where it is null, the one that a slot shares; lets go of the one before.
///
/// # Safety
/// `holder` must be that of a slot of ours, or of one that goes away; `reader` null or from `Rc::into_raw`: the holder takes it over.
unsafe fn set_reader(holder: *mut Holder, reader: *const Reader) {
    // SAFETY: every non-null pointer in a holder came from Rc::into_raw.
    unsafe {
        if let Some(reader) = reader.as_ref() {
            reader.enter_slot();
        }
        let old = core::mem::replace(&mut (*holder).reader, reader);
        if !old.is_null() {
            (*old).leave_slot();
            drop(Rc::from_raw(old));
        }
    }
}

/// Stores row `row` of a chunk.
///
/// # Safety
/// `slot` must be a live slot of ours.
#[inline]
pub unsafe fn store_row(slot: Slot, reader: &Rc<Reader>, row: u32, table: pg_sys::Oid) {
    // SAFETY: by contract.
    unsafe {
        if move_to_row(slot, reader, row) {
            return;
        }
        clear(slot);
        let own = slot.cast::<VarveSlot>();
        if (*own).holder.is_null() {
            let context = (*slot).tts_mcxt;
            let holder: *mut Holder =
                pg_sys::MemoryContextAllocZero(context, core::mem::size_of::<Holder>()).cast();
            (*holder).callback.func = Some(drop_reader);
            (*holder).callback.arg = holder.cast();
            pg_sys::MemoryContextRegisterResetCallback(context, &mut (*holder).callback);
            (*own).holder = holder;
        }
        set_reader((*own).holder, Rc::into_raw(Rc::clone(reader)));
        (*slot).tts_tableOid = table;
        move_to_row(slot, reader, row);
    }
}

/// Stores another row of the chunk that the slot shows; false where it shows none of that chunk. Raises no error.
///
/// # Safety
/// As `store_row`.
#[inline]
pub unsafe fn move_to_row(slot: Slot, reader: &Rc<Reader>, row: u32) -> bool {
    // SAFETY: by contract.
    unsafe {
        let same = matches!(row_of(slot), Some((now, _)) if core::ptr::eq(now, &**reader));
        if same {
            (*slot.cast::<VarveSlot>()).row = row;
            (*slot).tts_nvalid = 0;
            (*slot).tts_flags &= !(pg_sys::TTS_FLAG_EMPTY as u16);
            (*slot).tts_tid = tid::to_pg(Tid::of_row(reader.chunk.tid, row));
        }
        same
    }
}

/// The shared reader behind a slot that shows a row of a chunk.
///
/// # Safety
/// `slot` must be a live slot of ours.
pub unsafe fn shared_reader(slot: Slot) -> Option<Rc<Reader>> {
    // SAFETY: the pointer came from Rc::into_raw and is alive.
    unsafe {
        row_of(slot).map(|(reader, _)| {
            Rc::increment_strong_count(reader);
            Rc::from_raw(reader)
        })
    }
}

/// # Safety
/// `slot` must be a live slot with a descriptor, as those of tables are.
unsafe fn natts(slot: Slot) -> usize {
    // SAFETY: slots of a table have a descriptor.
    unsafe { (*(*slot).tts_tupleDescriptor).natts as usize }
}

// Each row that is stored passes some of the functions below. As long as a slot behaves as heap's, they carry no guard, which would cost more than
// their work: an error of heap's own functions finds nothing to drop here. Only what is done with a row of a chunk has one.

unsafe extern "C-unwind" fn init(slot: Slot) {
    // SAFETY: called by core for a new slot; the heap part has no state to set up.
    unsafe {
        (*slot.cast::<VarveSlot>()).holder = core::ptr::null_mut();
        heap!(init(slot));
    }
}

unsafe extern "C-unwind" fn release(slot: Slot) {
    // SAFETY: called by core for a cleared slot that goes away.
    unsafe { heap!(release(slot)) }
}

unsafe extern "C-unwind" fn clear(slot: Slot) {
    // SAFETY: called by core, or by us, for a live slot.
    unsafe {
        if row_of(slot).is_some() {
            leave_row(slot);
        }
        heap!(clear(slot));
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn leave_row(slot: Slot) {
    // SAFETY: called for a slot that shows a row of a chunk.
    unsafe { set_reader((*slot.cast::<VarveSlot>()).holder, core::ptr::null()) }
}

/// Called for each row of a chunk too, so only the part that may raise an error has a guard: decoding.
unsafe extern "C-unwind" fn getsomeattrs(slot: Slot, wanted: i32) {
    // SAFETY: called by core with 0 < wanted <= natts; an error of heap's own function finds nothing to drop here.
    unsafe {
        let Some((reader, row)) = row_of(slot) else {
            return heap!(getsomeattrs(slot, wanted));
        };
        let range = (*slot).tts_nvalid as usize..wanted as usize;
        let (values, nulls) = ((*slot).tts_values, (*slot).tts_isnull);
        let done = match (*slot.cast::<VarveSlot>()).wanted.as_ref() {
            Some(columns) => reader.fill_decoded(row, within(columns, range), values, nulls),
            None => reader.fill_decoded(row, range, values, nulls),
        };
        if done {
            (*slot).tts_nvalid = wanted as i16;
        } else {
            decode_attributes(slot, wanted);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn decode_attributes(slot: Slot, wanted: i32) {
    // SAFETY: called by `getsomeattrs` alone.
    unsafe {
        let range = (*slot).tts_nvalid as usize..wanted as usize;
        if let Some((reader, row)) = row_of(slot) {
            match (*slot.cast::<VarveSlot>()).wanted.as_ref() {
                Some(columns) => fill(slot, reader, row, within(columns, range)),
                None => fill(slot, reader, row, range),
            }
        }
        (*slot).tts_nvalid = wanted as i16;
    }
}

/// Those of `columns` that are in `range`.
#[inline]
fn within(columns: &[u16], range: Range<usize>) -> impl Iterator<Item = usize> + '_ {
    let columns = columns.iter().map(|&column| usize::from(column));
    columns.filter(move |at| range.contains(at))
}

/// Takes columns of the row from the reader.
///
/// # Safety
/// `slot` must be a live slot of ours that shows this row of the reader; `columns` are below `natts`.
#[inline]
unsafe fn fill(slot: Slot, reader: &Reader, row: u32, columns: impl Iterator<Item = usize>) {
    // SAFETY: of a live slot that shows this row; columns are below natts.
    unsafe {
        reader.fill_slot(
            Descriptor::from_ptr((*slot).tts_tupleDescriptor),
            row,
            columns,
            (*slot).tts_values,
            (*slot).tts_isnull,
        );
    }
}

/// Makes all columns valid, whatever the slot was restricted to.
///
/// # Safety
/// `slot` must be a live slot of ours that shows a row of a chunk.
unsafe fn fill_all(slot: Slot) {
    // SAFETY: of a live slot that shows a row.
    unsafe {
        let all = natts(slot);
        let restricted = !(*slot.cast::<VarveSlot>()).wanted.is_null();
        let valid = if restricted {
            0
        } else {
            (*slot).tts_nvalid as usize
        };
        if let Some((reader, row)) = row_of(slot) {
            fill(slot, reader, row, valid..all);
        }
        (*slot).tts_nvalid = all as i16;
    }
}

/// Lets only `columns` (from 0, ascending) be decoded for rows of chunks: nobody may ask for others.
///
/// # Safety
/// `slot` must be a live slot of ours whose only reader asks for no other column.
pub unsafe fn restrict(slot: Slot, columns: Vec<u16>) {
    // SAFETY: by contract; the list lives as long as the slot's context.
    unsafe { (*slot.cast::<VarveSlot>()).wanted = memory::own((*slot).tts_mcxt, columns) }
}

#[pg_guard]
unsafe extern "C-unwind" fn getsysattr(
    slot: Slot,
    attnum: i32,
    isnull: *mut bool,
) -> pg_sys::Datum {
    // SAFETY: called by core; ctid and tableoid are answered by it from the slot.
    unsafe {
        let Some((reader, _)) = row_of(slot) else {
            return heap!(getsysattr(slot, attnum, isnull));
        };
        *isnull = false;
        match attnum {
            pg_sys::MinTransactionIdAttributeNumber => {
                pg_sys::Datum::from(reader.chunk.xmin.into_inner() as usize)
            }
            pg_sys::MinCommandIdAttributeNumber | pg_sys::MaxCommandIdAttributeNumber => {
                pg_sys::Datum::from(reader.chunk.raw_command as usize)
            }
            _ => pg_sys::Datum::from(0usize),
        }
    }
}

#[cfg(feature = "pg17")]
#[pg_guard]
unsafe extern "C-unwind" fn is_current_xact_tuple(slot: Slot) -> bool {
    // SAFETY: called by core for a slot with a tuple.
    unsafe {
        match row_of(slot) {
            Some((reader, _)) => transaction::is_current(reader.chunk.xmin),
            None => heap!(is_current_xact_tuple(slot)),
        }
    }
}

/// A heap tuple of the row that the slot shows, in the current context, with its virtual TID and the
/// header's xmin.
///
/// # Safety
/// As `fill_all`.
unsafe fn form_tuple(slot: Slot) -> pg_sys::HeapTuple {
    // SAFETY: of a live slot that shows a row.
    unsafe {
        fill_all(slot);
        let tuple = pg_sys::heap_form_tuple(
            (*slot).tts_tupleDescriptor,
            (*slot).tts_values,
            (*slot).tts_isnull,
        );
        (*tuple).t_self = (*slot).tts_tid;
        (*tuple).t_tableOid = (*slot).tts_tableOid;
        let header = (*tuple).t_data;
        if let Some((reader, _)) = row_of(slot) {
            (*header).t_choice.t_heap.t_xmin = reader.chunk.xmin;
            (*header).t_choice.t_heap.t_xmax = pg_sys::InvalidTransactionId;
            (*header).t_choice.t_heap.t_field3.t_cid = reader.chunk.raw_command;
            (*header).t_ctid = (*slot).tts_tid;
        }
        tuple
    }
}

unsafe extern "C-unwind" fn materialize(slot: Slot) {
    // SAFETY: called by core for a non-empty slot.
    unsafe {
        match row_of(slot) {
            None => heap!(materialize(slot)),
            Some(_) => materialize_row(slot),
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn materialize_row(slot: Slot) {
    // SAFETY: called for a slot that shows a row of a chunk. The tuple is formed before the reader goes.
    unsafe {
        let old = pg_sys::MemoryContextSwitchTo((*slot).tts_mcxt);
        let tuple = form_tuple(slot);
        pg_sys::MemoryContextSwitchTo(old);
        set_reader((*slot.cast::<VarveSlot>()).holder, core::ptr::null());
        let heap = heap_part(slot);
        (*heap).base.tuple = tuple;
        (*heap).base.off = 0;
        (*heap).buffer = 0;
        (*slot).tts_nvalid = 0;
        (*slot).tts_flags |= pg_sys::TTS_FLAG_SHOULDFREE as u16;
    }
}

unsafe extern "C-unwind" fn copyslot(target: Slot, source: Slot) {
    // SAFETY: called by core with a target of ours; the source may be of any type.
    unsafe {
        if is_ours(source) && row_of(source).is_some() {
            return copy_row(target, source);
        }
        clear(target);
        heap!(copyslot(target, source));
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn copy_row(target: Slot, source: Slot) {
    // SAFETY: called with slots of ours, of which the source shows a row of a chunk.
    unsafe {
        let (_, row) = row_of(source).expect("BUG: no row to copy");
        let reader = shared_reader(source).expect("BUG: row without reader");
        store_row(target, &reader, row, (*source).tts_tableOid);
    }
}

unsafe extern "C-unwind" fn get_heap_tuple(slot: Slot) -> pg_sys::HeapTuple {
    // SAFETY: called by core for a non-empty slot.
    unsafe {
        if row_of(slot).is_some() {
            materialize(slot);
        }
        heap!(get_heap_tuple(slot))
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn copy_heap_tuple(slot: Slot) -> pg_sys::HeapTuple {
    // SAFETY: as above.
    unsafe {
        if row_of(slot).is_some() {
            form_tuple(slot)
        } else {
            heap!(copy_heap_tuple(slot))
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn copy_minimal_tuple(slot: Slot) -> pg_sys::MinimalTuple {
    // SAFETY: as above.
    unsafe {
        if row_of(slot).is_none() {
            return heap!(copy_minimal_tuple(slot));
        }
        fill_all(slot);
        pg_sys::heap_form_minimal_tuple(
            (*slot).tts_tupleDescriptor,
            (*slot).tts_values,
            (*slot).tts_isnull,
        )
    }
}

/// Does the slot hold a heap tuple?
///
/// # Safety
/// `slot` must be a live slot of ours.
pub unsafe fn holds_tuple(slot: Slot) -> bool {
    // SAFETY: by contract.
    unsafe { row_of(slot).is_none() && !(*heap_part(slot)).base.tuple.is_null() }
}

/// Makes a heap tuple of the row of a chunk that the slot shows, if it shows one: for those who take the tuple out of the slot
/// without asking for it.
///
/// # Safety
/// `slot` must be a live slot of ours.
pub unsafe fn form_row(slot: Slot) {
    // SAFETY: by contract.
    unsafe {
        if row_of(slot).is_some() {
            materialize(slot);
        }
    }
}

/// Shows a lock of this transaction as xmax of the tuple in a slot, if this is the slot's own: heap_update leaves it in a new version where the
/// transaction had locked the old one.
///
/// # Safety
/// `slot` must be a live slot.
pub unsafe fn show_own_lock(slot: Slot) {
    // SAFETY: by contract; a tuple of the slot's own is nobody else's.
    unsafe {
        let is_own = (*slot).tts_flags & pg_sys::TTS_FLAG_SHOULDFREE as u16 != 0;
        if is_own && is_ours(slot) && holds_tuple(slot) {
            tuple::show_lock((*(*heap_part(slot)).base.tuple).t_data, transaction::id());
        }
    }
}

/// Empties a slot of ours.
///
/// # Safety
/// `slot` must be a live slot of ours.
pub unsafe fn clear_slot(slot: Slot) {
    // SAFETY: by contract.
    unsafe { clear(slot) }
}

/// Value of an attribute (from 1) of whatever the slot shows.
///
/// # Safety
/// The slot must not be empty.
pub unsafe fn attribute(slot: Slot, number: i16, isnull: &mut bool) -> pg_sys::Datum {
    // SAFETY: by contract.
    unsafe {
        if (*slot).tts_nvalid < number {
            pg_sys::slot_getsomeattrs_int(slot, i32::from(number));
        }
        let at = number as usize - 1;
        *isnull = *(*slot).tts_isnull.add(at);
        *(*slot).tts_values.add(at)
    }
}

/// Makes all attributes of the slot valid.
///
/// # Safety
/// The slot must not be empty; it may be of any type.
pub unsafe fn deform_all(slot: Slot) {
    // SAFETY: by contract.
    unsafe {
        let all = natts(slot);
        if ((*slot).tts_nvalid as usize) < all {
            pg_sys::slot_getsomeattrs_int(slot, all as i32);
        }
    }
}
