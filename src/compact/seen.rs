//! What a survey says of a chunk, from the chunk that was opened. `own_header` says the same from the header alone.

use super::long_key;
use super::source::{has_layout, Source};
use super::windows::FEW_ROWS;
use crate::catalog::layout::Layout;
use crate::chunk::datum;
use crate::chunk::encode::CHUNK_BYTES;
use crate::chunk::notes;
use crate::chunk::place::Sizes;
use crate::chunk::read::{Chunk, Damage};
use crate::chunk::reader::Reader;
use crate::chunk::row_set::{append, integer_at};
use crate::guc;
use crate::pg::tid::Tid;
use crate::pg::TransactionId;
use std::rc::Rc;
use varve_columns::chunk::FORMAT_VERSION;
use varve_columns::column::Column;
use varve_columns::tuple::header::{
    BODY_BYTES, FLAG_ONE_SERIES, FLAG_SORTED, FLAG_TOMBSTONE, FLAG_UNKEYED, PIECE_BYTES, VERSION,
};
use varve_columns::tuple::runs::Pieces;

/// A chunk as its newest committed header describes it.
#[derive(Clone)]
pub struct Seen {
    pub tid: Tid,
    pub chunk: u64,
    pub level: u8,
    pub rows: u32,
    pub live: u32,
    pub min_time: i64,
    pub max_time: i64,
    /// Of a fresh chunk the times between which half of its rows are; the same as above of others.
    pub usual_times: (i64, i64),
    pub one_series: bool,
    /// Found under its own key: overlaps no other such chunk of its series.
    pub keyed: bool,
    /// Written in the table's present layout.
    pub in_layout: bool,
    /// Written in an older format than this library writes.
    pub outdated: bool,
    pub tombstone: bool,
    /// The transactions that wrote the header and its notes are over for everybody.
    pub settled: bool,
    pub has_successors: bool,
    /// A round could not decode it: it stays as it is.
    pub damaged: bool,
    /// A keyed chunk that twice as many rows would fit into; of several series only where it has few.
    pub small: bool,
    pub first_key: Rc<[u8]>,
    pub last_key: Rc<[u8]>,
    pub pieces: u32,
    pub sizes: Sizes,
    /// Of its storage tuples, with their line pointers.
    pub bytes: u64,
    /// Highest page of its storage tuples.
    pub last_block: u32,
}

/// What a tuple takes of its page.
pub fn tuple_bytes(len: usize) -> u64 {
    len.next_multiple_of(8) as u64 + 4
}

/// What the storage tuples of a chunk take of their pages, of which there are `pieces` besides the header.
pub fn chunk_bytes(payload: &Pieces, pieces: usize, header_bytes: usize) -> u64 {
    const TUPLE_HEADER_BYTES: usize = 24;
    let full = tuple_bytes(BODY_BYTES + TUPLE_HEADER_BYTES);
    let others = pieces - payload.tids.len();
    let last = match payload.len as usize % PIECE_BYTES {
        0 => 0,
        rest => full - tuple_bytes(BODY_BYTES - PIECE_BYTES + rest + TUPLE_HEADER_BYTES),
    };
    let header = tuple_bytes(header_bytes + TUPLE_HEADER_BYTES);
    (payload.tids.len() + others) as u64 * full - last.min(full) + header
}

/// How long its storage tuples are when it has moved: what notes say is in the header then.
pub fn sizes(payload: &Pieces, header_bytes: usize) -> Sizes {
    let payload = payload.len as usize;
    Sizes {
        header: header_bytes.min(BODY_BYTES),
        full_pieces: (payload / PIECE_BYTES) as u64,
        last_piece: match payload % PIECE_BYTES {
            0 => 0,
            rest => BODY_BYTES - PIECE_BYTES + rest,
        },
    }
}

/// What a survey says of a chunk.
///
/// # Safety
/// The reader's table must be open.
pub unsafe fn describe(
    reader: &Rc<Reader>,
    layout: &Layout,
    horizon: TransactionId,
) -> Result<Seen, Damage> {
    let chunk = &reader.chunk;
    let header = &chunk.header;
    let in_layout = has_layout(chunk, layout);
    let tombstone = header.has(FLAG_TOMBSTONE);
    let pieces = chunk.piece_tids()?;
    let (first_key, last_key) = match tombstone || !in_layout {
        true => one_key(&[]),
        false => key_range(chunk, layout)?,
    };
    let keyed = in_layout && !tombstone && !header.has(FLAG_UNKEYED);
    let rows = header.rows as usize * 2;
    let most = match header.has(FLAG_ONE_SERIES) {
        true => guc::chunk_rows(),
        false => guc::chunk_rows().min(2 * FEW_ROWS as usize),
    };
    let mut small = keyed && rows <= most;
    if small {
        // SAFETY: by contract.
        let source = unsafe { Source::new(Rc::clone(reader), layout) }?;
        small = rows * source.row_bytes <= CHUNK_BYTES;
    }
    let mut usual_times = (header.min_time, header.max_time);
    if header.level == 0 && in_layout && !tombstone && header.has(FLAG_SORTED) {
        usual_times = middle_times(chunk, layout)?.unwrap_or(usual_times);
    }
    let payload = &chunk.statics.payload;
    Ok(Seen {
        tid: chunk.tid,
        chunk: header.chunk,
        level: header.level,
        rows: header.rows,
        live: header.rows - header.deleted,
        min_time: header.min_time,
        max_time: header.max_time,
        usual_times,
        one_series: header.has(FLAG_ONE_SERIES),
        keyed,
        small,
        in_layout,
        outdated: !tombstone && chunk.format() < FORMAT_VERSION.min(VERSION),
        tombstone,
        settled: notes::is_settled(chunk, horizon),
        has_successors: chunk.map.has_successors(),
        damaged: false,
        first_key,
        last_key,
        sizes: sizes(payload, chunk.header_bytes() + chunk.notes.bytes() as usize),
        bytes: chunk_bytes(payload, pieces.len(), chunk.header_bytes()) + chunk.notes.bytes(),
        pieces: (pieces.len() + chunk.notes.seen.len()) as u32,
        last_block: pieces
            .iter()
            .chain(chunk.notes.seen.iter().map(|note| &note.tid))
            .map(|tid| tid.block)
            .max()
            .unwrap_or(0)
            .max(chunk.tid.block),
    })
}

/// Least and greatest key of a chunk.
pub type KeyRange = (Rc<[u8]>, Rc<[u8]>);

/// Series keys of the first and the last row: of long ones what is not behind the one, and not before the other.
fn key_range(chunk: &Chunk, layout: &Layout) -> Result<KeyRange, Damage> {
    let last = match chunk.header.has(FLAG_ONE_SERIES) {
        true => 0,
        false => chunk.header.rows.saturating_sub(1),
    };
    let keys = keys_at(chunk, layout, 0)?;
    let first_key = not_behind(&keys);
    if last == 0 {
        return Ok(up_to(first_key, &keys));
    }
    drop(keys);
    Ok(up_to(first_key, &keys_at(chunk, layout, last)?))
}

/// The same where all rows have one key, of which these are the columns.
pub fn one_key(keys: &[Column]) -> KeyRange {
    up_to(not_behind(keys), keys)
}

fn not_behind(keys: &[Column]) -> Rc<[u8]> {
    let mut key = Vec::new();
    long_key::put_not_behind(&mut key, keys.iter(), 0);
    key.into()
}

fn up_to(first_key: Rc<[u8]>, last: &[Column]) -> KeyRange {
    let mut key = Vec::new();
    long_key::put_not_before(&mut key, last.iter(), 0);
    match key == *first_key {
        true => (Rc::clone(&first_key), first_key),
        false => (first_key, key.into()),
    }
}

/// The first and the third quartile of times, if there are any.
fn middle_times(chunk: &Chunk, layout: &Layout) -> Result<Option<(i64, i64)>, Damage> {
    let Some(at) = layout.time.map(|number| usize::from(number) - 1) else {
        return Ok(None);
    };
    if at >= chunk.columns.columns().len() {
        return Ok(None);
    }
    let directory = chunk.directory(at)?;
    // Rows are in the order of series, so each block has all times of some.
    let mut values = datum::empty(chunk.columns.column(at).kind);
    let rows = chunk.decode_block(at, &directory, 0, &mut values)?;
    let timed = (0..rows.len()).map(|row| integer_at(&values, row));
    let timed = timed.filter(|(null, _)| !null);
    let mut times: Vec<i64> = timed.map(|(_, time)| time).collect();
    times.sort_unstable();
    Ok(times
        .get(times.len() / 4)
        .copied()
        .zip(times.get(times.len() * 3 / 4).copied()))
}

/// The key columns of one row.
fn keys_at(chunk: &Chunk, layout: &Layout, row: u32) -> Result<Vec<Column>, Damage> {
    let mut keys = Vec::new();
    for &number in &layout.keys {
        let at = usize::from(number) - 1;
        if at >= chunk.columns.columns().len() {
            continue;
        }
        let directory = chunk.directory(at)?;
        let kind = chunk.columns.column(at).kind;
        let mut values = datum::empty(kind);
        let rows = chunk.decode_block(at, &directory, directory.block_of_row(row), &mut values)?;
        let mut key = datum::empty(kind);
        append(&mut key, &values, &[row - rows.start]);
        keys.push(key);
    }
    Ok(keys)
}
