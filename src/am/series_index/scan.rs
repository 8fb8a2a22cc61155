//! Index scan callbacks. A scan goes in one direction, that of its first row.

use super::entries::{Shape, Stream};
use super::merge::{Merge, Sources};
use super::quals::Quals;
use super::rows::View;
use super::section::{self, Place, Section};
use crate::am::fetch;
use crate::am::scan::OpenChunk;
use crate::pg::memory;
use crate::pg::nbtree::EntryScan;
use crate::pg::tid;
use crate::table::batch;
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::rc::Rc;

unsafe extern "C-unwind" {
    fn PredicateLockRelation(relation: pg_sys::Relation, snapshot: pg_sys::Snapshot);
}

/// What hangs at `IndexScanDescData::opaque`.
struct State {
    shape: Shape,
    /// Arguments that quals are made of; reset at each rescan.
    context: pg_sys::MemoryContext,
    quals: Quals,
    upper: Option<(pg_sys::ScanKeyData, pg_sys::ScanKeyData)>,
    stream: Option<Stream>,
    merge: Merge,
    /// The chunks under the NULL key, once they have been looked for.
    unkeyed: Option<Vec<Rc<OpenChunk>>>,
    /// All chunks that the section's rows are in.
    chunks: Vec<Rc<OpenChunk>>,
    started: bool,
}

unsafe fn state<'a>(scan: pg_sys::IndexScanDesc) -> &'a mut State {
    // SAFETY: set by `begin`.
    unsafe { &mut *(*scan).opaque.cast::<State>() }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn begin(
    index: pg_sys::Relation,
    keys: i32,
    orders: i32,
) -> pg_sys::IndexScanDesc {
    // SAFETY: called by core with an open index. The state dies with the scan's memory context.
    unsafe {
        let scan = pg_sys::RelationGetIndexScan(index, keys, orders);
        let own = pg_sys::CurrentMemoryContext;
        let context = pg_sys::AllocSetContextCreateInternal(
            own,
            c"varve series scan".as_ptr(),
            pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
            pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
            pg_sys::ALLOCSET_SMALL_MAXSIZE as usize,
        );
        let state = State {
            shape: Shape::new(index),
            context,
            quals: Quals::default(),
            upper: None,
            stream: None,
            merge: Merge::default(),
            unkeyed: None,
            chunks: Vec::new(),
            started: false,
        };
        (*scan).opaque = memory::own(own, state).cast();
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
        batch::flush_before_scan(table, snapshot);
        pg_sys::ffi::pg_guard_ffi_boundary(|| PredicateLockRelation(table, snapshot));
        own.merge = Merge::default();
        own.chunks.clear();
        own.quals = Quals::default();
        own.upper = None;
        own.started = false;
        pg_sys::MemoryContextReset(own.context);
        let keys: &[pg_sys::ScanKeyData] = if count == 0 {
            &[]
        } else {
            core::slice::from_raw_parts((*scan).keyData, count)
        };
        own.quals = Quals::new((*scan).indexRelation, keys, own.context);
        if let Some(stream) = &mut own.stream {
            stream.stop();
        }
    }
}

impl State {
    /// Reads the section and sets out in a direction.
    unsafe fn start(&mut self, scan: pg_sys::IndexScanDesc, forward: bool) {
        // SAFETY: called from `get_tuple`.
        unsafe {
            let (table, snapshot) = ((*scan).heapRelation, (*scan).xs_snapshot);
            if self.stream.is_none() {
                let columns = self.shape.columns.len();
                // Bounds of time may become two keys each.
                let room = 2 * (*scan).numberOfKeys as usize + 2 * columns;
                let owner = pg_sys::MemoryContextGetParent(self.context);
                let entries = memory::within(owner, || {
                    EntryScan::begin((*scan).indexRelation, snapshot, room)
                });
                self.stream = Some(Stream::new(entries, &self.shape));
            }
            let stream = self.stream.as_mut().expect("BUG: stream just made");
            let place = Place {
                shape: &self.shape,
                table,
                snapshot,
            };
            let unkeyed = self
                .unkeyed
                .get_or_insert_with(|| section::open_unkeyed(stream.entries(), place));
            self.chunks = section::open_by_first_key(stream.entries(), place, &self.quals, unkeyed);
            self.chunks.extend(unkeyed.iter().cloned());
            if self.chunks.len() <= fetch::RECENT_CHUNKS {
                for chunk in &self.chunks {
                    fetch::offer((*scan).xs_heapfetch, snapshot, chunk);
                }
            }
            let view = View {
                shape: &self.shape,
                quals: &self.quals,
                descriptor: (*table).rd_att,
            };
            self.merge.section = Section::collect(&self.chunks, view);
            if !forward {
                self.upper = self.quals.upper_keys((*scan).indexRelation, self.context);
            }
            stream.start(forward, self.quals.sub_scans());
            self.started = true;
        }
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
        if !own.started {
            let forward = direction != pg_sys::ScanDirection::BackwardScanDirection;
            own.start(scan, forward);
        }
        let mut sources = Sources {
            shape: &own.shape,
            quals: &own.quals,
            table: (*scan).heapRelation,
            snapshot: (*scan).xs_snapshot,
            fetch: (*scan).xs_heapfetch,
            stream: own.stream.as_mut().expect("BUG: scan not started"),
            upper: own.upper,
        };
        match own.merge.next(&mut sources) {
            Some(at) => {
                (*scan).xs_heaptid = tid::to_pg(at);
                (*scan).xs_recheck = false;
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
        own.unkeyed = None;
        own.chunks.clear();
        own.quals = Quals::default();
        if let Some(stream) = own.stream.take() {
            stream.end();
        }
    }
}
