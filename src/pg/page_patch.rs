//! A change of a few bytes of a page. It is logged as generic WAL would log it, but what has changed is known here: `GenericXLogFinish` copies
//! the page and compares all of it, which costs more than the rest of a change of a single row.

use super::relation::Table;
use pgrx::pg_sys;

/// The resource manager of generic WAL, whose numbers are part of the log's format.
const GENERIC: u8 = 20;

/// Writes `bytes` to a page at `offset`, and logs them.
///
/// # Safety
/// `table` must be open for writing, `buffer` hold a standard page of it, pinned and locked exclusively; the bytes must lie in a tuple
/// of that page.
pub unsafe fn overwrite(table: Table<'_>, buffer: pg_sys::Buffer, offset: usize, bytes: &[u8]) {
    let mut fragment = Vec::with_capacity(4 + bytes.len());
    fragment.extend_from_slice(&(offset as u16).to_ne_bytes());
    fragment.extend_from_slice(&(bytes.len() as u16).to_ne_bytes());
    fragment.extend_from_slice(bytes);
    // SAFETY: by contract. Between the two counts of critical sections an error stops the server, as it does in core: the page has changed,
    // and the log must say so.
    unsafe {
        let is_logged = table.needs_wal();
        if is_logged {
            pg_sys::XLogBeginInsert();
        }
        pg_sys::CritSectionCount += 1;
        let page = pg_sys::BufferGetPage(buffer).cast::<u8>();
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), page.add(offset), bytes.len());
        pg_sys::MarkBufferDirty(buffer);
        if is_logged {
            pg_sys::XLogRegisterBuffer(0, buffer, pg_sys::REGBUF_STANDARD as u8);
            let (start, length) = (fragment.as_mut_ptr().cast(), fragment.len());
            pg_sys::XLogRegisterBufData(0, start, length as _);
            set_lsn(page, pg_sys::XLogInsert(GENERIC, 0));
        }
        pg_sys::CritSectionCount -= 1;
    }
}

/// PageSetLSN: the upper half comes first.
///
/// # Safety
/// `page` must point to a page that is pinned and locked exclusively.
unsafe fn set_lsn(page: *mut u8, lsn: pg_sys::XLogRecPtr) {
    // SAFETY: the caller's contract; pd_lsn is at the start of every page.
    unsafe {
        let halves = page.cast::<u32>();
        halves.write((lsn >> 32) as u32);
        halves.add(1).write(lsn as u32);
    }
}
