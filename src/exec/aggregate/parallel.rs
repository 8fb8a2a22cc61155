//! What the processes of a parallel query share: where chunks and rows of the tail are, how far they have been taken, and what was done.
//! The leader finds the places before workers start; each process then takes the next one that nobody has. Where the table is
//! read page by page, core's own parallel scan gives out pages. Where a process must have all of a group, it takes ranges of keys.

use super::key_range::{is_left_to_leader, KeyRange};
use super::key_ranges::KeyRanges;
use super::outbox::{Outbox, Shape};
use super::places::Places;
use super::selection::Counters;
use crate::pg::parallel_scan::ParallelScan;
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The beginning of the shared memory. Places of headers and of rows follow, or core's description of a parallel scan, or a key's column and cuts, and
/// an outbox.
#[repr(C, align(8))]
pub struct Shared {
    next_header: AtomicU64,
    next_row: AtomicU64,
    next_range: AtomicU64,
    /// The leader has taken a range, so it takes others until there are none, or nobody wants more rows.
    leader_takes: AtomicBool,
    /// Numbers of places; `PAGES` or `RANGES` where there are none.
    headers: u64,
    rows: u64,
    cuts: u64,
    /// What workers have done, until the leader takes it.
    counters: [AtomicU64; Counters::COUNT],
}

const PAGES: u64 = u64::MAX;
const RANGES: u64 = PAGES - 1;

/// What the leader has found before workers start.
pub enum Found {
    Places(Places),
    Pages,
    /// With what workers leave their rows in.
    Ranges(KeyRanges, Shape),
}

impl Found {
    /// Bytes of shared memory. Inside a guarded entry point.
    pub fn bytes(&self, table: Table<'_>, snapshot: Snapshot<'_>) -> usize {
        let behind = match self {
            Found::Places(places) => (places.headers.len() + places.rows.len()) * size_of::<Tid>(),
            Found::Pages => ParallelScan::bytes(table, snapshot),
            Found::Ranges(ranges, outbox) => {
                (1 + ranges.cuts.len()) * size_of::<i64>() + outbox.bytes()
            }
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
            let (headers, rows, cuts) = match found {
                Found::Places(places) => (places.headers.len() as u64, places.rows.len() as u64, 0),
                Found::Pages => (PAGES, PAGES, 0),
                Found::Ranges(ranges, _) => (RANGES, RANGES, ranges.cuts.len() as u64),
            };
            at.write(Shared {
                next_header: AtomicU64::new(0),
                next_row: AtomicU64::new(0),
                next_range: AtomicU64::new(0),
                leader_takes: AtomicBool::new(false),
                headers,
                rows,
                cuts,
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
                Found::Ranges(ranges, outbox) => {
                    let to = at.add(1).cast::<i64>();
                    to.write(ranges.column as i64);
                    let cuts = &ranges.cuts;
                    to.add(1)
                        .copy_from_nonoverlapping(cuts.as_ptr(), cuts.len());
                    Outbox::make(to.add(1 + cuts.len()).cast(), *outbox);
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
            (*at).next_range.store(0, Relaxed);
            (*at).leader_takes.store(false, Relaxed);
            if let Some(scan) = Shared::pages(at) {
                scan.begin_again(table);
            }
            if let Some(outbox) = Shared::outbox(at) {
                outbox.open_again();
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

    /// Where workers leave rows, where ranges are shared.
    ///
    /// # Safety
    /// As `pages`.
    pub unsafe fn outbox(at: *mut Shared) -> Option<Outbox> {
        // SAFETY: by contract: it is behind the column and the cuts.
        unsafe {
            ((*at).headers == RANGES).then(|| {
                let behind = at.add(1).cast::<i64>().add(1 + (*at).cuts as usize);
                Outbox::at(behind.cast())
            })
        }
    }

    /// Tells workers that the leader takes ranges, and what is in the outbox.
    ///
    /// # Safety
    /// As `next_range`.
    pub unsafe fn leader_takes(at: *mut Shared) {
        // SAFETY: by contract.
        unsafe { (*at).leader_takes.store(true, Relaxed) };
    }

    /// Does the leader take ranges?
    ///
    /// # Safety
    /// As `next_range`.
    pub unsafe fn does_leader_take(at: *mut Shared) -> bool {
        // SAFETY: by contract.
        unsafe { (*at).leader_takes.load(Relaxed) }
    }

    /// Does a worker, which took so long for its last range, leave the rest to the leader?
    ///
    /// # Safety
    /// As `next_range`.
    pub unsafe fn is_left_to_leader(at: *mut Shared, each: Duration) -> bool {
        // SAFETY: by contract.
        unsafe {
            // That of NULLs besides the cuts is seldom anything.
            let ranges = (*at).cuts + 1;
            let left = ranges.saturating_sub((*at).next_range.load(Relaxed));
            Shared::does_leader_take(at) && is_left_to_leader(left, each)
        }
    }

    /// Takes the next range of keys, of the column that is returned with it, from 0.
    ///
    /// # Safety
    /// `at` must have been initialized with ranges.
    pub unsafe fn next_range(at: *mut Shared) -> Option<(usize, KeyRange)> {
        // SAFETY: by contract; the column and the cuts follow.
        unsafe {
            assert!((*at).headers == RANGES, "BUG: no ranges are shared");
            let number = (*at).next_range.fetch_add(1, Relaxed);
            let column = at.add(1).cast::<i64>();
            let cuts = std::slice::from_raw_parts(column.add(1), (*at).cuts as usize);
            let range = KeyRange::of(cuts, usize::try_from(number).ok()?)?;
            Some((*column as usize, range))
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
