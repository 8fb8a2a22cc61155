//! Which tuples go into an index that is built, and under which TID. The rules about tuples of running
//! transactions are those of PostgreSQL's heap.

use crate::pg::error::{self, Code};
use crate::pg::page::{PageCursor, PageTuple};
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::{self, Tid};
use crate::pg::transaction;
use crate::pg::tuple;
use pgrx::pg_sys;

/// More line pointers than a page has.
const MAX_OFFSETS: usize = 512;

/// Which tuples a build takes.
pub enum Rule<'a> {
    /// All that somebody may still see, by the horizon.
    Horizon(pg_sys::TransactionId),
    Snapshot(Snapshot<'a>),
}

/// What to do with a tuple.
pub enum Visibility {
    Skip,
    Take {
        alive: bool,
        counts: bool,
    },
    /// Look again when this transaction is over.
    Wait(pg_sys::TransactionId),
}

pub struct VisibilityCheck<'a> {
    pub table: Table<'a>,
    pub info: *mut pg_sys::IndexInfo,
    pub rule: Rule<'a>,
    pub any_visible: bool,
    /// The index is there, and its entries are compared.
    pub checks: bool,
}

impl<'a> VisibilityCheck<'a> {
    /// Judges a tuple whose page is pinned and share-locked.
    ///
    /// # Safety
    /// The tuple must be one of the table on the page in `buffer`, which is pinned and locked; table and IndexInfo must be those of the build
    /// that runs.
    unsafe fn visibility(&mut self, item: PageTuple<'_>, buffer: pg_sys::Buffer) -> Visibility {
        // SAFETY: by contract.
        unsafe {
            let mut found = item.to_heap_tuple(self.table.oid());
            let horizon = match self.rule {
                Rule::Snapshot(snapshot) => {
                    let seen = snapshot.sees(&mut found, buffer);
                    return if seen {
                        Visibility::Take {
                            alive: true,
                            counts: true,
                        }
                    } else {
                        Visibility::Skip
                    };
                }
                Rule::Horizon(horizon) => horizon,
            };
            let hot = tuple::is_hot_updated(item.header());
            match pg_sys::HeapTupleSatisfiesVacuum(&mut found, horizon, buffer) {
                pg_sys::HTSV_Result::HEAPTUPLE_DEAD => Visibility::Skip,
                pg_sys::HTSV_Result::HEAPTUPLE_LIVE => Visibility::Take {
                    alive: true,
                    counts: true,
                },
                pg_sys::HTSV_Result::HEAPTUPLE_RECENTLY_DEAD if hot => self.broken_chain(),
                pg_sys::HTSV_Result::HEAPTUPLE_RECENTLY_DEAD => Visibility::Take {
                    alive: false,
                    counts: false,
                },
                pg_sys::HTSV_Result::HEAPTUPLE_INSERT_IN_PROGRESS => {
                    self.visibility_of_insert(item)
                }
                _ => self.visibility_of_delete(item, hot),
            }
        }
    }

    /// An old version with a successor on its page that may have other keys: leave it to transactions
    /// that are not allowed to use the index.
    ///
    /// # Safety
    /// The IndexInfo must be that of the build that runs.
    unsafe fn broken_chain(&mut self) -> Visibility {
        // SAFETY: the build owns the IndexInfo.
        unsafe { (*self.info).ii_BrokenHotChain = true };
        Visibility::Skip
    }

    /// Judges a tuple whose writer is in progress.
    ///
    /// # Safety
    /// As `visibility`.
    unsafe fn visibility_of_insert(&self, item: PageTuple<'_>) -> Visibility {
        // SAFETY: the caller's contract.
        unsafe {
            let xmin = tuple::xmin(item.header());
            let own = transaction::is_current(xmin);
            if !own && !self.any_visible && (*self.info).ii_Unique {
                return Visibility::Wait(xmin);
            }
            Visibility::Take {
                alive: true,
                counts: own || self.any_visible,
            }
        }
    }

    /// Judges a tuple whose deleter is in progress.
    ///
    /// # Safety
    /// As `visibility`.
    unsafe fn visibility_of_delete(&mut self, item: PageTuple<'_>, hot: bool) -> Visibility {
        // SAFETY: the caller's contract.
        unsafe {
            if self.any_visible {
                return Visibility::Take {
                    alive: false,
                    counts: true,
                };
            }
            let deleter = tuple::update_xid(item.header());
            if transaction::is_current(deleter) {
                return if hot {
                    self.broken_chain()
                } else {
                    Visibility::Take {
                        alive: false,
                        counts: false,
                    }
                };
            }
            if hot || (*self.info).ii_Unique {
                return Visibility::Wait(deleter);
            }
            Visibility::Take {
                alive: false,
                counts: true,
            }
        }
    }

    /// Judges the tuple at a line pointer, waiting for other transactions where that is the rule.
    ///
    /// # Safety
    /// The cursor must be on the tuple's page.
    pub unsafe fn decide<'c>(
        &mut self,
        cursor: &'c PageCursor,
        at: Tid,
    ) -> Option<(PageTuple<'c>, Visibility, Option<u16>)> {
        loop {
            error::check_interrupts();
            let buffer = cursor.buffer();
            let judged = cursor.locked(|page| {
                let item = page.tuple(at.offset)?;
                // SAFETY: the page is pinned and locked.
                unsafe {
                    let seen = self.visibility(item, buffer);
                    Some((item, seen, root_of(page.as_ptr(), item)))
                }
            })?;
            let Visibility::Wait(other) = judged.1 else {
                return Some(judged);
            };
            let mut place = tid::to_pg(at);
            // SAFETY: the table is open; no page is locked.
            unsafe {
                pg_sys::XactLockTableWait(
                    other,
                    self.table.as_ptr(),
                    &mut place,
                    pg_sys::XLTW_Oper::XLTW_InsertIndexUnique,
                );
            }
        }
    }
}

/// Line pointer of the HOT chain's root that leads to a tuple of a locked page.
///
/// # Safety
/// `page` must be one of a heap, pinned and locked, with `item` on it.
unsafe fn root_of(page: pg_sys::Page, item: PageTuple<'_>) -> Option<u16> {
    // SAFETY: the caller's contract.
    unsafe {
        if !tuple::is_heap_only(item.header()) {
            return Some(item.tid.offset);
        }
        let mut roots = [0u16; MAX_OFFSETS];
        pg_sys::heap_get_root_tuples(page, roots.as_mut_ptr());
        Some(roots[usize::from(item.tid.offset) - 1]).filter(|&offset| offset != 0)
    }
}

pub fn raise_without_root(table: Table<'_>, at: Tid) -> ! {
    let name = table.name();
    error::raise(
        Code::ERRCODE_DATA_CORRUPTED,
        format!("failed to find the parent of the heap-only tuple at {at} in table \"{name}\""),
        "",
        "",
    )
}
