//! Reading all entries of a series index from its pages, which are nbtree's: the leaf level from left to
//! right. Pages that split meanwhile show entries twice at most, never not at all.

use crate::chunk::datum;
use crate::chunk::row_set::put_ordered;
use crate::pg::error;
use crate::pg::page::{Page, PageCursor, PageTuple};
use crate::pg::relation;
use crate::pg::tid::{self, Tid};
use pgrx::pg_sys;
use rustc_hash::FxHasher;
use std::hash::Hasher;
use varve_columns::column::Kind;

const LEAF: u16 = 1;
const IGNORED: u16 = 4 | 16;
/// Marks an index tuple with a list of TIDs, in t_info and in the line pointer number of t_tid.
const ALTERNATIVE_TID: u16 = 0x2000;
const POSTING_COUNT: u16 = 0x0fff;

/// The links and flags at the end of a page.
struct Special {
    next: u32,
    flags: u16,
}

fn special(page: &Page) -> Special {
    let start = pg_sys::BLCKSZ as usize - 16;
    // SAFETY: the last 16 bytes of an nbtree page are its BTPageOpaqueData.
    unsafe {
        let at = page.as_ptr().cast::<u8>().add(start);
        Special {
            next: at.add(4).cast::<u32>().read_unaligned(),
            flags: at.add(12).cast::<u16>().read_unaligned(),
        }
    }
}

/// Hashes index keys, so that entries can be compared.
pub struct KeyHasher {
    kinds: Vec<(Kind, i16)>,
}

impl KeyHasher {
    /// # Safety
    /// `index` must be open.
    pub unsafe fn new(index: pg_sys::Relation) -> KeyHasher {
        // SAFETY: by contract.
        let attributes = unsafe { relation::attributes((*index).rd_att) };
        KeyHasher {
            kinds: attributes
                .iter()
                .map(|attribute| (datum::kind_of(attribute), attribute.attlen))
                .collect(),
        }
    }

    /// # Safety
    /// `values` and `nulls` must hold an entry of the index.
    pub unsafe fn hash(&self, values: &[pg_sys::Datum], nulls: &[bool]) -> u64 {
        let mut bytes = Vec::new();
        for (at, (kind, length)) in self.kinds.iter().enumerate() {
            let mut column = datum::empty(*kind);
            // SAFETY: by contract.
            unsafe { datum::push(&mut column, values[at], nulls[at], *length) };
            put_ordered(&mut bytes, &column, 0);
        }
        let mut hasher = FxHasher::default();
        hasher.write(&bytes);
        hasher.finish()
    }
}

/// Shows the TID and the hashed key of every entry to `visit`.
///
/// # Safety
/// `index` must be an open series index.
pub unsafe fn entries(index: pg_sys::Relation, mut visit: impl FnMut(Tid, u64)) {
    // SAFETY: by contract.
    unsafe {
        let hasher = KeyHasher::new(index);
        let blocks = relation::blocks(index);
        let mut cursor = PageCursor::new(index);
        let Some(mut block) = leftmost_leaf(&mut cursor, blocks) else {
            return;
        };
        // A damaged chain could be a circle.
        for _ in 0..relation::blocks(index).saturating_mul(2) {
            error::check_interrupts();
            if block == 0 || block >= relation::blocks(index) {
                return;
            }
            cursor.go(block);
            block = cursor.locked(|page| {
                let special = special(page);
                if special.flags & LEAF != 0 && special.flags & IGNORED == 0 {
                    let first = if special.next == 0 { 1 } else { 2 };
                    for offset in first..=page.line_pointers() {
                        if let Some(item) = page.tuple(offset) {
                            item_entries(index, &hasher, item, &mut visit);
                        }
                    }
                }
                special.next
            });
        }
    }
}

/// From the root, named by the meta page, down the first links.
fn leftmost_leaf(cursor: &mut PageCursor, blocks: u32) -> Option<u32> {
    const ROOT_AT: usize = 24 + 8;
    if blocks == 0 {
        return None;
    }
    cursor.go(0);
    let mut block = cursor.locked(|page| {
        // SAFETY: within the meta page.
        unsafe {
            page.as_ptr()
                .cast::<u8>()
                .add(ROOT_AT)
                .cast::<u32>()
                .read_unaligned()
        }
    });
    for _ in 0..32 {
        if block == 0 || block >= blocks {
            return None;
        }
        cursor.go(block);
        let next = cursor.locked(|page| {
            let special = special(page);
            if special.flags & LEAF != 0 {
                return None;
            }
            let first = if special.next == 0 { 1 } else { 2 };
            // SAFETY: an index tuple starts with its TID, which names the child page.
            page.tuple(first)
                .map(|item| unsafe { tid::read(item.header.cast()).block })
        });
        match next {
            None => return Some(block),
            Some(child) => block = child,
        }
    }
    None
}

unsafe fn item_entries(
    index: pg_sys::Relation,
    hasher: &KeyHasher,
    item: PageTuple,
    visit: &mut impl FnMut(Tid, u64),
) {
    // SAFETY: the page is pinned and locked; lengths are checked against the tuple's.
    unsafe {
        if item.len < 8 {
            return;
        }
        let tuple: pg_sys::IndexTuple = item.header.cast();
        let first = tid::read(&raw mut (*tuple).t_tid);
        let count = (*(*index).rd_att).natts as usize;
        let mut values = vec![pg_sys::Datum::from(0usize); count];
        let mut nulls = vec![true; count];
        pg_sys::index_deform_tuple(
            tuple,
            (*index).rd_att,
            values.as_mut_ptr(),
            nulls.as_mut_ptr(),
        );
        let hash = hasher.hash(&values, &nulls);
        if (*tuple).t_info & ALTERNATIVE_TID == 0 || first.offset & ALTERNATIVE_TID == 0 {
            return visit(first, hash);
        }
        for at in 0..usize::from(first.offset & POSTING_COUNT) {
            let start = first.block as usize + at * 6;
            if start + 6 <= item.len as usize {
                visit(tid::read(tuple.cast::<u8>().add(start).cast()), hash);
            }
        }
    }
}
