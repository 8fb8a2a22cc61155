//! Where the node reads: chunks and rows of the tail, by a sequential scan of the table, or at places that a series index names.

use super::conditions::Bounded;
use super::evaluate::guarded;
use super::places;
use crate::am::scan::{self, Part};
use crate::chunk::chunk_cache;
use crate::pg::memory;
use crate::pg::tid::{self, Tid};
use crate::table::visible::OpenChunk;
use pgrx::pg_sys;
use varve_columns::tuple::header::FLAG_TOMBSTONE;

/// A running scan.
pub struct Source {
    way: Way,
    table: pg_sys::Relation,
    snapshot: pg_sys::Snapshot,
    slot: *mut pg_sys::TupleTableSlot,
}

enum Way {
    Pages(pg_sys::TableScanDesc),
    Places {
        headers: std::vec::IntoIter<Tid>,
        rows: std::vec::IntoIter<Tid>,
        fetch: *mut pg_sys::IndexFetchTableData,
    },
}

/// What the source comes upon.
pub enum Input {
    /// A row of the tail, which the slot shows.
    Row,
    Chunk(OpenChunk),
}

impl Source {
    /// # Safety
    /// `table` must be open, `snapshot` registered, `slot` one for its rows. What is made of conditions lives in `scratch`. Inside a guarded entry point.
    pub unsafe fn begin(
        table: pg_sys::Relation,
        snapshot: pg_sys::Snapshot,
        slot: *mut pg_sys::TupleTableSlot,
        conditions: &[(&Bounded, usize)],
        scratch: pg_sys::MemoryContext,
    ) -> Source {
        use pg_sys::ScanOptions::*;
        let flags = SO_TYPE_SEQSCAN | SO_ALLOW_STRAT | SO_ALLOW_SYNC | SO_ALLOW_PAGEMODE;
        // SAFETY: by contract; a table access method has these callbacks.
        let way = unsafe {
            match memory::within(scratch, || places::find(table, snapshot, conditions)) {
                Some(found) => {
                    let begin = (*(*table).rd_tableam).index_fetch_begin;
                    let begin = begin.expect("BUG: no index_fetch_begin");
                    Way::Places {
                        headers: found.headers.into_iter(),
                        rows: found.rows.into_iter(),
                        fetch: guarded(|| begin(table)),
                    }
                }
                None => {
                    let (keys, parallel) = (core::ptr::null_mut(), core::ptr::null_mut());
                    Way::Pages(guarded(|| {
                        scan::scan_begin(table, snapshot, 0, keys, parallel, flags)
                    }))
                }
            }
        };
        Source {
            way,
            table,
            snapshot,
            slot,
        }
    }

    /// The next row of the tail or chunk that the snapshot sees.
    ///
    /// # Safety
    /// Inside a guarded entry point.
    pub unsafe fn next(&mut self) -> Option<Input> {
        // SAFETY: by contract.
        unsafe {
            let (headers, rows, fetch) = match &mut self.way {
                Way::Pages(scan) => {
                    return Some(match scan::next_part(*scan, self.slot)? {
                        Part::Row => Input::Row,
                        Part::Chunk(open) => Input::Chunk(open),
                    });
                }
                Way::Places {
                    headers,
                    rows,
                    fetch,
                } => (headers, rows, *fetch),
            };
            for at in headers {
                crate::pg::error::check_interrupts();
                let reader = chunk_cache::reader_at(self.table, at, self.snapshot);
                let reader = reader.filter(|reader| !reader.chunk.header.has(FLAG_TOMBSTONE));
                if let Some(reader) = reader {
                    return Some(Input::Chunk(OpenChunk::new(reader, self.snapshot)));
                }
            }
            let get = (*(*self.table).rd_tableam).index_fetch_tuple;
            let get = get.expect("BUG: no index_fetch_tuple");
            for at in rows {
                crate::pg::error::check_interrupts();
                let mut item = tid::to_pg(at);
                let (snapshot, slot) = (self.snapshot, self.slot);
                // Under an MVCC snapshot no more than one version of a chain is seen.
                let (mut again, mut dead) = (false, false);
                if guarded(|| get(fetch, &mut item, snapshot, slot, &mut again, &mut dead)) {
                    return Some(Input::Row);
                }
            }
            None
        }
    }

    /// # Safety
    /// Inside a guarded entry point.
    pub unsafe fn end(self) {
        // SAFETY: by contract.
        unsafe {
            crate::pg::executor::clear_tuple(self.slot);
            match self.way {
                Way::Pages(scan) => guarded(|| scan::scan_end(scan)),
                Way::Places { fetch, .. } => {
                    let end = (*(*self.table).rd_tableam).index_fetch_end;
                    let end = end.expect("BUG: no index_fetch_end");
                    guarded(|| end(fetch));
                }
            }
        }
    }
}
