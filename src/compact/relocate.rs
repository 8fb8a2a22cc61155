//! Moving chunks down, as they are, from the end of the file into the holes that vacuum has found, so
//! that the end can be cut off. What is written for that has to be worth it: holes that DELETE has left are
//! filled by later chunks anyway.

use super::header_delete::delete_header;
use super::merge::Done;
use super::seen::Seen;
use super::survey::Survey;
use crate::chunk::chunk_cache;
use crate::chunk::index_entries::SeriesIndexes;
use crate::chunk::place::{LowFirst, Room, Rooms};
use crate::chunk::read::Damage;
use crate::chunk::reader::Reader;
use crate::chunk::write::Target;
use crate::pg::activity::Uncounted;
use crate::pg::error;
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::BLCKSZ;
use crate::table::next_version;
use std::rc::Rc;
use varve_columns::tuple::tid::MAX_HEADER_OFFSET;

/// Storage tuples that one round moves at most: 16 MB.
const ROUND_TUPLES: u64 = 8_192;

/// What tuples can take of a page.
pub const PAGE_BYTES: u64 = BLCKSZ as u64 - 24;
/// A file of so many pages is made as small as it can be.
const SMALL_PAGES: u64 = 64;
/// What moves gives back so many times as much, or more.
const WORTH: u64 = 2;

/// Holes that the next chunks fill may be such a part of a file.
const FILLED_PART: u64 = 8;

/// The page from which on chunks should move down: the lowest one below which there is room for all that lies from it on, if nothing
/// else lies there, and VACUUM will cut off what they leave. It cuts off a sixteenth of the file or more. Where less is gained chunks stay
/// where they are, or those of a table that changes all the time would be moved for ever. So do those above holes that the next chunks
/// fill, and more than `most_bytes` of a large file, unless twice as much is gained.
pub fn cut(table: Table<'_>, survey: &Survey, most_bytes: u64) -> Option<u32> {
    let headers = survey.chunks.len() as u64;
    let needed = survey
        .live_bytes
        .div_ceil(PAGE_BYTES)
        .max(headers.div_ceil(MAX_HEADER_OFFSET.into()));
    let blocks = u64::from(survey.blocks);
    if blocks <= needed + needed / 16 + 1 {
        return None;
    }
    // Some holes stay that nothing fits into.
    let lowest = u32::try_from(needed + needed / 64 + 1).ok()?;
    let stays = survey.chunks.iter().filter(|seen| !moves(seen));
    let lowest = stays
        .map(|seen| seen.last_block + 1)
        .fold(lowest.max(survey.chunks_from), u32::max);
    let mut rooms = Rooms::new(table);
    let mut chunks: Vec<_> = survey.chunks.iter().filter(|seen| moves(seen)).collect();
    chunks.sort_by_key(|seen| core::cmp::Reverse(seen.last_block));
    let add = |sum: Room, room: Room| Room {
        full: sum.full + room.full,
        bytes: sum.bytes + room.bytes,
    };
    let all = (0..survey.blocks).map(|block| rooms.of(block));
    let mut room = all.fold(Room::default(), add);
    let is_worth = |moving: &Room, cut: u32| {
        let gained = u64::from(survey.blocks - cut) * PAGE_BYTES;
        blocks <= SMALL_PAGES || moving.bytes <= most_bytes || moving.bytes * WORTH <= gained
    };
    let (mut cut, mut moving, mut rest) = (survey.blocks, Room::default(), chunks.as_slice());
    // Down to here whatever is worth it, below that only what is empty.
    let enough = match blocks > SMALL_PAGES {
        true => needed + filled_soon(&survey.chunks).min(needed / FILLED_PART),
        false => 0,
    };
    // For each number of chunks that move the lowest page.
    let mut count = 0;
    let mut cuts: Vec<(usize, u32)> = Vec::new();
    while cut > lowest {
        let below = cut - 1;
        // Others may have filled it meanwhile, or emptied it.
        let lost = rooms.of(below);
        room.full = room.full.saturating_sub(lost.full);
        room.bytes = room.bytes.saturating_sub(lost.bytes);
        while let Some((seen, others)) = rest.split_first() {
            if seen.last_block < below {
                break;
            }
            moving.full += seen.sizes.full_pieces;
            count += 1;
            moving.bytes += seen.bytes;
            rest = others;
        }
        let fits = moving.full + moving.full / 32 <= room.full
            && moving.bytes + moving.bytes / 16 <= room.bytes;
        if moving.bytes > 0 && !fits {
            break;
        }
        cut = below;
        let is_free = cuts.last().is_some_and(|last| last.0 == count);
        if (is_free || u64::from(cut) >= enough) && is_worth(&moving, cut) {
            cuts.pop_if(|last| last.0 == count);
            cuts.push((count, cut));
        }
    }
    let (count, cut) = with_room_for_headers(&mut rooms, &chunks, cuts)?;
    let gained = u64::from(survey.blocks - cut);
    (count > 0 && (gained >= 1000 || gained * 16 >= blocks)).then_some(cut)
}

/// The last of some ways to cut the file, each given by how many of `chunks` move and the page, with line pointers for the headers below. Pages
/// are read for that, the lowest first, until there are enough.
fn with_room_for_headers(
    rooms: &mut Rooms,
    chunks: &[&Seen],
    cuts: Vec<(usize, u32)>,
) -> Option<(usize, u32)> {
    let most = cuts.last()?.0;
    let bytes: usize = chunks[..most].iter().map(|seen| seen.sizes.header).sum();
    let mean = bytes / most.max(1);
    let (mut headers, mut next) = (0, 0);
    cuts.into_iter().rev().find(|&(count, cut)| {
        let needed = count + count / 16;
        while headers < needed && next < cut {
            headers += rooms.headers_of(next, mean);
            next += 1;
        }
        headers >= needed
    })
}

/// Pages that the latest merge of a window has left behind and that no younger chunks have filled yet: as much comes before the next such
/// merge. Moving what it has written into them would write each row once more.
fn filled_soon(chunks: &[Seen]) -> u64 {
    let shared = || chunks.iter().filter(|seen| seen.keyed && !seen.one_series);
    let merged = shared().filter(|seen| seen.level > 1);
    let Some(latest) = merged.max_by_key(|seen| seen.max_time) else {
        return 0;
    };
    let bytes = |is_meant: &dyn Fn(&Seen) -> bool| {
        let meant = shared().filter(|seen| is_meant(seen));
        meant.map(|seen| seen.bytes).sum::<u64>()
    };
    let written = bytes(&|seen| seen.level == latest.level && seen.max_time > latest.min_time);
    let younger = bytes(&|seen| seen.level < latest.level && seen.max_time > latest.max_time);
    written.saturating_sub(younger) / PAGE_BYTES
}

/// Can a chunk be moved now?
pub fn moves(seen: &Seen) -> bool {
    seen.settled && !seen.damaged
}

/// Does the chunk have to move down from page `cut` or a higher one?
fn is_above(seen: &Seen, cut: u32) -> bool {
    seen.last_block >= cut && moves(seen)
}

/// Moves chunks that reach beyond page `cut`; returns those that cannot be read, too, which stay.
///
/// `table` must be open with the lock of compact, `snapshot` active.
pub fn round(
    table: Table<'_>,
    survey: &Survey,
    snapshot: Snapshot<'_>,
    cut: u32,
) -> (Done, Vec<(Tid, Damage)>) {
    let mut done = Done::default();
    let mut damaged = Vec::new();
    // SAFETY: the table is open, the snapshot valid.
    unsafe {
        let target = Target::current(table);
        let indexes = SeriesIndexes::open(table);
        let (low, _uncounted) = (LowFirst::begin(table), Uncounted::begin(table));
        let mut above: Vec<_> = survey
            .chunks
            .iter()
            .filter(|seen| is_above(seen, cut))
            .collect();
        above.sort_by_key(|seen| core::cmp::Reverse(seen.last_block));
        for seen in above {
            if done.freed >= ROUND_TUPLES || !low.reserve(table, seen.sizes, cut) {
                break;
            }
            error::check_interrupts();
            let (reader, payload) = match read(table, seen, snapshot, &indexes) {
                Some(Ok(found)) => found,
                Some(Err(damage)) => {
                    damaged.push((seen.tid, damage));
                    continue;
                }
                None => continue,
            };
            let chunk = &reader.chunk;
            if !delete_header(table, chunk, target.command, true) {
                continue;
            }
            let at = target.copy_chunk(chunk, &payload);
            indexes.enter_header(&reader, &chunk.map, at);
            next_version::delete_pieces(table, chunk, target.command);
            done.chunks += 1;
            done.freed += u64::from(seen.pieces) + 1;
        }
    }
    (done, damaged)
}

/// A chunk and its payload.
type Contents = (Rc<Reader>, Vec<u8>);

/// A chunk as a survey has seen it, if it still is and has rows, with its payload.
fn read(
    table: Table<'_>,
    seen: &Seen,
    snapshot: Snapshot<'_>,
    indexes: &SeriesIndexes,
) -> Option<Result<Contents, Damage>> {
    // SAFETY: the table is open, the snapshot valid.
    let reader = match unsafe { chunk_cache::try_reader_at(table, seen.tid, snapshot) }? {
        Ok(reader) => reader,
        Err(damage) => return Some(Err(damage)),
    };
    let chunk = &reader.chunk;
    if chunk.header.chunk != seen.chunk || chunk.rows_with_payload() == 0 {
        return None;
    }
    let payload = indexes
        .try_header(chunk)
        .and_then(|()| chunk.payload(0..chunk.statics.payload.len));
    Some(payload.map(|payload| (Rc::clone(&reader), payload)))
}
