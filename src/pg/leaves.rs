//! The leaf level of an index with nbtree's pages, read from left to right: each page once, where a scan returns entry by entry. Pages
//! that split meanwhile show entries twice at most, never not at all: whoever moves entries moves them to the right.

use super::error;
use super::page::{Page, PageCursor, PageTuple};
use super::relation::Index;
use super::snapshot::Snapshot;
use super::stored_value::value_at;
use super::tid::{self, Tid};
use super::unbound::index_deform_tuple;
use pgrx::pg_sys;
use std::marker::PhantomData;

pub(super) const LEAF: u16 = 1;
/// A page that is deleted, or half dead, has no entries any more, but its link.
pub(super) const IGNORED: u16 = 4 | 16;
/// Marks an index tuple with a list of TIDs, in t_info and in the line pointer number of t_tid.
pub(super) const ALTERNATIVE_TID: u16 = 0x2000;
const POSTING_COUNT: u16 = 0x0fff;
/// A pivot has a part of the columns only: this many of them, by its line pointer number.
const KEPT_COLUMNS: u16 = 0x0fff;
const TID_BYTES: usize = 6;
const HAS_NULLS: u16 = 0x8000;
const TUPLE_HEADER_BYTES: u32 = 8;
/// With a bit for each of 32 columns, and aligned.
const HEADER_BYTES_WITH_NULLS: u32 = 16;
const LINE_POINTER_BYTES: u32 = 4;
/// Where the meta page names the root.
pub(super) const ROOT_AT: usize = 24 + 8;

/// An index tuple, of a page that is pinned for `'p`, and locked.
pub struct Item<'p> {
    tuple: pg_sys::IndexTuple,
    len: u32,
    info: u16,
    page: PhantomData<&'p ()>,
}

impl<'p> Item<'p> {
    /// None where it is too short for a header.
    #[inline]
    pub(super) fn of(found: PageTuple<'p>) -> Option<Item<'p>> {
        let (tuple, len): (pg_sys::IndexTuple, _) = (found.header().cast(), found.bytes());
        (len >= TUPLE_HEADER_BYTES).then(|| Item {
            tuple,
            len,
            // SAFETY: the page is pinned and locked, and the item long enough for its header.
            info: unsafe { (*tuple).t_info },
            page: PhantomData,
        })
    }

    /// Its values, in arrays that have an entry for each column of the index; those by reference point to the page.
    ///
    /// # Safety
    /// `index` must be the item's.
    pub unsafe fn values(
        &self,
        index: Index<'_>,
        values: &mut [pg_sys::Datum],
        nulls: &mut [bool],
    ) {
        // SAFETY: by contract. It raises nothing, so there is no boundary to be paid for.
        unsafe {
            let descriptor = index.descriptor();
            let columns = descriptor.len();
            assert!(values.len() >= columns && nulls.len() >= columns);
            index_deform_tuple(
                self.tuple,
                descriptor.as_ptr(),
                values.as_mut_ptr(),
                nulls.as_mut_ptr(),
            );
        }
    }

    /// The value of its first column, an integer, extended to eight bytes; None for NULL, and where the item is too short.
    ///
    /// # Safety
    /// `index` must be the item's.
    #[inline]
    pub unsafe fn first_integer(&self, index: Index<'_>) -> Option<i64> {
        let length = index.attributes()[0].attlen;
        let (start, bytes) = self.body().filter(|_| !self.is_null(0))?;
        // SAFETY: by contract; the value lies within the item.
        (bytes >= length as usize).then(|| unsafe { value_at(start, length, true).value() as i64 })
    }

    /// Where its values begin, and their bytes; those that are null have none.
    #[inline]
    pub(super) fn body(&self) -> Option<(*const u8, usize)> {
        let header = match self.has_nulls() {
            true => HEADER_BYTES_WITH_NULLS,
            false => TUPLE_HEADER_BYTES,
        };
        let bytes = self.len.checked_sub(header)? as usize;
        // SAFETY: within the item.
        Some((
            unsafe { self.tuple.cast::<u8>().add(header as usize) },
            bytes,
        ))
    }

    /// Is a column, from 0, null? The item must have a body.
    #[inline]
    pub(super) fn is_null(&self, at: usize) -> bool {
        let bits = self.tuple.cast::<u8>();
        // SAFETY: an item with nulls has a bit for each column behind its header.
        self.has_nulls()
            && unsafe { *bits.add(TUPLE_HEADER_BYTES as usize + at / 8) & (1 << (at % 8)) == 0 }
    }

    #[inline]
    fn has_nulls(&self) -> bool {
        self.info & HAS_NULLS != 0
    }

    /// How many columns it has, if it is a pivot.
    #[inline]
    pub(super) fn pivot_columns(&self) -> Option<usize> {
        // SAFETY: the page is pinned and locked, and the item long enough for its header.
        let named = unsafe { tid::read(&raw mut (*self.tuple).t_tid) }.offset;
        // One that has the mark twice has a list of TIDs, and all columns.
        let is_pivot = self.info & ALTERNATIVE_TID != 0 && named & ALTERNATIVE_TID == 0;
        is_pivot.then_some(usize::from(named & KEPT_COLUMNS))
    }

    /// Its TIDs, as they are stored.
    #[inline]
    pub fn tids(&self) -> impl Iterator<Item = Tid> + '_ {
        // SAFETY: the page is pinned and locked, and the tuple long enough for its header; places in it are checked against its length.
        let (first, list) = unsafe { list_of(self.tuple) };
        (0..list.unwrap_or(1)).filter_map(move |at| {
            if list.is_none() {
                return Some(first);
            }
            let start = first.block as usize + at * TID_BYTES;
            let fits = start + TID_BYTES <= self.len as usize;
            // SAFETY: as above.
            fits.then(|| unsafe { tid::read(self.tuple.cast::<u8>().add(start).cast()) })
        })
    }
}

/// What stands where an index tuple has its TID, and how many it has in a list, if it has one. So do the copies that scans make of it, without the list.
///
/// # Safety
/// The tuple must be there, and its page locked.
unsafe fn list_of(tuple: pg_sys::IndexTuple) -> (Tid, Option<usize>) {
    // SAFETY: by contract.
    unsafe {
        let first = tid::read(&raw mut (*tuple).t_tid);
        let is_list = (*tuple).t_info & first.offset & ALTERNATIVE_TID != 0;
        let count = usize::from(first.offset & POSTING_COUNT);
        (first, is_list.then_some(count))
    }
}

/// How many TIDs a tuple had on its page, of which a scan has made this copy.
///
/// # Safety
/// The copy must be there.
pub(super) unsafe fn tids_of(copy: pg_sys::IndexTuple) -> usize {
    // SAFETY: by contract; nobody else has the copy.
    unsafe { list_of(copy).1.unwrap_or(1) }
}

/// The links and flags at the end of a page.
pub(super) struct Special {
    pub previous: u32,
    pub next: u32,
    pub flags: u16,
}

impl Special {
    pub fn of(page: &Page) -> Special {
        let start = pg_sys::BLCKSZ as usize - 16;
        // SAFETY: the last 16 bytes of an nbtree page are its BTPageOpaqueData.
        unsafe {
            let at = page.as_ptr().cast::<u8>().add(start);
            Special {
                previous: at.cast::<u32>().read_unaligned(),
                next: at.add(4).cast::<u32>().read_unaligned(),
                flags: at.add(12).cast::<u16>().read_unaligned(),
            }
        }
    }

    /// The first line pointer behind the high key, which the last page of a level has none of.
    pub fn first(&self) -> u16 {
        match self.next {
            0 => 1,
            _ => 2,
        }
    }
}

/// Shows all items of an index to `visit`, which is called under a lock on their page: it may only touch memory, and raise nothing. Items that
/// scans have found dead are left out where a scan by `snapshot` leaves them out too, and all of them if it is null. Where VACUUM may have taken
/// what the snapshot sees, that is raised. False: the pages do not hang together.
///
/// # Safety
/// `index` must be open, and have nbtree's pages; a snapshot is held that is no later than what is looked for.
pub unsafe fn each_item(
    index: Index<'_>,
    snapshot: Snapshot<'_>,
    mut visit: impl FnMut(&Item<'_>),
) -> bool {
    // SAFETY: by contract.
    unsafe {
        let mut blocks = index.blocks();
        let mut cursor = PageCursor::new(index);
        let mut block = match leftmost(&mut cursor, index, &mut blocks) {
            Leftmost::None => return true,
            Leftmost::At(block) => block,
            Leftmost::Damaged => return false,
        };
        // The primary goes by its own horizon when it marks what is dead; what was marked so stays so where a standby is promoted meanwhile.
        let also_dead = !snapshot.is_none() && pg_sys::TransactionStartedDuringRecovery();
        let mut pages = 0;
        while block != 0 {
            error::check_interrupts();
            pages += 1;
            if block >= blocks || pages > blocks {
                blocks = index.blocks();
                // A damaged chain could be a circle.
                if block >= blocks || pages > blocks {
                    return false;
                }
            }
            cursor.go(block);
            let changed;
            (block, changed) = cursor.locked(|page| {
                items(page, also_dead).for_each(|item| visit(&item));
                (Special::of(page).next, page.changed())
            });
            check_age(index, snapshot, changed);
        }
        true
    }
}

/// Bytes that entries take with their line pointers on all pages of an index, by `pages` of them that lie evenly in its file.
///
/// # Safety
/// `index` must be open, and have nbtree's pages.
pub unsafe fn filled_bytes(index: Index<'_>, pages: u32) -> f64 {
    let blocks = index.blocks();
    let mut cursor = PageCursor::new(index);
    let (mut bytes, mut seen) = (0u64, 0u32);
    for block in (1..blocks).step_by(blocks.div_ceil(pages.max(1)).max(1) as usize) {
        error::check_interrupts();
        cursor.go(block);
        cursor.locked(|page| {
            let taken =
                items(page, false).map(|item| item.len.next_multiple_of(8) + LINE_POINTER_BYTES);
            bytes += u64::from(taken.sum::<u32>());
        });
        seen += 1;
    }
    bytes as f64 / f64::from(seen.max(1)) * f64::from(blocks)
}

/// The items of a page that is locked, those that scans have found dead if asked for; none unless it is a leaf.
#[inline]
fn items<'a, 'p>(
    page: &'a Page<'p>,
    also_dead: bool,
) -> impl Iterator<Item = Item<'p>> + use<'a, 'p> {
    let special = Special::of(page);
    let last = match special.flags & (LEAF | IGNORED) {
        LEAF => page.line_pointers(),
        _ => 0,
    };
    (special.first()..=last)
        .filter_map(move |offset| match also_dead {
            true => page.stored(offset),
            false => page.tuple(offset),
        })
        .filter_map(Item::of)
}

/// What nbtree's scans do with old_snapshot_threshold: raises "snapshot too old" if the page was changed, at `changed`, after the snapshot was taken.
#[cfg(feature = "pg15")]
pub(super) fn check_age(index: Index<'_>, snapshot: Snapshot<'_>, changed: u64) {
    // SAFETY: the index is open, the snapshot valid.
    unsafe {
        if pg_sys::old_snapshot_threshold >= 0
            && snapshot.is_mvcc()
            && snapshot.log_position() != 0
            && changed > snapshot.log_position()
        {
            pg_sys::TestForOldSnapshot_impl(snapshot.as_ptr(), index.as_ptr());
        }
    }
}

#[cfg(feature = "pg17")]
pub(super) fn check_age(_index: Index<'_>, _snapshot: Snapshot<'_>, _changed: u64) {}

enum Leftmost {
    /// Nothing was ever entered.
    None,
    At(u32),
    Damaged,
}

/// From the root, named by the meta page, down the first links. The root may be newer than the last look at the file's length.
fn leftmost(cursor: &mut PageCursor, index: Index<'_>, blocks: &mut u32) -> Leftmost {
    if *blocks == 0 {
        return Leftmost::None;
    }
    cursor.go(0);
    // SAFETY: within the meta page.
    let mut block = cursor.locked(|page| unsafe {
        let at = page.as_ptr().cast::<u8>().add(ROOT_AT);
        at.cast::<u32>().read_unaligned()
    });
    if block == 0 {
        return Leftmost::None;
    }
    for _ in 0..64 {
        if block >= *blocks {
            *blocks = index.blocks();
        }
        if block == 0 || block >= *blocks {
            break;
        }
        cursor.go(block);
        let next = cursor.locked(|page| {
            let special = Special::of(page);
            if special.flags & LEAF != 0 {
                return None;
            }
            if special.flags & IGNORED != 0 {
                return Some(special.next);
            }
            let child = page.tuple(special.first());
            // SAFETY: an index tuple starts with its TID, which names the child page.
            Some(child.map_or(0, |item| unsafe { tid::read(item.header().cast()).block }))
        });
        match next {
            None => return Leftmost::At(block),
            Some(child) => block = child,
        }
    }
    Leftmost::Damaged
}
