//! The chunks that a scan has opened last: many series share one, and rescans come to the same ones.

use crate::chunk::chunk_cache;
use crate::pg::relation::Table;
use crate::pg::snapshot::{Snapshot, Stamp};
use crate::pg::tid::Tid;
use crate::table::visible::OpenChunk;
use smallvec::SmallVec;
use std::ops::Range;
use std::rc::Rc;

/// Chunks that a scan has opened by their keys, in this rescan or before: many series share one. Good for one MVCC snapshot and command, to
/// which a chunk stays what it is.
#[derive(Default)]
pub struct Opened {
    stamp: Option<Stamp>,
    chunks: SmallVec<[OpenedChunk; 1]>,
    /// The chunk that was asked for last: the next series is in it more often than not.
    last: usize,
}

struct OpenedChunk {
    header: Tid,
    open: Rc<OpenChunk>,
    /// Rows of the series that was looked for last.
    found: Range<u32>,
}

/// Chunks that are kept open.
const MOST_OPENED: usize = 32;

impl Opened {
    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.chunks.clear();
    }

    /// The chunk whose header is at `header`, if the snapshot sees it.
    ///
    /// # Safety
    /// `table` must be open, `snapshot` valid.
    pub unsafe fn open(
        &mut self,
        table: Table<'_>,
        header: Tid,
        snapshot: Snapshot<'_>,
    ) -> Option<Rc<OpenChunk>> {
        // SAFETY: by contract.
        unsafe {
            let is_mvcc = snapshot.is_mvcc();
            let stamp = is_mvcc.then(|| snapshot.stamp());
            if stamp.is_none() || stamp != self.stamp || self.chunks.len() > MOST_OPENED {
                self.clear();
                self.stamp = stamp;
            }
            if let Some(known) = self.known(header) {
                return Some(Rc::clone(&known.open));
            }
            let reader = chunk_cache::reader_at(table, header, snapshot)?;
            let open = Rc::new(OpenChunk::new(reader, snapshot));
            if open.is_empty() {
                return None;
            }
            self.last = self.chunks.len();
            self.chunks.push(OpenedChunk {
                header,
                open: Rc::clone(&open),
                found: 0..0,
            });
            Some(open)
        }
    }

    /// The rows of the series that was looked for last in an open chunk, for who looks for another.
    pub fn found(&mut self, header: Tid) -> Option<&mut Range<u32>> {
        self.known(header).map(|chunk| &mut chunk.found)
    }

    fn known(&mut self, header: Tid) -> Option<&mut OpenedChunk> {
        let is_it = |chunk: &OpenedChunk| chunk.header == header;
        if !self.chunks.get(self.last).is_some_and(is_it) {
            self.last = self.chunks.iter().position(is_it)?;
        }
        self.chunks.get_mut(self.last)
    }
}
