//! Reading the visibility map of a table a page at a time, as visibilitymap.c lays it out: two bits for each page of the table.

use super::error;
use pgrx::pg_sys;

const PAGE_HEADER_BYTES: usize = 24;
const WORDS: usize = (pg_sys::BLCKSZ as usize - PAGE_HEADER_BYTES) / 8;
/// Pages of the table that a word of the map stands for.
const PAGES_PER_WORD: u32 = 32;
/// In a word, the bits that say that everybody sees all of a page.
const ALL_VISIBLE: u64 = 0x5555_5555_5555_5555;

/// Those of the first `pages` pages of a table that have no bit that says that everybody sees all of them, where they are at most
/// `most`.
///
/// # Safety
/// `table` must be open, and have so many pages.
pub unsafe fn changed_pages(table: pg_sys::Relation, pages: u32, most: usize) -> Option<Vec<u32>> {
    let (mut found, mut first, mut buffer) = (Vec::new(), 0, 0);
    while first < pages && found.len() <= most {
        error::check_interrupts();
        // SAFETY: by contract. The call pins the map's page, where there is one, and lets the one before it go; bits are read
        // without a lock, as core does.
        let words = unsafe {
            pg_sys::visibilitymap_get_status(table, first, &mut buffer);
            match buffer {
                0 => &[0; WORDS],
                _ => &*pg_sys::BufferGetPage(buffer)
                    .add(PAGE_HEADER_BYTES)
                    .cast::<[u64; WORDS]>(),
            }
        };
        for word in words {
            if first >= pages || found.len() > most {
                break;
            }
            let mut lacking = !u64::from_le(*word) & ALL_VISIBLE;
            while lacking != 0 {
                found.push(first + lacking.trailing_zeros() / 2);
                lacking &= lacking - 1;
            }
            first += PAGES_PER_WORD;
        }
    }
    if buffer != 0 {
        // SAFETY: it was pinned above.
        unsafe { pg_sys::ReleaseBuffer(buffer) };
    }
    found.retain(|&page| page < pages);
    (found.len() <= most).then_some(found)
}
