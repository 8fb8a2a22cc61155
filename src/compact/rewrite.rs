//! Copies the chunks of a table into a new file, for VACUUM FULL and CLUSTER.
//!
//! Each header version that somebody may still see is copied, and each payload of a chunk once, with the lifetimes that its
//! pieces have: versions from before compact has moved a chunk down name other pieces than those behind, and these go first.
//! Pieces are copied before headers, so that these can name their new places. Four things change:
//!
//! * TIDs of pieces. Those of updated rows' successors stay as they are, and lead nowhere: whoever follows
//!   one has seen the row in a snapshot taken before the update, in READ COMMITTED within one statement.
//!   Such a statement holds a lock that keeps rewrites out; a REPEATABLE READ transaction that comes later
//!   learns that its row was updated, and fails as it would on a heap.
//! * Columns that were added after a chunk was written get their missing value: core forgets it.
//! * Headers without rows, kept for such followers, go when everybody sees that the rows are gone.
//! * Deleted headers whose payload is gone go with it.

use crate::catalog::chunk_marker;
use crate::chunk::dead_header;
use crate::chunk::notes::View;
use crate::chunk::raw::{Lifetime, RawPages};
use crate::chunk::read::{Chunk, Damage};
use crate::chunk::reader::Reader;
use crate::chunk::row_set::RowSet;
use crate::chunk::tuple_kind;
use crate::chunk::write::{self, DELETE_MAP_BASE, STATICS_BASE};
use crate::pg::error;
use crate::pg::page::PageCursor;
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::{Datum, TransactionId};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use varve_columns::chunk::{self, Options, Tier};
use varve_columns::tuple::header::{Header, Section, FLAG_ONE_SERIES, FLAG_TOMBSTONE};
use varve_columns::tuple::note;
use varve_columns::tuple::runs::Pieces;
use varve_columns::tuple::statics::Statics;

/// A header version to copy.
pub struct Version {
    pub at: Tid,
    pub state: State,
}

/// Who sees a version.
#[derive(Clone, Copy, PartialEq)]
pub enum State {
    /// It is deleted, and somebody may still see it.
    Deleted,
    /// Nobody has deleted it.
    Live,
    /// The same, and nobody can see the state before it any more.
    Settled,
}

struct Opened {
    reader: Rc<Reader>,
    lifetime: Lifetime,
}

/// A payload that was copied: its first piece in the old file, and the static section that names its new pieces.
struct Copied {
    first: Option<Tid>,
    statics: Section,
}

/// Copies one chunk, all its versions; returns how many rows the last of them has left.
///
/// # Safety
/// `table` must be open and locked exclusively, and `oldest` be its horizon; `pages` writes to its new file, whose relation is `new`.
pub unsafe fn copy_chunk(
    table: Table<'_>,
    new: Table<'_>,
    versions: &[Version],
    oldest: TransactionId,
    pages: &mut RawPages,
) -> u32 {
    let mut opened = Vec::new();
    for version in versions {
        let Some(found) = open(table, version, oldest) else {
            continue;
        };
        let header = &found.reader.chunk.header;
        if !(header.has(FLAG_TOMBSTONE) && version.state == State::Settled) {
            opened.push(found);
        }
    }
    if opened.is_empty() {
        return 0;
    }
    chunk_marker::mark(new);
    // Nobody reads what a tombstone says of a payload: it has that of a version with rows, if there is one.
    opened.sort_by_key(|version| version.reader.chunk.header.has(FLAG_TOMBSTONE));
    let notes = |version: &Opened| version.reader.chunk.notes.seen.len();
    let most_notes = opened.iter().map(notes).max().unwrap_or(0);
    let mut payloads: Vec<Copied> = Vec::new();
    let mut notes_copied = FxHashMap::default();
    for version in &opened {
        error::check_interrupts();
        let of_version = &version.reader.chunk;
        let is_tombstone = of_version.header.has(FLAG_TOMBSTONE);
        let first = of_version.statics.payload.tids.first().copied();
        let known = payloads
            .iter()
            .find(|known| is_tombstone || known.first == first);
        let statics = match known {
            Some(known) => known.statics.clone(),
            None => {
                // SAFETY: by contract.
                let copied = unsafe { copy_statics(table, version, most_notes, pages) };
                let statics = copied.unwrap_or_else(|damage| of_version.raise(&damage));
                payloads.push(Copied {
                    first,
                    statics: statics.clone(),
                });
                statics
            }
        };
        let id = of_version.header.chunk;
        let mut header = Header::clone(&of_version.header);
        header.deleted = of_version.base.deleted();
        header.statics = statics;
        // SAFETY: by contract.
        let notes = unsafe { copy_notes(table, of_version, pages, &mut notes_copied) };
        header.slots = match is_tombstone {
            true => Vec::new(),
            false => write::slots_for(&header, notes.len()),
        };
        note::fill(&mut header.slots, id, &notes);
        let room = write::delete_map_room(&header);
        let map = of_version.base.encode();
        let lifetime = version.lifetime.unmoved();
        header.delete_map = write::spill(map, room, |depth, bytes| {
            pages.add_section(&lifetime, id, DELETE_MAP_BASE, depth, bytes)
        });
        pages.add(&version.lifetime, &header.encode(), true);
    }
    // A version has the deleted rows of those before it, too.
    let left = |version: &Opened| {
        let header = &version.reader.chunk.header;
        header.rows - header.deleted
    };
    opened.iter().map(left).min().unwrap_or(0)
}

/// Opens a version; None if nobody can see it.
fn open(table: Table<'_>, version: &Version, oldest: TransactionId) -> Option<Opened> {
    // SAFETY: the table stays open, and nobody else changes it.
    unsafe {
        let mut cursor = PageCursor::new(table);
        let found = cursor
            .tuple(version.at, table.blocks())
            .expect("BUG: a header went away under an exclusive lock");
        let lifetime = Lifetime::of(found.header());
        let chunk = match version.state {
            State::Deleted => dead_header::open_deleted(table, &found, oldest)?,
            State::Live | State::Settled => {
                let any = Snapshot::any();
                Chunk::open(table, &found, View::Snapshot(any))
                    .unwrap_or_else(|damage| tuple_kind::raise(table, &found, &damage))
            }
        };
        Some(Opened {
            reader: Reader::new(chunk),
            lifetime,
        })
    }
}

/// Copies the notes of a header version that were not `copied` with another one; returns their new places.
///
/// # Safety
/// As `copy_chunk`; `chunk` must be one of `table`.
unsafe fn copy_notes(
    table: Table<'_>,
    chunk: &Chunk,
    pages: &mut RawPages,
    copied: &mut FxHashMap<Tid, Tid>,
) -> Vec<Tid> {
    let mut cursor = PageCursor::new(table);
    let mut places = Vec::new();
    // SAFETY: the caller's contract; nobody else changes the table.
    unsafe {
        for note in chunk.notes.seen.iter() {
            if let Some(&known) = copied.get(&note.tid) {
                places.push(known);
                continue;
            }
            let (cursor, found) = cursor
                .pinned(note.tid, table.blocks())
                .expect("BUG: a note went away under an exclusive lock");
            let lifetime = cursor.locked(|_| Lifetime::of(found.header())).unmoved();
            let place = pages.add(&lifetime, found.body(), false);
            copied.insert(note.tid, place);
            places.push(place);
        }
    }
    places
}

/// Copies the payload of a version; returns the static section that names its new places, in a header that names so many notes at most.
///
/// # Safety
/// As `copy_payload`.
unsafe fn copy_statics(
    table: Table<'_>,
    version: &Opened,
    most_notes: usize,
    pages: &mut RawPages,
) -> Result<Section, Damage> {
    let header = &version.reader.chunk.header;
    // SAFETY: by contract.
    let (statics, birth) = unsafe { copy_payload(table, version, pages)? };
    let room = write::HEADER_ROOM - write::room_beside_notes(header, most_notes);
    Ok(write::spill(statics.encode(), room, |depth, bytes| {
        pages.add_section(&birth, header.chunk, STATICS_BASE, depth, bytes)
    }))
}

/// Copies the payload; returns the static section that names its new places, and the lifetime of pieces
/// that belong to the chunk as a whole.
///
/// # Safety
/// As `copy_chunk`; `source` must be one of `table`.
unsafe fn copy_payload(
    table: Table<'_>,
    source: &Opened,
    pages: &mut RawPages,
) -> Result<(Statics, Lifetime), Damage> {
    let chunk = &source.reader.chunk;
    let mut statics = chunk.statics.clone();
    let mut birth = source.lifetime.unmoved();
    if chunk.header.has(FLAG_TOMBSTONE) {
        statics.payload = Pieces::default();
        return Ok((statics, birth));
    }
    // SAFETY: the caller's contract.
    unsafe {
        let mut cursor = PageCursor::new(table);
        let blocks = table.blocks();
        let whole = lacks_missing_values(table, chunk);
        let mut copies = Vec::new();
        for (number, &at) in chunk.statics.payload.tids.iter().enumerate() {
            error::check_interrupts();
            let (cursor, found) = cursor
                .pinned(at, blocks)
                .filter(|(_, found)| found.attribute_count() == 0)
                .ok_or_else(|| Damage::new(format!("piece {number} at {at} is missing")))?;
            let lifetime = cursor.locked(|_| Lifetime::of(found.header())).unmoved();
            if number == 0 {
                birth = lifetime;
            }
            if whole {
                break;
            }
            let body = found.body();
            copies.push(pages.add(&lifetime, body, false));
        }
        if whole {
            let encoded = encode_again(table, &source.reader);
            let (id, rows) = (chunk.header.chunk, chunk.header.rows);
            statics.payload = pages.add_bytes(&birth, id, 0, &encoded.payload, rows);
            statics.columns = encoded.header;
            statics.attributes = table.descriptor().len() as u16;
        } else {
            statics.payload.tids = copies;
        }
    }
    Ok((statics, birth))
}

/// Was a column with a default added after the chunk was written?
fn lacks_missing_values(table: Table<'_>, chunk: &Chunk) -> bool {
    let attributes = table.attributes();
    attributes
        .iter()
        .skip(usize::from(chunk.statics.attributes))
        .any(|attribute| attribute.atthasmissing && !attribute.attisdropped)
}

/// All columns that the table has now, in the order of rows that the chunk has.
fn encode_again(table: Table<'_>, reader: &Rc<Reader>) -> chunk::Encoded {
    // SAFETY: the table is open; values are of the table's descriptor.
    unsafe {
        let descriptor = table.descriptor();
        let natts = descriptor.len();
        let mut values = vec![Datum::from(0usize); natts];
        let mut nulls = vec![true; natts];
        let mut rows = RowSet::new(descriptor);
        for row in 0..reader.rows() {
            reader.fill(
                descriptor,
                row,
                0..natts,
                values.as_mut_ptr(),
                nulls.as_mut_ptr(),
            );
            rows.push(values.as_ptr(), nulls.as_ptr());
        }
        let tier = if reader.chunk.header.level == 0 {
            Tier::Fresh
        } else {
            Tier::Merged(crate::guc::merge_point())
        };
        let chunk = &reader.chunk;
        let keys: Vec<usize> = match chunk.header.has(FLAG_ONE_SERIES) {
            true => Vec::new(),
            false => {
                let keys = chunk.statics.keys.iter();
                keys.map(|&key| usize::from(key) - 1).collect()
            }
        };
        let options = Options { tier, keys: &keys };
        varve_columns::chunk::encode(&rows.columns, &options)
    }
}
