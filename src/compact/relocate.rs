//! Moving chunks down, as they are, from the end of the file into the holes that vacuum has found, so
//! that the end can be cut off.

use super::merge::{delete_header, Done};
use super::survey::{Seen, Survey};
use crate::chunk::chunk_cache;
use crate::chunk::index_entries::SeriesIndexes;
use crate::chunk::place::{self, LowFirst};
use crate::chunk::read::Damage;
use crate::chunk::reader::Reader;
use crate::chunk::write::Target;
use crate::pg::error;
use crate::pg::tid::Tid;
use crate::table::changes;
use pgrx::pg_sys;
use std::rc::Rc;
use varve_columns::tuple::tid::MAX_HEADER_OFFSET;

/// Storage tuples that one round moves at most: 64 MB.
const ROUND_TUPLES: u64 = 32_768;

/// Room for a quarter of what could move makes it worth while, or for 64 storage tuples of the largest size.
const ENOUGH_BYTES: u64 = 64 * 2032;

/// What tuples can take of a page.
const PAGE_BYTES: u64 = pg_sys::BLCKSZ as u64 - 24;

/// The page from which on chunks should move down, if that would make the file clearly smaller: vacuum
/// cuts off a sixteenth of it or more.
///
/// # Safety
/// `table` must be open.
pub unsafe fn cut(table: pg_sys::Relation, survey: &Survey) -> Option<u32> {
    let headers = survey.chunks.len() as u64;
    let needed = survey
        .live_bytes
        .div_ceil(PAGE_BYTES)
        .max(headers.div_ceil(MAX_HEADER_OFFSET.into()));
    if u64::from(survey.blocks) <= needed + needed / 16 + 1 {
        return None;
    }
    // Some holes stay that nothing fits into.
    let cut = u32::try_from(needed + needed / 64 + 1).ok()?;
    let (mut moving, mut highest) = (0, 0);
    for seen in survey.chunks.iter().filter(|seen| is_above(seen, cut)) {
        moving += u64::from(seen.pieces) + 1;
        highest = highest.max(seen.last_block);
    }
    // What does not fit below the cut can still move down, and moves again the next time.
    // SAFETY: by contract.
    let room = unsafe { place::room_below(table, highest) };
    let moving_bytes = moving * survey.live_bytes / survey.live_tuples.max(1);
    (moving > 0 && room >= (moving_bytes / 4).min(ENOUGH_BYTES)).then_some(cut)
}

/// Should the chunk move down from page `cut` or a higher one?
fn is_above(seen: &Seen, cut: u32) -> bool {
    seen.last_block >= cut && seen.settled
}

/// Moves chunks that reach beyond page `cut`; returns those that cannot be read, too, which stay.
///
/// # Safety
/// `table` must be open with the lock of compact, `snapshot` active.
pub unsafe fn round(
    table: pg_sys::Relation,
    survey: &Survey,
    snapshot: pg_sys::Snapshot,
    cut: u32,
) -> (Done, Vec<(Tid, Damage)>) {
    let mut done = Done::default();
    let mut damaged = Vec::new();
    // SAFETY: by contract.
    unsafe {
        let target = Target::current(table);
        let indexes = SeriesIndexes::open(table);
        let low = LowFirst::begin(table);
        let mut above: Vec<_> = survey
            .chunks
            .iter()
            .filter(|seen| is_above(seen, cut))
            .collect();
        above.sort_by_key(|seen| core::cmp::Reverse(seen.last_block));
        for seen in above {
            // What finds no room below the cut goes above it, but never higher than it was.
            if low.reserve(table) >= seen.last_block || done.freed >= ROUND_TUPLES {
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
            if !delete_header(table, seen.tid, seen.chunk, target.command) {
                continue;
            }
            let at = target.copy_chunk(chunk, &payload);
            indexes.enter_header(&reader, at);
            changes::delete_pieces(table, chunk, target.command);
            done.chunks += 1;
            done.freed += u64::from(seen.pieces) + 1;
        }
    }
    (done, damaged)
}

/// A chunk and its payload.
type Contents = (Rc<Reader>, Vec<u8>);

/// A chunk as a survey has seen it, if it still is and has rows, with its payload.
unsafe fn read(
    table: pg_sys::Relation,
    seen: &Seen,
    snapshot: pg_sys::Snapshot,
    indexes: &SeriesIndexes,
) -> Option<Result<Contents, Damage>> {
    // SAFETY: the caller's contract.
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
