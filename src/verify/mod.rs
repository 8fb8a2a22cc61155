//! Verification of a table: everything is decoded, and whatever contradicts something else is noted.
//! Nothing is trusted and nothing is changed; a finding does not stop the search.

mod index;
mod key_sort;
mod keys;
mod leaves;
mod places;

use crate::catalog::layout::{self, Layout};
use crate::chunk::datum;
use crate::chunk::inspect;
use crate::chunk::read::{Chunk, Damage};
use crate::chunk::reader::Reader;
use crate::chunk::tuple_kind::TupleKind;
use crate::compact::source::{SortColumns, Source, Span};
use crate::pg::error;
use crate::pg::page::PageTuple;
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::transaction;
use crate::pg::tuple;
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;
use varve_columns::chunk;
use varve_columns::tuple::header::{
    self, StorageTuple, FLAG_ONE_SERIES, FLAG_SORTED, FLAG_TOMBSTONE, FLAG_UNKEYED,
};

/// Something that is wrong.
pub struct Finding {
    pub kind: &'static str,
    pub location: String,
    pub detail: String,
}

/// More findings than that help nobody.
const MOST_FINDINGS: usize = 1000;

/// The pieces of one chunk: how many, and a hash that does not depend on their order.
#[derive(Clone, Copy, Default, PartialEq)]
struct Pieces {
    count: u64,
    hash: u64,
}

impl Pieces {
    fn add(&mut self, at: Tid) {
        let place = u64::from(at.block) << 16 | u64::from(at.offset);
        self.count += 1;
        self.hash = self
            .hash
            .wrapping_add(place.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) ^ place);
    }
}

pub struct Verifier<'a> {
    table: Table<'a>,
    snapshot: Snapshot<'a>,
    layout: Layout,
    pub findings: Vec<Finding>,
    /// Pieces that are in the table, by chunk.
    present: FxHashMap<u64, Pieces>,
    /// Notes that are in the table, by chunk.
    notes: FxHashMap<u64, Vec<Tid>>,
    headers: FxHashMap<u64, Tid>,
    /// Times of each series in keyed chunks.
    keyed: FxHashMap<Vec<u8>, Vec<(Span, Tid)>>,
    /// Headers of chunks that cannot be decoded.
    damaged: FxHashSet<Tid>,
}

/// Verifies a table and returns what is wrong with it.
pub fn run(table: Table<'_>, snapshot: Snapshot<'_>) -> Vec<Finding> {
    // SAFETY: the table is open, the snapshot valid.
    unsafe {
        let mut verifier = Verifier {
            table,
            snapshot,
            layout: layout::of(table),
            findings: Vec::new(),
            present: FxHashMap::default(),
            notes: FxHashMap::default(),
            headers: FxHashMap::default(),
            keyed: FxHashMap::default(),
            damaged: FxHashSet::default(),
        };
        verifier.tuples();
        inspect::chunks(table, snapshot, |at, result| verifier.chunk(at, result));
        verifier.orphans();
        verifier.overlaps();
        verifier.indexes();
        verifier.keys();
        verifier.places();
        verifier.findings
    }
}

impl<'a> Verifier<'a> {
    pub fn note(
        &mut self,
        kind: &'static str,
        location: impl core::fmt::Display,
        detail: impl core::fmt::Display,
    ) {
        if self.findings.len() < MOST_FINDINGS {
            self.findings.push(Finding {
                kind,
                location: location.to_string(),
                detail: detail.to_string(),
            });
        }
    }

    /// Looks at every visible tuple for what it is.
    ///
    /// # Safety
    /// The table must be open, the snapshot valid.
    unsafe fn tuples(&mut self) {
        let (table, snapshot) = (self.table, self.snapshot);
        // SAFETY: by contract; only memory is touched while the page is locked.
        unsafe {
            inspect::visible_tuples(table, snapshot, |found, item| match found {
                TupleKind::Row => self.row(item),
                TupleKind::Header => {}
                TupleKind::Skip => self.piece(item),
            });
        }
    }

    /// A row of the tail must not be one that a sealer has moved into a chunk.
    ///
    /// # Safety
    /// As `tuples`; the tuple's page must be locked.
    unsafe fn row(&mut self, item: PageTuple<'_>) {
        // SAFETY: the page is locked.
        unsafe {
            if !tuple::ctid(item.header()).is_moved_marker() {
                return;
            }
            let mover = tuple::raw_xmax(item.header());
            let known = self.table.class().relfrozenxid;
            let readable = transaction::is_normal(mover) && !transaction::precedes(mover, known);
            // An older snapshot sees the row where it was, and not the chunk.
            let is_over =
                readable && !self.snapshot.is_running(mover) && transaction::did_commit(mover);
            if is_over {
                self.note(
                    "tail and chunk",
                    item.tid,
                    format!("the row is visible, but transaction {mover} moved it into a chunk"),
                );
            }
        }
    }

    /// A storage tuple that is no header with a virtual TID: it is noted for the chunk that has it, or is wrong.
    ///
    /// # Safety
    /// The tuple's page must be locked.
    unsafe fn piece(&mut self, item: PageTuple<'_>) {
        // SAFETY: the page is locked.
        let is_discarded = unsafe { is_discarded(item) };
        match header::decode(item.body()) {
            Ok(StorageTuple::Piece(piece)) => {
                self.present.entry(piece.chunk).or_default().add(item.tid);
            }
            Ok(StorageTuple::Header(_)) if is_discarded => {}
            Ok(StorageTuple::Note { chunk }) => {
                self.notes.entry(chunk).or_default().push(item.tid);
            }
            Ok(StorageTuple::Header(header)) => self.note(
                "header",
                item.tid,
                format!(
                    "chunk {:016x} has a header that virtual TIDs cannot name",
                    header.chunk
                ),
            ),
            Err(what) => self.note("storage tuple", item.tid, what),
        }
    }

    fn chunk(&mut self, at: Tid, result: Result<Rc<Reader>, Damage>) {
        let reader = match result {
            Ok(reader) => reader,
            Err(damage) => return self.note("header", at, damage),
        };
        let chunk = &reader.chunk;
        if let Some(other) = self.headers.insert(chunk.header.chunk, at) {
            let detail = format!(
                "chunk {:016x} has another header at {other}",
                chunk.header.chunk
            );
            self.note("header", at, detail);
        }
        self.pieces(chunk);
        self.unnamed_notes(chunk);
        if chunk.rows_with_payload() == 0 {
            if chunk.header.has(FLAG_TOMBSTONE) && chunk.header.deleted != chunk.header.rows {
                self.note("header", at, "a chunk without payload has live rows");
                self.damaged.insert(at);
            }
            return;
        }
        let columns = chunk.columns.columns().len();
        let sound = (0..columns)
            .filter(|&column| self.column(chunk, column))
            .count();
        if sound == columns {
            self.order(&reader);
        } else {
            self.damaged.insert(at);
        }
    }

    /// The pieces that the header names must be those that there are.
    fn pieces(&mut self, chunk: &Chunk) {
        let present = self.present.remove(&chunk.header.chunk).unwrap_or_default();
        let mut named = Pieces::default();
        match chunk.piece_tids() {
            Ok(tids) => {
                for tid in tids {
                    let dead = chunk.header.has(FLAG_TOMBSTONE)
                        && chunk.statics.payload.tids.contains(&tid);
                    if !dead {
                        named.add(tid);
                    }
                }
            }
            Err(damage) => return self.note("header", chunk.tid, damage),
        }
        if named != present {
            let detail = format!(
                "chunk {:016x}: the header names {} pieces, the table has {}{}",
                chunk.header.chunk,
                named.count,
                present.count,
                if named.count == present.count {
                    " at other places"
                } else {
                    ""
                }
            );
            self.note("pieces", chunk.tid, detail);
        }
    }

    /// The header must name all notes of its chunk that there are.
    fn unnamed_notes(&mut self, chunk: &Chunk) {
        let mut present = self.notes.remove(&chunk.header.chunk).unwrap_or_default();
        present.retain(|&at| !chunk.notes.seen.iter().any(|note| note.tid == at));
        for at in present {
            let detail = format!(
                "chunk {:016x}: the header does not name it",
                chunk.header.chunk
            );
            self.note("note", at, detail);
        }
    }

    /// Decodes a column; false when that is not possible.
    fn column(&mut self, chunk: &Chunk, column: usize) -> bool {
        let at = format!("{}, column {}", chunk.tid, column + 1);
        match audit(chunk, column) {
            Err(damage) => {
                self.note("payload", at, damage);
                false
            }
            Ok(contradictions) => {
                for contradiction in contradictions {
                    let place = match contradiction.block {
                        Some(block) => format!("block {block}"),
                        None => "the column's summary".to_string(),
                    };
                    let detail = format!("{place}: wrong {}", contradiction.what);
                    self.note("summary", &at, detail);
                }
                true
            }
        }
    }

    /// Rows must be in the order that the header tells.
    fn order(&mut self, reader: &Rc<Reader>) {
        let chunk = &reader.chunk;
        if !chunk.header.has(FLAG_SORTED) {
            return;
        }
        let layout = Layout {
            keys: chunk.statics.keys.clone(),
            time: chunk.statics.time,
        };
        if !self.has_columns(&layout) {
            return;
        }
        let rows: Vec<u32> = (0..chunk.header.rows).collect();
        // SAFETY: the table stays open.
        let read = unsafe { Source::new(Rc::clone(reader), &layout) }.and_then(|source| {
            Ok((
                source.sort_columns(&layout, &rows)?,
                source.stored_spans(&layout)?,
            ))
        });
        let (columns, spans) = match read {
            Ok(read) => read,
            Err(damage) => return self.note("payload", chunk.tid, damage),
        };
        if let Some(what) = disorder(chunk, &columns, chunk.header.rows) {
            self.note("order", chunk.tid, what);
        }
        if layout == self.layout && !chunk.header.has(FLAG_UNKEYED) {
            for (key, span) in spans {
                self.keyed.entry(key).or_default().push((span, chunk.tid));
            }
        }
    }

    fn has_columns(&self, layout: &Layout) -> bool {
        let attributes = self.table.attributes();
        layout.keys.iter().chain(layout.time.iter()).all(|&number| {
            attributes
                .get(usize::from(number) - 1)
                .is_some_and(|attribute| !attribute.attisdropped)
        })
    }

    /// Pieces and notes of chunks that have no header.
    fn orphans(&mut self) {
        let mut left: Vec<_> = self.present.drain().collect();
        left.sort_by_key(|entry| entry.0);
        for (chunk, pieces) in left {
            let detail = format!("{} pieces without a header", pieces.count);
            self.note("pieces", format!("chunk {chunk:016x}"), detail);
        }
        let mut left: Vec<_> = self.notes.drain().collect();
        left.sort_by_key(|entry| entry.0);
        for (chunk, notes) in left {
            let detail = format!("{} notes without a header", notes.len());
            self.note("note", format!("chunk {chunk:016x}"), detail);
        }
    }

    /// Keyed chunks of one series must not overlap in time.
    fn overlaps(&mut self) {
        let mut all: Vec<_> = core::mem::take(&mut self.keyed).into_values().collect();
        for spans in &mut all {
            error::check_interrupts();
            spans.sort_by_key(|(span, at)| (span.min, span.max, *at));
            for pair in spans.windows(2) {
                if pair[0].0.overlaps(&pair[1].0) {
                    let detail = format!("overlaps the chunk at {} in a series", pair[0].1);
                    self.note("order", pair[1].1, detail);
                }
            }
        }
    }
}

fn audit(chunk: &Chunk, column: usize) -> Result<Vec<chunk::Contradiction>, Damage> {
    let directory = chunk.directory(column)?;
    let kind = chunk.columns.column(column).kind;
    let mut blocks = Vec::with_capacity(directory.len());
    for block in 0..directory.len() {
        error::check_interrupts();
        let mut values = datum::empty(kind);
        chunk.decode_block(column, &directory, block, &mut values)?;
        blocks.push(values);
    }
    Ok(chunk::audit(
        chunk.columns.column(column),
        &directory,
        &blocks,
    ))
}

/// What is wrong with the order of a chunk's rows, or with what its header says about times and series.
fn disorder(chunk: &Chunk, columns: &SortColumns, rows: u32) -> Option<String> {
    let (mut last, mut now) = (Vec::new(), Vec::new());
    for row in 0..rows {
        columns.put(row, &mut now);
        if row > 0 && now < last {
            return Some(format!("row {row} sorts before row {}", row - 1));
        }
        core::mem::swap(&mut last, &mut now);
    }
    if chunk.header.has(FLAG_ONE_SERIES) && rows > 0 {
        let (mut first, mut end) = (Vec::new(), Vec::new());
        columns.put_key(0, &mut first);
        columns.put_key(rows - 1, &mut end);
        if first != end {
            return Some("the chunk holds more than one series".to_string());
        }
    }
    let range = columns.time_range(rows)?;
    let stated = (chunk.header.min_time, chunk.header.max_time);
    (range != stated).then(|| format!("times are {range:?}, the header says {stated:?}"))
}

/// Has this transaction written the tuple and deleted it? So it does with a header that heap has put at too high a line pointer, by
/// a command that its snapshots may not know of yet.
///
/// # Safety
/// The tuple's page must be locked.
unsafe fn is_discarded(item: PageTuple<'_>) -> bool {
    let header = item.header();
    // SAFETY: the caller's contract.
    unsafe {
        let is_own = |xid| transaction::is_current(xid);
        match tuple::xmax(header) {
            tuple::Xmax::One(deleter) => is_own(deleter) && is_own(tuple::xmin(header)),
            _ => false,
        }
    }
}
