//! `varve.chunks(table)`: a row per chunk.

use super::codecs::Mix;
use super::{subject, text};
use crate::chunk::read::Damage;
use crate::chunk::reader::Reader;
use crate::chunk::{index_entries, inspect};
use crate::pg::lock_mode::LockMode;
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid;
use crate::pg::types;
use crate::pg::{ItemPointerData, Oid};
use pgrx::iter::TableIterator;
use pgrx::prelude::*;
use varve_columns::tuple::header::{
    Section, FLAG_ONE_SERIES, FLAG_SORTED, FLAG_TOMBSTONE, FLAG_UNKEYED,
};

type Row = (
    String,
    i16,
    i32,
    i32,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
    bool,
    bool,
    i64,
    i64,
    String,
    ItemPointerData,
    i32,
    i64,
    i64,
);

/// `varve.chunks(regclass)`
#[pg_extern(sql = false)]
#[expect(clippy::type_complexity, reason = "the columns of the SQL function")]
fn varve_chunks(
    table: Oid,
) -> TableIterator<
    'static,
    (
        name!(chunk, String),
        name!(level, i16),
        name!(rows, i32),
        name!(deleted, i32),
        name!(min_time, Option<String>),
        name!(max_time, Option<String>),
        name!(first_key, Option<String>),
        name!(last_key, Option<String>),
        name!(one_series, bool),
        name!(keyed, bool),
        name!(header_bytes, i64),
        name!(payload_bytes, i64),
        name!(codecs, String),
        name!(header, ItemPointerData),
        name!(tuples, i32),
        name!(first_block, i64),
        name!(last_block, i64),
    ),
> {
    let table = subject::open(table, LockMode::AccessShare);
    subject::check_select(&table);
    let mut rows: Vec<Row> = Vec::new();
    // SAFETY: the table is open, and the statement's snapshot active.
    unsafe {
        let snapshot = Snapshot::active();
        inspect::chunks(table.rel(), snapshot, |at, result| match result {
            Ok(reader) => match describe(table.rel(), &reader) {
                Ok(row) => rows.push(row),
                Err(damage) => rows.push(damaged(at, &damage)),
            },
            Err(damage) => rows.push(damaged(at, &damage)),
        });
    }
    TableIterator::new(rows)
}

/// A chunk that cannot be read; `codecs` says why.
fn damaged(at: tid::Tid, damage: &Damage) -> Row {
    let what = format!("damaged: {}", damage);
    let (here, block) = (tid::to_pg(at), i64::from(at.block));
    let none = || None;
    (
        String::new(),
        0,
        0,
        0,
        none(),
        none(),
        none(),
        none(),
        false,
        false,
        0,
        0,
        what,
        here,
        1,
        block,
        block,
    )
}

fn describe(table: Table<'_>, reader: &Reader) -> Result<Row, Damage> {
    let chunk = &reader.chunk;
    let header = &chunk.header;
    let has_payload = !header.has(FLAG_TOMBSTONE);
    let mut codecs = Mix::default();
    // All rows of a chunk without payload are gone.
    let columns = if has_payload {
        chunk.columns.columns().len()
    } else {
        0
    };
    for column in 0..columns {
        let directory = chunk.directory(column)?;
        for block in directory.blocks() {
            codecs.count(block.codec);
        }
    }
    let mut pieces = chunk.piece_tids()?;
    if !has_payload {
        pieces.retain(|piece| !chunk.statics.payload.tids.contains(piece));
    }
    pieces.extend(chunk.notes.seen.iter().map(|note| note.tid));
    let blocks = || {
        pieces
            .iter()
            .chain([&chunk.tid])
            .map(|tid| i64::from(tid.block))
    };
    let last_row = header.rows.saturating_sub(1);
    // SAFETY: the table is open.
    let (times, keys) = unsafe {
        let descriptor = table.descriptor();
        let time = |value: i64| {
            let at = usize::from(chunk.statics.time?) - 1;
            let attribute = descriptor.attributes().get(at)?;
            let known = header.has(FLAG_SORTED) && !attribute.attisdropped;
            known.then(|| {
                let datum = index_entries::time_datum(value, attribute.attlen);
                types::text_of(datum, attribute.atttypid)
            })
        };
        let readable = chunk.rows_with_payload() > 0;
        let key = |row| {
            readable
                .then(|| text::key(reader, descriptor, row))
                .flatten()
        };
        (
            (time(header.min_time), time(header.max_time)),
            (key(0), key(last_row)),
        )
    };
    Ok((
        format!("{:016x}", header.chunk),
        i16::from(header.level),
        header.rows as i32,
        header.deleted as i32,
        times.0,
        times.1,
        keys.0,
        keys.1,
        header.has(FLAG_ONE_SERIES),
        !header.has(FLAG_UNKEYED),
        header_bytes(reader),
        i64::from(has_payload) * i64::from(chunk.statics.payload.len),
        codecs.to_string(),
        tid::to_pg(chunk.tid),
        pieces.len() as i32 + 1,
        blocks().min().unwrap_or(0),
        blocks().max().unwrap_or(0),
    ))
}

/// Bytes of the header tuple, of the sections that did not fit into it, and of its notes, about.
pub fn header_bytes(reader: &Reader) -> i64 {
    let header = &reader.chunk.header;
    let spilled = |section: &Section| match section {
        Section::Inline(_) => 0,
        Section::Spilled { pieces, .. } => i64::from(pieces.len),
    };
    let sections = spilled(&header.statics) + spilled(&header.delete_map);
    header.encode().len() as i64 + sections + reader.chunk.notes.bytes() as i64
}
