//! Reading the visibility map of a table a page at a time, as visibilitymap.c lays it out: two bits for each page of the table.

use super::error;
use super::relation::Table;
use pgrx::pg_sys;

const PAGE_HEADER_BYTES: usize = 24;
const WORDS: usize = (pg_sys::BLCKSZ as usize - PAGE_HEADER_BYTES) / 8;
/// Pages of the table that a word of the map stands for.
const PAGES_PER_WORD: u32 = 32;
/// In a word, the bits that say that everybody sees all of a page.
const ALL_VISIBLE: u64 = 0x5555_5555_5555_5555;

/// A page of the map that is pinned.
#[derive(Default)]
struct Pinned(pg_sys::Buffer);

impl Pinned {
    /// What the map says from page `first` of a table on, which is the first one of a page of the map; zeroes where there is no such page.
    fn words(&mut self, table: Table<'_>, first: u32) -> &[u64; WORDS] {
        // SAFETY: the table is open. The call pins the map's page, where there is one, and lets the one before it go; bits are read
        // without a lock, as core does.
        unsafe {
            pg_sys::visibilitymap_get_status(table.as_ptr(), first, &mut self.0);
            match self.0 {
                0 => &[0; WORDS],
                buffer => &*pg_sys::BufferGetPage(buffer)
                    .add(PAGE_HEADER_BYTES)
                    .cast::<[u64; WORDS]>(),
            }
        }
    }

    fn release(self) {
        if self.0 != 0 {
            // SAFETY: it was pinned by `words`.
            unsafe { pg_sys::ReleaseBuffer(self.0) };
        }
    }
}

/// How many of the first `pages` pages of a table have a bit that says that everybody sees all of them. `visibilitymap_count` counts all
/// bits of each page of the map, a microsecond each.
///
/// # Safety
/// `table` must be open, and have so many pages.
pub unsafe fn visible_pages(table: Table<'_>, pages: u32) -> u32 {
    let (mut found, mut first, mut map) = (0, 0, Pinned::default());
    while first < pages {
        error::check_interrupts();
        let words = map.words(table, first);
        for word in words {
            let left = pages - first;
            let asked = match left {
                0..PAGES_PER_WORD => (1 << (2 * left)) - 1,
                _ => u64::MAX,
            };
            found += (u64::from_le(*word) & ALL_VISIBLE & asked).count_ones();
            first += left.min(PAGES_PER_WORD);
            if first == pages {
                break;
            }
        }
    }
    map.release();
    found
}

/// Those of the first `pages` pages of a table that have no bit that says that everybody sees all of them, where they are at most
/// `most`.
///
/// # Safety
/// `table` must be open, and have so many pages.
pub unsafe fn changed_pages(table: Table<'_>, pages: u32, most: usize) -> Option<Vec<u32>> {
    let (mut found, mut first, mut map) = (Vec::new(), 0, Pinned::default());
    while first < pages && found.len() <= most {
        error::check_interrupts();
        let words = map.words(table, first);
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
    map.release();
    found.retain(|&page| page < pages);
    (found.len() <= most).then_some(found)
}

/// The map of a table, asked page by page; the page of it that was asked last is pinned.
pub struct VisibilityMap<'a> {
    table: Table<'a>,
    pinned: pg_sys::Buffer,
}

impl<'a> VisibilityMap<'a> {
    pub fn of(table: Table<'a>) -> VisibilityMap<'a> {
        VisibilityMap { table, pinned: 0 }
    }

    /// Does everybody see all of a page?
    pub fn is_visible(&mut self, block: u32) -> bool {
        let (table, pinned) = (self.table.as_ptr(), &mut self.pinned);
        // SAFETY: the table is open; the call lets the page of the map go that is pinned, if it needs another one.
        let status = unsafe { pg_sys::visibilitymap_get_status(table, block, pinned) };
        u32::from(status) & pg_sys::VISIBILITYMAP_ALL_VISIBLE != 0
    }
}

impl Drop for VisibilityMap<'_> {
    fn drop(&mut self) {
        // While an error unwinds, the resource owner does it.
        if self.pinned != 0 && !std::thread::panicking() {
            // SAFETY: pinned by `is_visible`.
            unsafe { pg_sys::ReleaseBuffer(self.pinned) };
        }
    }
}

/// How many pages of a table everybody sees all of.
pub fn count(table: Table<'_>) -> u32 {
    let (mut all_visible, mut all_frozen) = (0, 0);
    // SAFETY: the table is open.
    unsafe { pg_sys::visibilitymap_count(table.as_ptr(), &mut all_visible, &mut all_frozen) };
    all_visible
}
