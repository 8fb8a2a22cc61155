//! Rows of chunks as a snapshot sees them, with the changes of our own transaction laid over: one by one, and a chunk at a time.

use super::changes::{self, Hidden, Newest};
use crate::chunk::chunk_cache;
use crate::chunk::reader::Reader;
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use std::ops::Range;
use std::rc::Rc;
use varve_columns::vector::Bitmap;

/// A chunk that a scan is in, and the rows of it that its snapshot does not see.
pub struct OpenChunk {
    pub reader: Rc<Reader>,
    hidden: Hidden,
    /// Row that was returned last; -1 before the first.
    pub row: i64,
}

impl OpenChunk {
    pub fn new(reader: Rc<Reader>, snapshot: Snapshot<'_>) -> OpenChunk {
        // SAFETY: the snapshot is valid.
        let hidden = unsafe { changes::hidden(&reader.chunk, snapshot) };
        OpenChunk {
            reader,
            hidden,
            row: -1,
        }
    }

    /// Has the chunk no row that is there? Then it may have no payload.
    pub fn is_empty(&self) -> bool {
        let header = &self.reader.chunk.header;
        match self.hidden {
            Hidden::Nothing => false,
            Hidden::All => true,
            Hidden::Deleted | Hidden::Also(_) => header.deleted >= header.rows,
        }
    }

    /// Does the snapshot see all rows of a range?
    pub fn is_clear(&self, rows: Range<u32>) -> bool {
        match &self.hidden {
            Hidden::Deleted => self.reader.chunk.map.is_clear(rows),
            Hidden::Also(_) => !rows.into_iter().any(|row| self.is_hidden(row)),
            Hidden::Nothing => true,
            Hidden::All => rows.is_empty(),
        }
    }

    /// How many rows of the chunk the snapshot does not see; None where that takes a look at each one.
    pub fn gone(&self) -> Option<u32> {
        match &self.hidden {
            Hidden::Nothing => Some(0),
            Hidden::Deleted => Some(self.reader.chunk.map.deleted()),
            Hidden::Also(_) => None,
            Hidden::All => Some(self.reader.rows()),
        }
    }

    /// The rows of a range that the snapshot sees, counted from its start; None: all of them.
    pub fn visible(&self, rows: Range<u32>) -> Option<Bitmap> {
        let map = &self.reader.chunk.map;
        let seen = match &self.hidden {
            Hidden::Nothing => return None,
            Hidden::Deleted if map.is_empty() => return None,
            Hidden::Deleted => map.left(rows),
            Hidden::Also(overlay) => {
                let mut seen = map.left(rows.clone());
                for row in rows.clone().filter(|&row| overlay.hides(row)) {
                    seen.remove((row - rows.start) as usize);
                }
                seen
            }
            Hidden::All => Bitmap::none(rows.len()),
        };
        (!seen.is_all()).then_some(seen)
    }

    #[inline]
    pub fn is_hidden(&self, row: u32) -> bool {
        match &self.hidden {
            Hidden::Deleted => self.reader.chunk.map.contains(row),
            Hidden::Also(overlay) => self.reader.chunk.map.contains(row) || overlay.hides(row),
            Hidden::Nothing => false,
            Hidden::All => true,
        }
    }

    /// Steps to the next visible row in the given direction.
    pub fn step(&mut self, forward: bool) -> Option<u32> {
        let rows = i64::from(self.reader.rows());
        loop {
            self.row += if forward { 1 } else { -1 };
            if self.row < 0 || self.row >= rows {
                return None;
            }
            if !self.is_hidden(self.row as u32) {
                return Some(self.row as u32);
            }
        }
    }
}

/// The version that `snapshot` sees of a chunk whose header at `header` this transaction has replaced
/// since a cursor got the TID.
fn newer_version(table: Table<'_>, header: Tid, snapshot: Snapshot<'_>) -> Option<Rc<Reader>> {
    // SAFETY: the table is open, the snapshot valid.
    unsafe {
        let any = Snapshot::any();
        let old = chunk_cache::reader_at(table, header, any)?;
        match changes::newest(&old.chunk)? {
            Newest::At(newest) => chunk_cache::reader_at(table, newest, snapshot),
            Newest::Gone => None,
        }
    }
}

/// The chunk and row of a virtual TID, if `snapshot` sees the row. Under SnapshotAny deleted rows are
/// seen too.
pub fn visible_row(table: Table<'_>, at: Tid, snapshot: Snapshot<'_>) -> Option<(Rc<Reader>, u32)> {
    // SAFETY: the table is open, the snapshot valid.
    unsafe {
        let (header, row) = at.row_of()?;
        let reader = chunk_cache::reader_at(table, header, snapshot)
            .or_else(|| newer_version(table, header, snapshot))?;
        if row >= reader.rows() {
            return None;
        }
        let any = snapshot.is_any();
        let hidden = !any && changes::is_hidden(&reader.chunk, row, snapshot);
        (!hidden).then_some((reader, row))
    }
}
