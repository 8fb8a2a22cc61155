//! The next version of a chunk of which rows have been deleted or updated: what is written in the place of its header.

use crate::chunk::index_entries;
use crate::chunk::left_room;
use crate::chunk::next_header;
use crate::chunk::read::Chunk;
use crate::chunk::reader::Reader;
use crate::chunk::write::{self, Target, DELETE_MAP_BASE};
use crate::pg::open::Open;
use crate::pg::relation::Table;
use crate::pg::tid::Tid;
use crate::pg::transaction;
use crate::pg::CommandId;
use varve_columns::tuple::delete_map::DeleteMap;
use varve_columns::tuple::header::{Header, Section, BODY_BYTES, FLAG_TOMBSTONE};
use varve_columns::tuple::note::{self, Run, SLOT_BYTES};

/// Writes the version of a chunk that lacks `changed` rows, too, and deletes the one before, which is locked; where its header is, unless
/// nothing is left of it.
pub fn write(table: &Open, reader: &Reader, changed: &[Run]) -> Option<Tid> {
    let chunk = &reader.chunk;
    let changed = map_of(changed);
    let mut map = DeleteMap::clone(&chunk.map);
    map.merge(&changed);
    advance_past_own_header(chunk);
    let target = {
        left_room::make_known(table.rel());
        Target::current(table.rel())
    };
    let note = gathered(chunk, &changed, &map);
    let tid = if let Some(note) = &note {
        target.gather_notes(chunk, note)
    } else if map.deleted() < chunk.header.rows {
        target.replace_header(chunk, &chunk.header, &map)
    } else if map.has_successors() {
        let tid = bury(&target, chunk, &map);
        next_header::set(table.rel(), chunk.header.chunk, chunk.tid, tid);
        return Some(tid);
    } else {
        write::delete_tuple(table.rel(), chunk.tid, target.command, false);
        delete_pieces(table.rel(), chunk, target.command);
        return None;
    };
    next_header::set(table.rel(), chunk.header.chunk, chunk.tid, tid);
    left_room::remember(table.rel(), chunk, note.is_none());
    index_entries::index_header(table.rel(), reader, &map, tid);
    Some(tid)
}

/// Changes as a delete map. One that is nobody's has no row of them yet, and each is named once.
fn map_of(changed: &[Run]) -> DeleteMap {
    let mut map = DeleteMap::default();
    let added = map.add(changed);
    debug_assert_eq!(added, Ok(()));
    map
}

/// One note for all that the notes of a chunk and new changes say, where that is far less than to write its map, too.
fn gathered(chunk: &Chunk, changed: &DeleteMap, map: &DeleteMap) -> Option<Vec<u8>> {
    let is_long = matches!(chunk.header.delete_map, Section::Spilled { .. });
    let slots = chunk.header.slots.len() / SLOT_BYTES;
    if !is_long || map.deleted() == chunk.header.rows || chunk.notes.pending.len() >= slots {
        return None;
    }
    let mut recent = changed.clone();
    let runs = chunk.notes.seen.iter().flat_map(|note| note.runs.iter());
    // Rows of two notes are damage, which opening the chunk has shown.
    recent.add(runs).ok()?;
    note::encode(
        chunk.header.chunk,
        &note::runs(recent.entries()),
        BODY_BYTES,
    )
}

/// A header that this very command inserted cannot be deleted by it: start a new command.
fn advance_past_own_header(chunk: &Chunk) {
    let own = transaction::is_current(chunk.xmin);
    if own && chunk.raw_command >= transaction::command(false) {
        transaction::next_command();
    }
}

/// Keeps a header of which all rows are gone but some were updated: whoever waits for one of those
/// finds its new version. The payload goes, and no index names the header any more.
fn bury(target: &Target, chunk: &Chunk, map: &DeleteMap) -> Tid {
    let mut header = Header::clone(&chunk.header);
    header.flags |= FLAG_TOMBSTONE;
    let tid = target.replace_header(chunk, &header, map);
    for &piece in &chunk.statics.payload.tids {
        write::delete_tuple(target.table, piece, target.command, false);
    }
    tid
}

/// Deletes the pieces and notes of a chunk whose header is gone.
pub fn delete_pieces(table: Table<'_>, chunk: &Chunk, command: CommandId) {
    let id = chunk.header.chunk;
    if !chunk.header.has(FLAG_TOMBSTONE) {
        for &piece in &chunk.statics.payload.tids {
            write::delete_tuple(table, piece, command, false);
        }
    }
    let sections: [(u32, &Section); 2] = [
        (write::STATICS_BASE, &chunk.header.statics),
        (DELETE_MAP_BASE, &chunk.header.delete_map),
    ];
    for (base, section) in sections {
        write::delete_section(table, id, base, section, command);
    }
    write::delete_notes(table, &chunk.notes.seen, command);
}
