//! Publishing changes of rows of a chunk that a note can say (`chunk::notes`). Its place is written to an empty slot of the header, under
//! the lock of the header's page alone. Those of few rows are published when their transaction commits: nobody waits for that but who
//! replaces the header, and nothing is held while anything is waited for. So transactions that change different rows of a chunk do not meet.

use super::locks;
use crate::chunk::chunk_cache;
use crate::chunk::notes;
use crate::chunk::tuple_kind::{classify, TupleKind};
use crate::chunk::write::{self, Target};
use crate::pg::lock_tags;
use crate::pg::page::{self, Page};
use crate::pg::page_patch;
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::transaction;
use crate::pg::tuple::{self, Xmax};
use crate::pg::{Buffer, TM_Result};
use std::ops::Range;
use varve_columns::tuple::header;
use varve_columns::tuple::note::{self, Run, SLOT_BYTES};

/// Of the slots of a header one in so many is left to transactions that are prepared: these would keep the header that they replace.
const PREPARED_SHARE: usize = 8;

/// What came of an attempt.
pub enum Published {
    Done,
    /// The header has to be replaced: it has no slot left, or no row. It is at this place, and locked if that is known.
    No(Option<Tid>),
}

/// How a change may be published.
#[derive(Clone, Copy)]
pub struct Terms {
    /// The transaction is going to be prepared.
    pub prepares: bool,
    /// Bytes that the note may have.
    pub most_bytes: usize,
}

/// Publishes the changes of a chunk of which this transaction has locked the rows; `at` is where the header was then.
///
/// # Safety
/// `table` must be open for writing; the transaction must be about to commit or to be prepared, or have locked the header and no cursor.
pub unsafe fn publish(
    table: Table<'_>,
    at: Tid,
    chunk: u64,
    changed: &[Run],
    terms: Terms,
) -> Published {
    // SAFETY: by contract.
    unsafe {
        let Some((body, free)) = note_for(table, at, chunk, changed, terms) else {
            return Published::No(None);
        };
        let target = Target::current(table);
        let place = target.insert_note(&body);
        if enter(table, at, chunk, place, &free) || enter_anew(table, at, chunk, place) {
            return Published::Done;
        }
        // Somebody replaces the header, or has it locked, or was faster.
        let at =
            locks::lock_to_write(table, chunk, at).expect("BUG: a chunk with locked rows is gone");
        if enter_anew(table, at, chunk, place) {
            return Published::Done;
        }
        // What this very command inserted it cannot delete.
        transaction::next_command();
        let command = transaction::command(true);
        write::delete_tuple(table, place, command, false);
        Published::No(Some(at))
    }
}

/// The slots of a header as they were, and the numbers of free ones.
struct Free {
    slots: Vec<u8>,
    numbers: Vec<usize>,
}

impl Free {
    fn slot(&self, number: usize) -> Option<&[u8]> {
        self.slots
            .get(number * SLOT_BYTES..(number + 1) * SLOT_BYTES)
    }
}

/// The note to write, if there is room for one and a row is left.
fn note_for(
    table: Table<'_>,
    at: Tid,
    chunk: u64,
    changed: &[Run],
    terms: Terms,
) -> Option<(Vec<u8>, Free)> {
    // SAFETY: the table is open, and any snapshot is valid.
    unsafe {
        let any = Snapshot::any();
        let slots = notes::slots_at(table, at, chunk)?;
        let count = slots.len() / SLOT_BYTES;
        let left = if terms.prepares || !lock_tags::may_prepare() {
            0
        } else {
            count / PREPARED_SHARE
        };
        let numbers = notes::free_slots(table, chunk, &slots, left + 1);
        if numbers.len() <= left {
            return None;
        }
        let reader = chunk_cache::reader_at(table, at, any)?;
        let header = &reader.chunk.header;
        if header.deleted + note::count(changed) >= header.rows {
            return None;
        }
        let body = note::encode(chunk, changed, terms.most_bytes)?;
        Some((body, Free { slots, numbers }))
    }
}

/// Enters a note as `enter` does, by the slots as they are now.
///
/// # Safety
/// As `publish`; `place` must be that of a note of the chunk which this transaction has written.
unsafe fn enter_anew(table: Table<'_>, at: Tid, chunk: u64, place: Tid) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        let Some(slots) = notes::slots_at(table, at, chunk) else {
            return false;
        };
        let numbers = notes::free_slots(table, chunk, &slots, 1);
        enter(table, at, chunk, place, &Free { slots, numbers })
    }
}

/// Writes the place of a note to a slot of the header at `at`, unless somebody else has that to himself, or none of those that were free is still what it was.
/// They were found without the lock, since other pages are read for it.
///
/// # Safety
/// As `enter_anew`; `free` must be what the slots of the header at `at` were just before.
unsafe fn enter(table: Table<'_>, at: Tid, chunk: u64, place: Tid, free: &Free) -> bool {
    page::locked_for_change(table, at.block, |page, buffer| {
        // SAFETY: the caller's contract; the buffer is pinned and locked.
        unsafe {
            let own = note::slot(chunk, place);
            let slot = mine(table, page, at, chunk, buffer).and_then(|slots| {
                let start_of = |number: usize| slots.start + number * SLOT_BYTES;
                // Another header of the chunk can have fewer. One that names the place already, of a note that was there before, somebody else may have
                // found free: to him it would look as free as before.
                let same = |&&number: &&usize| {
                    start_of(number + 1) <= slots.end && {
                        let start = page.as_ptr().cast::<u8>().add(start_of(number));
                        let now = core::slice::from_raw_parts(start, SLOT_BYTES);
                        free.slot(number) == Some(now) && now != own
                    }
                };
                free.numbers
                    .iter()
                    .find(same)
                    .map(|&number| start_of(number))
            });
            if let Some(offset) = slot {
                page_patch::overwrite(table, buffer, offset, &own);
            }
            slot.is_some()
        }
    })
}

/// Where on its page the slots of the header at `at` are, if it is the chunk's and nobody else has replaced or locked it.
///
/// # Safety
/// The page must be that of `at`, in `buffer`, which is pinned and locked.
unsafe fn mine(
    table: Table<'_>,
    page: &Page,
    at: Tid,
    chunk: u64,
    buffer: Buffer,
) -> Option<Range<usize>> {
    const LOCK_ONLY: u16 = 0x0080;
    // SAFETY: the caller has locked the page.
    unsafe {
        let item = page.tuple(at.offset)?;
        let body = item.body();
        if classify(&item) != TupleKind::Header || header::chunk_id(body) != chunk {
            return None;
        }
        let command = transaction::command(false) + 1;
        let is_mine = match page::changeable(table, item, command, buffer) {
            TM_Result::TM_Ok => true,
            TM_Result::TM_BeingModified => match tuple::xmax(item.header()) {
                Xmax::One(xid) => {
                    (*item.header()).t_infomask & LOCK_ONLY != 0 && transaction::is_current(xid)
                }
                _ => false,
            },
            _ => false,
        };
        let body_at = body.as_ptr().offset_from(page.as_ptr().cast::<u8>()) as usize;
        is_mine.then(|| body_at + header::slots_start(body)..body_at + body.len())
    }
}
