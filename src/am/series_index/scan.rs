//! Index scan callbacks. A scan merges in one direction, that of its first row. A cursor that turns round is
//! shown what it has passed: the TIDs are collected by scanning up to its row again, and kept from then on.

use crate::ingest::batch;
use crate::pg::bare;
use crate::pg::descriptor::Descriptor;
use crate::pg::error;
use crate::pg::memory;
use crate::pg::nbtree::EntryScan;
use crate::pg::relation::{Index, Table};
use crate::pg::scan_key::ScanKey;
use crate::pg::snapshot::Snapshot;
use crate::pg::table_fetch::TableFetch;
use crate::pg::tid::{self, Tid};
use crate::pg::unbound::PredicateLockRelation;
use crate::series_index::cells::Walk;
use crate::series_index::ends::Ends;
use crate::series_index::entries::{IndexDesc, Key, Stream};
use crate::series_index::known_series::{self, KnownSeries, Way};
use crate::series_index::later::{self, Later};
use crate::series_index::merge::{Merge, Sources};
use crate::series_index::opened::Opened;
use crate::series_index::quals::Quals;
use crate::series_index::rows::is_sorted_as;
use crate::series_index::section::{self, Cell, Known, Place, Section, Unkeyed};
use crate::table::fetched;
use crate::table::visible::OpenChunk;
use pgrx::pg_sys;
use pgrx::prelude::*;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// What hangs at `IndexScanDescData::opaque`.
struct State<'a> {
    desc: IndexDesc<'a>,
    /// Arguments that quals are made of; reset at each rescan.
    context: pg_sys::MemoryContext,
    quals: Quals,
    upper: Option<(ScanKey, ScanKey)>,
    stream: Option<Stream>,
    merge: Merge,
    /// The chunks under the NULL key, once they have been looked for.
    unkeyed: Option<Unkeyed>,
    /// Chunks that entries of series, first keys and cells have led to.
    opened: Opened,
    /// Headers of the cells that were asked for.
    cells: FxHashMap<i64, Cell>,
    /// Where the keyed chunks end.
    ends: Ends,
    /// For scans that name no first key.
    walk: Option<Walk>,
    walks: bool,
    /// The chunks under the NULL key wait, too.
    waits_unkeyed: bool,
    /// It is started again to collect what was passed.
    collects: bool,
    /// The chunks that the section's rows are in, but for those that wait.
    chunks: Vec<Rc<OpenChunk>>,
    started: bool,
    forward: bool,
    /// What was returned last by merging; `None` before the first row and behind the last one.
    last: Option<Tid>,
    /// Rows that were passed, once the scan has turned round, and how many of them lie before its place.
    passed: Option<(Vec<Tid>, usize)>,
}

/// # Safety
/// `scan` must come from `begin`, and its memory be there still. Nobody else may use the state meanwhile.
unsafe fn state<'a>(scan: pg_sys::IndexScanDesc) -> &'a mut State<'a> {
    // SAFETY: set by `begin`.
    unsafe { &mut *(*scan).opaque.cast::<State>() }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn begin(
    index: pg_sys::Relation,
    keys: i32,
    orders: i32,
) -> pg_sys::IndexScanDesc {
    // SAFETY: open, or valid, until core's call returns.
    let index = unsafe { Index::from_ptr(index) };
    // SAFETY: called by core with an open index. The state dies with the scan's memory context.
    unsafe {
        let scan = pg_sys::RelationGetIndexScan(index.as_ptr(), keys, orders);
        let own = pg_sys::CurrentMemoryContext;
        let context = pg_sys::AllocSetContextCreateInternal(
            own,
            c"varve series scan".as_ptr(),
            pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
            pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
            pg_sys::ALLOCSET_SMALL_MAXSIZE as usize,
        );
        let state = State {
            desc: IndexDesc::new(index),
            context,
            quals: Quals::default(),
            upper: None,
            stream: None,
            merge: Merge::default(),
            unkeyed: None,
            opened: Opened::default(),
            cells: FxHashMap::default(),
            ends: Ends::default(),
            walk: None,
            walks: false,
            waits_unkeyed: false,
            collects: false,
            chunks: Vec::new(),
            started: false,
            forward: true,
            last: None,
            passed: None,
        };
        (*scan).opaque = memory::own(own, state).cast();
        (*scan).xs_itupdesc = index.descriptor().as_ptr();
        scan
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn rescan(
    scan: pg_sys::IndexScanDesc,
    keys: pg_sys::ScanKey,
    _count: i32,
    _orders: pg_sys::ScanKey,
    _order_count: i32,
) {
    // SAFETY: called by core for a scan of ours. It sets table and snapshot before.
    unsafe {
        let own = state(scan);
        let count = (*scan).numberOfKeys as usize;
        if !keys.is_null() && count > 0 {
            core::ptr::copy(keys, (*scan).keyData, count);
        }
        let (table, snapshot) = ((*scan).heapRelation, (*scan).xs_snapshot);
        batch::flush_before_scan(Table::from_ptr(table), Snapshot::from_ptr(snapshot));
        pg_sys::ffi::pg_guard_ffi_boundary(|| PredicateLockRelation(table, snapshot));
        own.merge = Merge::default();
        own.chunks.clear();
        own.quals = Quals::default();
        own.upper = None;
        own.started = false;
        own.last = None;
        own.passed = None;
        pg_sys::MemoryContextReset(own.context);
        let keys: &[ScanKey] = if count == 0 {
            &[]
        } else {
            ScanKey::slice((*scan).keyData, count)
        };
        own.quals = Quals::new(Index::from_ptr((*scan).indexRelation), keys, own.context);
        if let Some(stream) = &mut own.stream {
            stream.stop();
        }
        if let Some(walk) = &mut own.walk {
            walk.clear();
        }
    }
}

/// Where a scan looks for chunks.
///
/// # Safety
/// `desc` must be of the scan's index, for which core has set table and snapshot.
unsafe fn place<'a>(desc: &'a IndexDesc<'a>, scan: pg_sys::IndexScanDesc) -> Place<'a> {
    // SAFETY: by contract.
    unsafe {
        Place {
            desc,
            table: Table::from_ptr((*scan).heapRelation),
            snapshot: Snapshot::from_ptr((*scan).xs_snapshot),
        }
    }
}

impl<'a> State<'a> {
    /// Finds out what there is to be merged, and sets out in a direction.
    ///
    /// # Safety
    /// `scan` must be the one that the state is of, for which core has set table, snapshot and keys, as before it calls `get_tuple`. Within a
    /// guarded entry point.
    unsafe fn start(&mut self, scan: pg_sys::IndexScanDesc, forward: bool) {
        self.forward = forward;
        self.started = true;
        // SAFETY: by contract.
        unsafe {
            self.open_stream(scan);
            match self.way(scan) {
                Way::Known(known) => self.take_known(&known),
                Way::AskPage => self.find(scan, true),
                Way::Scan => self.find(scan, false),
            }
        }
    }

    /// # Safety
    /// As `start`.
    unsafe fn open_stream(&mut self, scan: pg_sys::IndexScanDesc) {
        if self.stream.is_some() {
            return;
        }
        let columns = self.desc.columns.len();
        // SAFETY: called from `start`.
        let entries = unsafe {
            // Bounds of time may become two keys each.
            let room = 2 * (*scan).numberOfKeys as usize + 2 * columns;
            let owner = bare::MemoryContextGetParent(self.context);
            let index = Index::from_ptr((*scan).indexRelation);
            let snapshot = Snapshot::from_ptr((*scan).xs_snapshot);
            memory::within(owner, || EntryScan::begin(index, snapshot, room))
        };
        self.stream = Some(Stream::new(entries, &self.desc));
    }

    /// How the entries are found best. Something is known of single series that are read backward, without bounds of time.
    ///
    /// # Safety
    /// As `start`.
    unsafe fn way(&self, scan: pg_sys::IndexScanDesc) -> Way {
        if self.forward || self.quals.asks_for_times() {
            return Way::Scan;
        }
        // SAFETY: called from `start`.
        unsafe {
            let place = place(&self.desc, scan);
            let series = later::series_of(place.view(&self.quals));
            let is_wanted = |key: &Rc<Key>| self.quals.keys_hold(|column| key.values[column]);
            match series.filter(is_wanted) {
                Some(key) if later::may_be_listed(place) => known_series::way_to(place, &key),
                _ => Way::Scan,
            }
        }
    }

    fn take_known(&mut self, known: &KnownSeries) {
        self.walks = false;
        self.chunks.clear();
        self.merge.section = Section::of_later(known.later());
        let stream = self.stream.as_mut().expect("BUG: no stream");
        stream.start(self.forward, 1, Some(known.entries.clone()));
    }

    /// Finds chunks by sections of the index. Where it `asks` a page, that may tell the entries of a series, too.
    ///
    /// # Safety
    /// As `start`, which must have opened the stream.
    unsafe fn find(&mut self, scan: pg_sys::IndexScanDesc, asks: bool) {
        let forward = self.forward;
        // SAFETY: called from `start`.
        unsafe {
            let snapshot = (*scan).xs_snapshot;
            let stream = self.stream.as_mut().expect("BUG: no stream");
            let place = place(&self.desc, scan);
            let view = place.view(&self.quals);
            let series = later::series_of(view);
            let waits = series.is_some() && later::may_be_listed(place);
            // Whoever comes again will need most of them. Who collects what was passed needs the same order.
            self.waits_unkeyed &= self.collects;
            self.waits_unkeyed |= waits && self.unkeyed.is_none();
            let unkeyed = self
                .unkeyed
                .get_or_insert_with(|| section::open_unkeyed(stream.entries(), place, waits));
            if !self.waits_unkeyed {
                unkeyed.open(place);
            }
            let room = (*scan).numberOfKeys as usize + self.desc.columns.len();
            let owner = bare::MemoryContextGetParent(self.context);
            let new_walk = || {
                let index = Index::from_ptr((*scan).indexRelation);
                let snapshot = Snapshot::from_ptr(snapshot);
                Walk::new(memory::within(owner, || {
                    EntryScan::begin(index, snapshot, room)
                }))
            };
            self.walks = self.quals.walks_over_cells();
            let (mut found, pages) = if self.walks {
                let walk = self.walk.get_or_insert_with(new_walk);
                walk.start(&self.desc, &self.quals, unkeyed, forward);
                Default::default()
            } else {
                let known = Known {
                    unkeyed,
                    opened: &mut self.opened,
                    cells: &mut self.cells,
                };
                section::open_by_first_key(stream.entries(), place, &self.quals, known, waits)
            };
            found.extend(unkeyed.chunks());
            let asked = series.clone().filter(|_| asks);
            let (later, others) = Later::of(found, series, view, forward);
            let entries = asked.and_then(|key| known_series::entries_of(place, &key));
            let entries = entries.map(|(entries, page)| {
                if others.is_empty() {
                    known_series::remember(place, &entries, later.as_ref(), pages.and(page));
                }
                entries
            });
            if others.len() <= fetched::RECENT_CHUNKS {
                let fetch = TableFetch::from_ptr((*scan).xs_heapfetch);
                for chunk in &others {
                    fetched::offer(fetch, Snapshot::from_ptr(snapshot), chunk);
                }
            }
            // The rows of one chunk that is sorted as the index is need not be collected.
            let runs =
                later.is_none() && !self.quals.ask_for_anything() && self.desc.is_of_integers();
            let alone = match &others[..] {
                [open] if runs && is_sorted_as(&open.reader.chunk, &self.desc) => Some(open),
                _ => None,
            };
            let is_taken = alone.is_some_and(|open| {
                let walk = self.walk.get_or_insert_with(new_walk);
                walk.start_run(open, forward)
            });
            self.walks |= is_taken;
            if !is_taken {
                self.merge.section = Section::collect(&others, later, view);
            }
            self.chunks = others;
            if !forward {
                self.upper = self
                    .quals
                    .upper_keys(Index::from_ptr((*scan).indexRelation), self.context);
            }
            stream.start(forward, self.quals.sub_scans(), entries);
        }
    }

    /// The next row in the direction of the scan's start.
    ///
    /// # Safety
    /// As `start`, which must have run.
    #[inline]
    unsafe fn merge_next(&mut self, scan: pg_sys::IndexScanDesc) -> Option<Tid> {
        if let Some(at) = self.merge.next_of_run(self.forward) {
            self.last = Some(at);
            return self.last;
        }
        // SAFETY: called from `get_tuple`, after the start.
        let mut sources = unsafe {
            Sources {
                desc: &self.desc,
                quals: &self.quals,
                table: Table::from_ptr((*scan).heapRelation),
                snapshot: Snapshot::from_ptr((*scan).xs_snapshot),
                fetch: TableFetch::from_ptr((*scan).xs_heapfetch),
                stream: self.stream.as_mut().expect("BUG: scan not started"),
                opened: &mut self.opened,
                ends: &mut self.ends,
                walk: self.walk.as_mut().filter(|_| self.walks),
                upper: self.upper,
            }
        };
        self.last = self.merge.next(&mut sources);
        self.last
    }

    /// Collects what the scan has passed, by starting again. The row that it is at is visible to its snapshot,
    /// so it comes again, whatever invisible ones may come and go.
    ///
    /// # Safety
    /// As `merge_next`.
    unsafe fn collect_passed(&mut self, scan: pg_sys::IndexScanDesc) {
        let end = self.last;
        let mut passed = Vec::new();
        // SAFETY: called from `get_tuple`, after the start.
        unsafe {
            self.merge = Merge::default();
            self.stream.as_mut().expect("BUG: scan not started").stop();
            self.collects = true;
            self.start(scan, self.forward);
            self.collects = false;
            while let Some(at) = self.merge_next(scan) {
                error::check_interrupts();
                passed.push(at);
                if Some(at) == end {
                    break;
                }
            }
        }
        let place = passed.len() + usize::from(end.is_none());
        self.passed = Some((passed, place));
    }

    /// The next row of a scan that has turned round at least once. The place is the number of the row that was
    /// returned last, from 1; 0 before the first, and one more than there are behind the last.
    ///
    /// # Safety
    /// As `merge_next`; `collect_passed` must have run.
    unsafe fn next_of_passed(&mut self, scan: pg_sys::IndexScanDesc, onward: bool) -> Option<Tid> {
        let (passed, place) = self.passed.as_mut().expect("BUG: nothing collected");
        if !onward {
            *place = place.saturating_sub(1);
            return place.checked_sub(1).map(|at| passed[at]);
        }
        if *place >= passed.len() {
            let is_behind = *place > passed.len();
            let next = if is_behind {
                None
            } else {
                // SAFETY: as above.
                unsafe { self.merge_next(scan) }
            };
            let (passed, place) = self.passed.as_mut().expect("BUG: nothing collected");
            *place = passed.len() + 1;
            passed.extend(next);
            return next;
        }
        *place += 1;
        Some(passed[*place - 1])
    }
}

/// What an index-only scan gets as the row's columns. The index returns none (`amcanreturn`), so the planner
/// makes such a scan only where no column is asked for, as by count(*).
///
/// # Safety
/// The descriptor must be that of an open index. The result is made in the current memory context. Within a guarded entry point.
unsafe fn without_values(descriptor: Descriptor<'_>) -> pg_sys::IndexTuple {
    // SAFETY: the caller's contract: the descriptor of an open index.
    unsafe {
        let columns = descriptor.len();
        let mut values = vec![pg_sys::Datum::from(0usize); columns];
        let mut nulls = vec![true; columns];
        pg_sys::index_form_tuple(descriptor.as_ptr(), values.as_mut_ptr(), nulls.as_mut_ptr())
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn get_tuple(
    scan: pg_sys::IndexScanDesc,
    direction: pg_sys::ScanDirection::Type,
) -> bool {
    // SAFETY: called by core for a scan of ours.
    unsafe {
        let own = state(scan);
        if own.quals.impossible {
            return false;
        }
        let forward = direction != pg_sys::ScanDirection::BackwardScanDirection;
        if !own.started {
            own.start(scan, forward);
        }
        let onward = forward == own.forward;
        if !onward && own.passed.is_none() {
            own.collect_passed(scan);
        }
        let next = match own.passed {
            Some(_) => own.next_of_passed(scan, onward),
            None => own.merge_next(scan),
        };
        match next {
            Some(at) => {
                (*scan).xs_heaptid = tid::to_pg(at);
                (*scan).xs_recheck = false;
                if (*scan).xs_want_itup && (*scan).xs_itup.is_null() {
                    let owner = bare::MemoryContextGetParent(own.context);
                    let descriptor = (*scan).xs_itupdesc;
                    (*scan).xs_itup =
                        memory::within(owner, || without_values(Descriptor::from_ptr(descriptor)));
                }
                true
            }
            None => false,
        }
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn end(scan: pg_sys::IndexScanDesc) {
    // SAFETY: called by core once for a scan of ours; the state's box goes with its context.
    unsafe {
        let own = state(scan);
        own.merge = Merge::default();
        own.passed = None;
        own.unkeyed = None;
        own.opened.clear();
        own.cells = FxHashMap::default();
        own.chunks.clear();
        own.quals = Quals::default();
        if let Some(stream) = own.stream.take() {
            stream.end();
        }
        if let Some(walk) = own.walk.take() {
            walk.end();
        }
    }
}
