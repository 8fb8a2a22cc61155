//! How long the row of a table is as a tuple when TOAST has done what it can. Heap takes no tuple that is longer than a page, so no other storage may: an UPDATE
//! would fail, and a dump not be restored.

use super::descriptor::Descriptor;
use super::error::{raise, Code};
use super::page::MOST_TUPLE_BYTES;
use super::slot::Slot;
use pgrx::pg_sys::{self, Datum};
use smallvec::SmallVec;

unsafe extern "C-unwind" {
    // access/toast_internals.h: null of what cannot be compressed.
    fn toast_compress_datum(value: Datum, method: core::ffi::c_char) -> Datum;
}

/// SizeofHeapTupleHeader.
const HEADER_BYTES: usize = 23;
/// TOAST leaves alone what is not longer than a pointer to what it moves away, aligned (`toast_helper.c`).
const LEAST_MOVED: usize = 24;
/// Most bytes of a column that is never longer, with its alignment.
const LONGEST_SHORT: usize = LEAST_MOVED + 8;

/// A pointer to a value that was moved away, as long as each of them, for who asks for its length only.
#[repr(align(8))]
struct Moved([u8; 18]);
static MOVED: Moved = {
    let mut pointer = [0; 18];
    pointer[0] = 1;
    pointer[1] = pg_sys::vartag_external::VARTAG_ONDISK as u8;
    Moved(pointer)
};

const fn header_bytes(columns: usize) -> usize {
    (HEADER_BYTES + columns.div_ceil(8)).next_multiple_of(8)
}

fn may_move(column: &pg_sys::FormData_pg_attribute) -> bool {
    column.attlen == -1 && column.attstorage as u8 != pg_sys::TYPSTORAGE_PLAIN
}

/// May rows of these columns be too long?
pub fn may_be_too_long(descriptor: Descriptor<'_>) -> bool {
    let columns = descriptor.attributes();
    let most = columns.iter().map(|column| match column.attlen {
        length @ 1.. => (length as usize).next_multiple_of(8),
        _ if may_move(column) => LONGEST_SHORT,
        _ => MOST_TUPLE_BYTES,
    });
    header_bytes(columns.len()) + most.sum::<usize>() > MOST_TUPLE_BYTES
}

/// Raises heap's error where a row is too long.
///
/// # Safety
/// The slot must show a row of these columns; within a guarded entry point.
pub unsafe fn check(descriptor: Descriptor<'_>, row: Slot<'_>) {
    // SAFETY: by contract. Most rows fit however little can be compressed.
    let bytes = unsafe {
        if bytes_of(descriptor, row, moved) <= MOST_TUPLE_BYTES {
            return;
        }
        bytes_of(descriptor, row, compressed_or_moved)
    };
    if bytes > MOST_TUPLE_BYTES {
        raise(
            Code::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            format!("row is too big: size {bytes}, maximum size {MOST_TUPLE_BYTES}"),
            "",
            "",
        );
    }
}

/// What the tuple of a row takes where `shorten` is done to the values that TOAST may do something about.
///
/// # Safety
/// As `check`; `shorten` must return values of variable length.
unsafe fn bytes_of(
    descriptor: Descriptor<'_>,
    row: Slot<'_>,
    shorten: unsafe fn(&pg_sys::FormData_pg_attribute, Datum) -> Datum,
) -> usize {
    let (values, nulls) = row.attributes();
    let columns = descriptor.attributes().iter();
    // SAFETY: by contract: a value that is not null is of its column's type.
    let shortened = columns
        .zip(values)
        .zip(nulls)
        .map(|((column, &value), &is_null)| unsafe {
            match !is_null && may_move(column) && is_long(value) {
                true => shorten(column, value),
                false => value,
            }
        });
    let mut shortened: SmallVec<[Datum; 32]> = shortened.collect();
    let bitmap = match nulls.contains(&true) {
        true => nulls.len(),
        false => 0,
    };
    // SAFETY: as many values as columns; the function reads their lengths alone.
    let data = unsafe {
        let nulls = nulls.as_ptr().cast_mut();
        pg_sys::heap_compute_data_size(descriptor.as_ptr(), shortened.as_mut_ptr(), nulls)
    };
    (header_bytes(bitmap) + data).next_multiple_of(8)
}

/// # Safety
/// It must be a value of variable length.
unsafe fn is_long(value: Datum) -> bool {
    // SAFETY: by contract.
    unsafe { pgrx::varsize_any(value.cast_mut_ptr()) > LEAST_MOVED }
}

fn moved(_column: &pg_sys::FormData_pg_attribute, _value: Datum) -> Datum {
    Datum::from(MOVED.0.as_ptr())
}

/// As TOAST does it: what is short once it is compressed stays.
///
/// # Safety
/// It must be a value of the column; within a guarded entry point.
unsafe fn compressed_or_moved(column: &pg_sys::FormData_pg_attribute, value: Datum) -> Datum {
    // SAFETY: by contract; an error of the server's is raised once more.
    unsafe {
        let start = value.cast_mut_ptr();
        let is_plain = !pgrx::varatt_is_1b_e(start) && !pgrx::varatt_is_4b_c(start);
        if is_plain && column.attstorage as u8 != pg_sys::TYPSTORAGE_EXTERNAL {
            let short = pg_sys::ffi::pg_guard_ffi_boundary(|| {
                toast_compress_datum(value, column.attcompression)
            });
            if short.value() != 0 && !is_long(short) {
                return short;
            }
        }
        moved(column, value)
    }
}
