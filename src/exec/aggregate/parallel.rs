//! What the processes of a parallel query share: where chunks and rows of the tail are, how far they have been taken, and what was done.
//! The leader finds the places before workers start; each process then takes the next one that nobody has. Where the table is
//! read page by page, core's own parallel scan gives out pages.

use super::places::Places;
use super::selection::Counters;
use crate::pg::parallel_scan::ParallelScan;
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The beginning of the shared memory. Places of headers and of rows follow, or core's description of a parallel scan.
#[repr(C, align(8))]
pub struct Shared {
    next_header: AtomicU64,
    next_row: AtomicU64,
    /// Numbers of places; `PAGES` where there are none.
    headers: u64,
    rows: u64,
    /// What workers have done, until the leader takes it.
    counters: [AtomicU64; Counters::COUNT],
}

const PAGES: u64 = u64::MAX;

/// What the leader has found before workers start.
pub enum Found {
    Places(Places),
    Pages,
}

impl Found {
    /// Bytes of shared memory. Inside a guarded entry point.
    pub fn bytes(&self, table: Table<'_>, snapshot: Snapshot<'_>) -> usize {
        let behind = match self {
            Found::Places(places) => (places.headers.len() + places.rows.len()) * size_of::<Tid>(),
            Found::Pages => ParallelScan::bytes(table, snapshot),
        };
        size_of::<Shared>() + behind
    }
}

impl Shared {
    /// Fills memory. Inside a guarded entry point.
    ///
    /// # Safety
    /// It must have `found.bytes()`, and be aligned for every type.
    pub unsafe fn initialize(
        at: *mut Shared,
        found: &Found,
        table: Table<'_>,
        snapshot: Snapshot<'_>,
    ) {
        // SAFETY: by contract.
        unsafe {
            let (headers, rows) = match found {
                Found::Places(places) => (places.headers.len() as u64, places.rows.len() as u64),
                Found::Pages => (PAGES, PAGES),
            };
            at.write(Shared {
                next_header: AtomicU64::new(0),
                next_row: AtomicU64::new(0),
                headers,
                rows,
                counters: Default::default(),
            });
            match found {
                Found::Places(places) => {
                    let to = at.add(1).cast::<Tid>();
                    to.copy_from_nonoverlapping(places.headers.as_ptr(), places.headers.len());
                    to.add(places.headers.len())
                        .copy_from_nonoverlapping(places.rows.as_ptr(), places.rows.len());
                }
                Found::Pages => {
                    ParallelScan::initialize(at.add(1).cast(), table, snapshot);
                }
            }
        }
    }

    /// Begins from the start again, with the same places.
    ///
    /// # Safety
    /// No worker may run; `table` must be open. Inside a guarded entry point.
    pub unsafe fn reinitialize(at: *mut Shared, table: Table<'_>) {
        // SAFETY: by contract: initialized by the leader.
        unsafe {
            (*at).next_header.store(0, Relaxed);
            (*at).next_row.store(0, Relaxed);
            if let Some(scan) = Shared::pages(at) {
                scan.begin_again(table);
            }
        }
    }

    /// Core's parallel scan, where the table is read page by page.
    ///
    /// # Safety
    /// `at` must have been initialized.
    pub unsafe fn pages(at: *mut Shared) -> Option<ParallelScan> {
        // SAFETY: by contract.
        unsafe { ((*at).headers == PAGES).then(|| ParallelScan::at(at.add(1).cast())) }
    }

    /// Takes the next header.
    ///
    /// # Safety
    /// As `pages`, which must have been None.
    pub unsafe fn next_header(at: *mut Shared) -> Option<Tid> {
        // SAFETY: by contract.
        unsafe { take(&(*at).next_header, 0..(*at).headers, at.add(1).cast()) }
    }

    /// Takes the next row of the tail.
    ///
    /// # Safety
    /// As `next_header`.
    pub unsafe fn next_row(at: *mut Shared) -> Option<Tid> {
        // SAFETY: by contract.
        unsafe {
            let (headers, rows) = ((*at).headers, (*at).rows);
            take(&(*at).next_row, headers..headers + rows, at.add(1).cast())
        }
    }

    /// A worker tells what it has done.
    ///
    /// # Safety
    /// As `pages`.
    pub unsafe fn tell(at: *mut Shared, counters: Counters) {
        // SAFETY: by contract.
        let all = unsafe { &(*at).counters };
        for (sum, count) in all.iter().zip(counters.to_array()) {
            sum.fetch_add(count, Relaxed);
        }
    }

    /// The leader takes what workers have told.
    ///
    /// # Safety
    /// As `pages`.
    pub unsafe fn told(at: *mut Shared) -> Counters {
        // SAFETY: by contract.
        let all = unsafe { &(*at).counters };
        Counters::from_array(all.each_ref().map(|sum| sum.swap(0, Relaxed)))
    }
}

/// Takes the next of the places in a range.
///
/// # Safety
/// `places` must point to as many as the end of the range says.
unsafe fn take(next: &AtomicU64, range: std::ops::Range<u64>, places: *const Tid) -> Option<Tid> {
    let number = next.fetch_add(1, Relaxed);
    // SAFETY: the callers' contract: so many places follow.
    (number < range.end - range.start)
        .then(|| unsafe { *places.add((range.start + number) as usize) })
}
