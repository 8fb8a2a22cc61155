//! A change of a few bytes of a page. It is logged as generic WAL would log it, but what has changed is known here: `GenericXLogFinish` copies
//! the page and compares all of it, which costs more than the rest of a change of a single row.

use super::relation::Table;
use pgrx::pg_sys;

/// The resource manager of generic WAL, whose numbers are part of the log's format.
const GENERIC: u8 = 20;
/// Before the bytes of a fragment: where on the page they go, and how many they are.
const FRAGMENT_HEAD: usize = 4;

/// Writes `bytes` to a page at `offset`, and logs them.
///
/// # Safety
/// As `Patch::apply`.
pub unsafe fn overwrite(table: Table<'_>, buffer: pg_sys::Buffer, offset: usize, bytes: &[u8]) {
    let mut patch = Patch::default();
    patch.add(offset, bytes);
    // SAFETY: by contract.
    unsafe { patch.apply(table, buffer) }
}

/// What is to be written to a page, in the form of generic WAL: fragments, one after the other.
#[derive(Default)]
pub struct Patch {
    fragments: Vec<u8>,
}

impl Patch {
    /// Adds bytes that are to be written at `offset`.
    pub fn add(&mut self, offset: usize, bytes: &[u8]) {
        self.fragments.reserve(FRAGMENT_HEAD + bytes.len());
        self.fragments
            .extend_from_slice(&(offset as u16).to_ne_bytes());
        self.fragments
            .extend_from_slice(&(bytes.len() as u16).to_ne_bytes());
        self.fragments.extend_from_slice(bytes);
    }

    /// Writes everything to a page, and logs it.
    ///
    /// # Safety
    /// `table` must be open for writing, `buffer` hold a standard page of it, pinned and locked exclusively; the bytes must lie in tuples
    /// of that page, or in its header.
    pub unsafe fn apply(mut self, table: Table<'_>, buffer: pg_sys::Buffer) {
        // SAFETY: by contract. Between the two counts of critical sections an error stops the server, as it does in core: the page has
        // changed, and the log must say so.
        unsafe {
            let is_logged = table.needs_wal();
            if is_logged {
                pg_sys::XLogBeginInsert();
            }
            pg_sys::CritSectionCount += 1;
            let page = pg_sys::BufferGetPage(buffer).cast::<u8>();
            self.write_to(page);
            pg_sys::MarkBufferDirty(buffer);
            if is_logged {
                pg_sys::XLogRegisterBuffer(0, buffer, pg_sys::REGBUF_STANDARD as u8);
                let (start, length) = (self.fragments.as_mut_ptr().cast(), self.fragments.len());
                pg_sys::XLogRegisterBufData(0, start, length as _);
                set_lsn(page, pg_sys::XLogInsert(GENERIC, 0));
            }
            pg_sys::CritSectionCount -= 1;
        }
    }

    /// # Safety
    /// `page` must be one that the fragments were made for.
    unsafe fn write_to(&self, page: *mut u8) {
        let mut rest = &self.fragments[..];
        while let Some((&[o0, o1, l0, l1], behind)) = rest.split_first_chunk() {
            let offset = u16::from_ne_bytes([o0, o1]);
            let (bytes, next) = behind.split_at(u16::from_ne_bytes([l0, l1]).into());
            // SAFETY: by contract.
            unsafe {
                core::ptr::copy_nonoverlapping(
                    bytes.as_ptr(),
                    page.add(offset.into()),
                    bytes.len(),
                );
            }
            rest = next;
        }
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
