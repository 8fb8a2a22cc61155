//! What the header of a merged chunk of one series says to a survey. There are as many of them as there are long series, and each compact that does
//! anything reads them all: so they are read where they lie, page by page, and of the columns only those of the key. Whatever is not as
//! merges leave it is left to who opens the chunk.

use super::seen::{self, KeyRange, Seen};
use crate::catalog::layout::Layout;
use crate::chunk::datum;
use crate::chunk::encode::CHUNK_BYTES;
use crate::chunk::tuple_kind::{classify, TupleKind};
use crate::guc;
use crate::pg::page::PageCursor;
use crate::pg::relation::Table;
use crate::pg::tid::Tid;
use crate::pg::transaction;
use crate::pg::tuple;
use crate::pg::TransactionId;
use varve_columns::chunk::{self, ChunkHeader, FORMAT_VERSION};
use varve_columns::column::{Column, Kind};
use varve_columns::tuple::header::{
    self, Section, StorageTuple, FLAG_TOMBSTONE, FLAG_UNKEYED, VERSION,
};
use varve_columns::tuple::note;
use varve_columns::tuple::statics::Statics;

/// Reads headers of a table.
pub struct OwnHeaders<'a> {
    layout: &'a Layout,
    horizon: TransactionId,
    cursor: PageCursor<'a>,
    blocks: u32,
    /// Bytes that a row takes in memory, where all values are of a known length.
    row_bytes: Option<usize>,
    /// Columns of the table up to the last one of its key.
    key_columns: usize,
}

impl<'a> OwnHeaders<'a> {
    /// `table` must be open, and stay so.
    pub fn new(table: Table<'a>, layout: &'a Layout) -> OwnHeaders<'a> {
        let kinds = table.attributes().iter().map(datum::kind_of);
        let widths = kinds.map(|kind| match kind {
            Kind::Absent => Some(0),
            Kind::Bool => Some(1),
            Kind::I16 => Some(2),
            Kind::I32 | Kind::F32 => Some(4),
            Kind::I64 | Kind::F64 => Some(8),
            Kind::Fixed(width) => Some(usize::from(width)),
            Kind::Bytes | Kind::Numeric => None,
        });
        let last_key = layout.keys.iter().copied().max();
        OwnHeaders {
            layout,
            horizon: table.horizon(),
            cursor: PageCursor::new(table),
            blocks: table.blocks(),
            row_bytes: widths.sum::<Option<usize>>().map(|bytes| bytes + 1),
            key_columns: last_key.map_or(0, usize::from),
        }
    }

    /// The chunk of the header at `at`, if that is one of a chunk of one series, seen by everybody, and as a merge has left it.
    pub fn seen_at(&mut self, at: Tid) -> Option<Seen> {
        if at.block >= self.blocks {
            return None;
        }
        self.cursor.go(at.block);
        let body = self.cursor.locked(|page| {
            let item = page.tuple(at.offset)?;
            // SAFETY: the page is pinned and locked.
            unsafe {
                let is_seen = classify(&item) == TupleKind::Header
                    && tuple::is_plainly_there(item.header())
                    && transaction::precedes(tuple::xmin(item.header()), self.horizon);
                let body = item.body();
                (is_seen && header::is_own(body)).then_some(body)
            }
        })?;
        // The page stays pinned, and nothing of a header changes but its slots.
        self.describe(at, body)
    }

    /// The page of the header that was looked at last, pinned; `None` where the file has no such page.
    pub fn page_of(&self, at: Tid) -> Option<&PageCursor<'a>> {
        (at.block < self.blocks).then_some(&self.cursor)
    }

    fn describe(&self, at: Tid, body: &[u8]) -> Option<Seen> {
        let Ok(StorageTuple::Header(header)) = header::decode(body) else {
            return None;
        };
        let has_changed = header.deleted > 0 || !note::are_empty(&header.slots);
        if has_changed || header.has(FLAG_TOMBSTONE) {
            return None;
        }
        let (Section::Inline(statics), Section::Inline(_)) = (&header.statics, &header.delete_map)
        else {
            return None;
        };
        let statics = Statics::decode(statics).ok()?;
        if statics.keys != self.layout.keys || statics.time != self.layout.time {
            return None;
        }
        let columns = ChunkHeader::parse_first(&statics.columns, self.key_columns).ok()?;
        if columns.rows() != header.rows {
            return None;
        }
        let format = header.version.min(columns.version());
        let (first_key, last_key) = self.key_range(&columns)?;
        let keyed = !header.has(FLAG_UNKEYED);
        let twice = header.rows as usize * 2;
        let small = match keyed && twice <= guc::chunk_rows() {
            true => twice * self.row_bytes? <= CHUNK_BYTES,
            false => false,
        };
        let payload = &statics.payload;
        let blocks = payload.tids.iter().map(|tid| tid.block);
        Some(Seen {
            tid: at,
            chunk: header.chunk,
            level: header.level,
            rows: header.rows,
            live: header.rows,
            min_time: header.min_time,
            max_time: header.max_time,
            usual_times: (header.min_time, header.max_time),
            one_series: true,
            keyed,
            small,
            in_layout: true,
            outdated: format < FORMAT_VERSION.min(VERSION),
            tombstone: false,
            settled: true,
            has_successors: false,
            damaged: false,
            first_key,
            last_key,
            pieces: payload.tids.len() as u32,
            sizes: seen::sizes(payload, body.len()),
            bytes: seen::chunk_bytes(payload, payload.tids.len(), body.len()),
            last_block: blocks.fold(at.block, u32::max),
        })
    }

    /// As the survey's function of this name, where the key is the same in all rows, as the columns say.
    fn key_range(&self, columns: &ChunkHeader) -> Option<KeyRange> {
        let mut keys: Vec<Column> = Vec::with_capacity(self.layout.keys.len());
        for &number in &self.layout.keys {
            if let Some(column) = columns.columns().get(usize::from(number) - 1) {
                keys.push(chunk::constant(column).ok()??);
            }
        }
        Some(seen::one_key(&keys))
    }
}
