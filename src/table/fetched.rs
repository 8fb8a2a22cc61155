//! The chunks that a fetch of rows by an index keeps open. An index scan that has opened a chunk of which it returns rows offers it
//! to the fetch, so that this does not look for it.

use super::visible::OpenChunk;
use crate::chunk::reader::Reader;
use crate::pg::snapshot::{Snapshot, Stamp};
use crate::pg::table_fetch::{BesideHeap, TableFetch};
use crate::pg::tid::Tid;
use smallvec::SmallVec;
use std::rc::Rc;
use varve_columns::tuple::header::FLAG_ONE_SERIES;

/// What a fetch of ours adds to heap's: the chunks of the latest compressed rows, the last one last, good for the same snapshot.
pub type Recent = SmallVec<[RecentChunk; 1]>;

/// A fetch of ours.
pub type VarveFetch = BesideHeap<Recent>;

/// Chunks that a fetch keeps open: an ordered scan goes back and forth between those that overlap.
pub const RECENT_CHUNKS: usize = 32;
/// What they may take, besides a block of each column of each of them.
const RECENT_BYTES: usize = 32 << 20;

/// A chunk that a fetch keeps open.
pub struct RecentChunk {
    pub header: Tid,
    pub snapshot: Stamp,
    pub open: Rc<OpenChunk>,
}

/// Adds a chunk that is none of the recent ones.
pub fn remember(recent: &mut Recent, chunk: RecentChunk) {
    if recent.len() == RECENT_CHUNKS {
        // The scan may hold on to it.
        recent.remove(0).open.reader.shrink();
    }
    let bytes = recent.iter().map(|chunk| chunk.open.reader.kept_bytes());
    if bytes.sum::<usize>() > RECENT_BYTES {
        recent.iter().for_each(|chunk| chunk.open.reader.trim());
    }
    recent.push(chunk);
}

/// Lets a fetch know a chunk that an index scan has opened for the same snapshot, and returns rows of.
///
/// # Safety
/// `fetch` must come from `index_fetch_begin`, `snapshot` must be the scan's.
pub unsafe fn offer(fetch: TableFetch<'_>, snapshot: Snapshot<'_>, open: &Rc<OpenChunk>) {
    // SAFETY: by contract.
    unsafe {
        let stamp = snapshot.stamp();
        let recent = fetch.added::<Recent>();
        let is_known = |last: &RecentChunk| last.snapshot == stamp && Rc::ptr_eq(&last.open, open);
        if recent.last().is_some_and(is_known) {
            return;
        }
        let chunk = RecentChunk {
            header: open.reader.chunk.tid,
            snapshot: stamp,
            open: Rc::clone(open),
        };
        recent.retain(|known| known.header != chunk.header);
        remember(recent, chunk);
    }
}

/// Lets a fetch forget a chunk that an index scan has left, unless the scan may come to other series in it.
///
/// # Safety
/// As `offer`.
pub unsafe fn leave(fetch: TableFetch<'_>, open: &OpenChunk) {
    if !open.reader.chunk.header.has(FLAG_ONE_SERIES) {
        return;
    }
    // SAFETY: by contract.
    let recent = unsafe { fetch.added::<Recent>() };
    recent.retain(|known| known.header != open.reader.chunk.tid);
}

/// Lets a fetch know the chunk of a row that was found to be there and changed by nobody (`unique::find`). It is fetched next, if at all.
///
/// # Safety
/// `fetch` must come from `index_fetch_begin`.
pub unsafe fn offer_unchanged(fetch: TableFetch<'_>, reader: Rc<Reader>) {
    // SAFETY: by contract.
    unsafe {
        let chunk = RecentChunk {
            header: reader.chunk.tid,
            snapshot: Stamp::NONE,
            open: Rc::new(OpenChunk::new(reader, Snapshot::NONE)),
        };
        remember(fetch.added::<Recent>(), chunk);
    }
}
