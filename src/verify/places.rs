//! What reads a table by way of its series index (`headers`) must come upon all that a walk over its pages does.

use super::Verifier;
use crate::chunk::inspect;
use crate::chunk::tuple_kind::TupleKind;
use crate::pg::memory;
use crate::pg::open::OpenIndex;
use crate::pg::tid::Tid;
use crate::scan::headers;
use crate::scan::in_range::{in_range, Place};
use crate::series_index::quals::Quals;
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;
use varve_columns::tuple::header::FLAG_TOMBSTONE;

impl<'a> Verifier<'a> {
    /// Looks for what the index does not lead to; where entries are known to be wrong, that is why.
    ///
    /// # Safety
    /// The table must be open, the snapshot valid.
    pub(super) unsafe fn places(&mut self) {
        let (table, snapshot) = (self.table, self.snapshot);
        // SAFETY: by contract.
        unsafe {
            if !self.findings.is_empty() {
                return;
            }
            let Some(index) = headers::usable_index(table, snapshot) else {
                return;
            };
            let Some(places) = headers::places(table, snapshot) else {
                return;
            };
            let mut found = In {
                headers: FxHashSet::default(),
                tail: places.tail.into_iter().collect(),
            };
            let (mut shown, mut opened) = (Vec::new(), Vec::new());
            headers::each_header(table, snapshot, |at, header| {
                shown.push((at, header.ok().and_then(|header| headers::times(&header))));
            });
            headers::each_chunk(table, snapshot, |at, reader| {
                let reader = reader.ok();
                let times = reader.and_then(|reader| headers::times(&reader.chunk.header));
                opened.push((at, times));
            });
            for &(at, _) in &shown {
                if !found.headers.insert(at) {
                    self.note("series index", at, "a reading comes upon the header twice");
                }
            }
            if shown != opened {
                self.note(
                    "series index",
                    table.name(),
                    "two readings of the headers differ",
                );
            }
            self.compare(&found, "the whole of");
            let found = self.everything_in_range(&index);
            self.compare(&found, "a range of");
        }
    }

    /// What a reading of the whole range of an index comes upon.
    ///
    /// # Safety
    /// The table must be open, the snapshot valid; `index` must be one that `usable_index` found for table and snapshot.
    unsafe fn everything_in_range(&self, index: &OpenIndex) -> In {
        let mut found = In::default();
        // SAFETY: by contract; the quals have no arguments.
        unsafe {
            let quals = Quals::new(index.rel(), &[], memory::current().as_ptr());
            in_range(self.table, index.rel(), self.snapshot, &quals, |place| {
                match place {
                    Place::Header(at) => drop(found.headers.insert(at)),
                    Place::Row(at) => drop(found.tail.insert(at.block)),
                };
            });
        }
        found
    }

    /// Notes what a walk over the table's pages shows, and a reading has not come upon.
    ///
    /// # Safety
    /// The table must be open, the snapshot valid.
    unsafe fn compare(&mut self, found: &In, what: &str) {
        let (table, snapshot) = (self.table, self.snapshot);
        let mut walked = Vec::new();
        let mut lost: BTreeSet<Tid> = BTreeSet::new();
        // SAFETY: by contract; only memory is touched while a page is locked.
        unsafe {
            inspect::visible_tuples(table, snapshot, |kind, item| match kind {
                TupleKind::Header => walked.push(item.tid),
                TupleKind::Row if !found.tail.contains(&item.tid.block) => {
                    lost.insert(item.tid);
                }
                _ => {}
            });
            headers::visit_headers(table, snapshot, &walked, |at, header| {
                let has_rows = header.is_ok_and(|header| !header.has(FLAG_TOMBSTONE));
                if has_rows && !found.headers.contains(&at) {
                    lost.insert(at);
                }
            });
            let name = table.name();
            for at in lost {
                let detail =
                    format!("a reading of {what} \"{name}\" by its series index misses it");
                self.note("series index", at, detail);
            }
        }
    }
}

/// What a reading has come upon.
#[derive(Default)]
struct In {
    headers: FxHashSet<Tid>,
    tail: FxHashSet<u32>,
}
