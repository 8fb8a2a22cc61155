//! Notes of a chunk: storage tuples that say which rows are gone besides those of the delete map. The slots at the end of the header
//! name them, and are filled in place (`table::publish`), so the header and the TIDs of its rows stay. A note is seen by who sees its
//! tuple. It goes with the version of the header that names it, so whoever sees that need not ask whether the note was deleted.

use super::decoded_notes;
use super::read::{Chunk, Damage};
use crate::pg::page::{PageCursor, PageTuple};
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::transaction;
use crate::pg::tuple::{self, Inserter};
use crate::pg::{Buffer, TransactionId};
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use varve_columns::tuple::header::{self, FormatError, StorageTuple};
use varve_columns::tuple::note::{self, SLOT_BYTES};

/// A change of rows, which no other note and no map names.
#[derive(Clone)]
pub struct Note {
    pub tid: Tid,
    /// Who wrote it.
    xmin: TransactionId,
    /// The slot that names it.
    slot: [u8; SLOT_BYTES],
    pub runs: Rc<[note::Run]>,
}

/// By what notes are judged.
#[derive(Clone, Copy)]
pub enum View<'a> {
    /// By an MVCC snapshot; any other shows what has been committed by now, and what this transaction did.
    Snapshot(Snapshot<'a>),
    /// The same, but it is no reading: serializable transactions do not get into conflicts by it.
    Check(Snapshot<'a>),
    /// Those that were committed for an MVCC snapshot, for who writes the next version of the chunk, which names the others. It is no reading
    /// either.
    Naming(Snapshot<'a>),
    /// The header as it was written, without any.
    Written,
}

/// The notes of a chunk as somebody sees them.
#[derive(Clone)]
pub struct Notes {
    pub seen: Rc<[Note]>,
    /// Those of other transactions in progress, where what has been committed by now was asked for; and what the next version is to name.
    pub pending: Vec<Tid>,
    /// All that the header names were committed before, and are seen: nobody will judge them otherwise.
    pub are_committed: bool,
    /// The slots that were looked at, where that is so: who finds them as they were need not look at the notes again.
    pub slots: Option<Rc<[u8]>>,
    /// What `stamp` returns, where it was asked before.
    pub stamp: Option<u64>,
}

thread_local! {
    /// Most chunks have none.
    static NONE: Rc<[Note]> = Rc::new([]);
}

impl Default for Notes {
    fn default() -> Self {
        Notes {
            seen: NONE.try_with(Rc::clone).unwrap_or_else(|_| Rc::from([])),
            pending: Vec::new(),
            are_committed: true,
            slots: None,
            stamp: None,
        }
    }
}

impl Note {
    pub fn xmin(&self) -> TransactionId {
        self.xmin
    }
}

impl Notes {
    /// What they take of their pages, about.
    pub fn bytes(&self) -> u64 {
        const NOTE_BYTES: u64 = 56;
        const RUN_BYTES: u64 = 6;
        let runs = |note: &Note| note.runs.len() as u64 * RUN_BYTES;
        self.seen.iter().map(|note| NOTE_BYTES + runs(note)).sum()
    }

    /// Rows that the notes name.
    pub fn count(&self) -> u32 {
        self.seen.iter().map(|note| note::count(&note.runs)).sum()
    }

    /// Tells apart what was opened with one set of notes and with another. The place of a note that was rolled back may be that of the next
    /// one, whose writer is another part of the transaction.
    pub fn stamp(&self) -> u64 {
        self.stamp.unwrap_or_else(|| {
            let mut hasher = FxHasher::default();
            for note in self.seen.iter() {
                (note.tid, note.xmin.into_inner()).hash(&mut hasher);
            }
            // Nothing is at the place where a set ends.
            self.seen.len().hash(&mut hasher);
            self.pending.hash(&mut hasher);
            hasher.finish()
        })
    }

    /// Do slots name no note that is not among these?
    fn are_all_of(&self, slots: &[u8]) -> bool {
        self.slots.as_ref().is_some_and(|known| **known == *slots) || note::are_empty(slots)
    }
}

/// Were the header of a chunk and all of its notes written before `horizon`?
///
/// `horizon` must be a transaction id.
pub fn is_settled(chunk: &Chunk, horizon: TransactionId) -> bool {
    let is_over = |xid| transaction::precedes(xid, horizon);
    is_over(chunk.xmin) && chunk.notes.seen.iter().all(|note| is_over(note.xmin))
}

/// What became of who wrote a note.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Writer {
    Committed,
    Own,
    InProgress(TransactionId),
    Aborted,
}

/// # Safety
/// The tuple's page must be locked.
pub(super) unsafe fn writer(item: &PageTuple<'_>) -> Writer {
    // SAFETY: the caller has locked the tuple's page.
    let xid = match unsafe { tuple::inserter(item.header()) } {
        Inserter::Committed => return Writer::Committed,
        Inserter::Aborted => return Writer::Aborted,
        Inserter::Unknown(xid) => xid,
    };
    // Who is not in progress has ended for good.
    if transaction::is_current(xid) {
        Writer::Own
    } else if transaction::is_in_progress(xid) {
        Writer::InProgress(xid)
    } else if transaction::did_commit(xid) {
        Writer::Committed
    } else {
        Writer::Aborted
    }
}

/// Has this transaction deleted a note that it has written, for which there was no slot? One that names its place is of another note, which was
/// rolled back before.
///
/// # Safety
/// As `writer`.
unsafe fn is_taken_back(item: &PageTuple<'_>) -> bool {
    // SAFETY: the caller has locked the tuple's page.
    unsafe { tuple::deleter(item.header()).is_some_and(transaction::is_current) }
}

/// What a slot names.
enum Named<'a> {
    Known(&'a Note),
    Other(Tid),
}

impl Named<'_> {
    fn tid(&self) -> Tid {
        match self {
            Named::Known(note) => note.tid,
            Named::Other(tid) => *tid,
        }
    }
}

/// What slots name, each once, in their order. `known` are notes that slots of the same header have named before, in that order: as a rule their
/// slots need no more than to be compared.
fn sort_out<'a>(
    chunk: u64,
    slots: &[u8],
    known: &'a [Note],
) -> Result<Vec<Named<'a>>, FormatError> {
    let mut all: Vec<Named> = Vec::with_capacity(known.len() + 8);
    // Those that are where they were, before the first of which that is not so.
    let each = slots.chunks_exact(SLOT_BYTES).zip(known);
    let same = each.take_while(|(slot, note)| note.slot == **slot);
    all.extend(same.map(|(_, note)| Named::Known(note)));
    let mut met = all.len();
    let rest = &slots[met * SLOT_BYTES..];
    if met == known.len() && note::are_empty(rest) {
        return Ok(all);
    }
    let mut expected = known[met..].iter().peekable();
    let mut has_gaps = false;
    for (at, slot) in rest.chunks_exact(SLOT_BYTES).enumerate() {
        if let Some(note) = expected.next_if(|note| note.slot == *slot) {
            all.push(Named::Known(note));
            met += 1;
            continue;
        }
        let Some(place) = note::named(chunk, slot)? else {
            // As a rule those behind the first empty one are empty, too.
            if !has_gaps && note::are_empty(&rest[at * SLOT_BYTES..]) {
                break;
            }
            has_gaps = true;
            continue;
        };
        if all.iter().any(|named| named.tid() == place) {
            continue;
        }
        match known[met..].iter().find(|note| note.tid == place) {
            // Not in the order that was expected: from here on each slot is looked for.
            Some(note) => {
                all.push(Named::Known(note));
                expected = [].iter().peekable();
            }
            None => all.push(Named::Other(place)),
        }
    }
    Ok(all)
}

/// What the slots of the header `body` at `at` name. Somebody may be filling one while we look: what was read so is read
/// again with the page locked.
fn named<'a>(
    table: Table<'_>,
    at: Tid,
    body: &[u8],
    known: &'a [Note],
) -> Result<Vec<Named<'a>>, Damage> {
    let chunk = header::chunk_id(body);
    if let Ok(named) = sort_out(chunk, &body[header::slots_start(body)..], known) {
        return Ok(named);
    }
    let slots = slots_at(table, at, chunk).unwrap_or_default();
    sort_out(chunk, &slots, known).map_err(Damage::new)
}

/// The slots of the header at `at`, if it is one of the chunk.
pub fn slots_at(table: Table<'_>, at: Tid, chunk: u64) -> Option<Vec<u8>> {
    with_slots_at(table, at, chunk, <[u8]>::to_vec)
}

/// Shows them to `look` while their page is locked.
fn with_slots_at<R>(
    table: Table<'_>,
    at: Tid,
    chunk: u64,
    look: impl FnOnce(&[u8]) -> R,
) -> Option<R> {
    if !table.has_block(at.block) {
        return None;
    }
    let mut cursor = PageCursor::new(table);
    cursor.go(at.block);
    cursor.locked(|page| {
        let item = page.tuple(at.offset)?;
        let body = item.body();
        let is_header = item.attribute_count() == 0
            && header::body_kind(body) == header::BodyKind::Header
            && header::chunk_id(body) == chunk;
        is_header.then(|| look(&body[header::slots_start(body)..]))
    })
}

/// Shows the notes of a chunk at some places to `visit` while their pages are locked: it must not lock buffers. What is at the place of a note
/// that nobody can see is none.
fn visit(
    table: Table<'_>,
    chunk: u64,
    places: &[Tid],
    mut visit: impl FnMut(PageTuple<'_>, &[u8], Buffer),
) {
    let mut cursor = PageCursor::new(table);
    for &at in places {
        if !table.has_block(at.block) {
            continue;
        }
        cursor.go(at.block);
        let buffer = cursor.buffer();
        cursor.locked(|page| {
            let Some(item) = page.tuple(at.offset) else {
                return;
            };
            if item.attribute_count() != 0 {
                return;
            }
            let body = item.body();
            if header::decode(body) == Ok(StorageTuple::Note { chunk }) {
                visit(item, body, buffer);
            }
        });
    }
}

/// The notes of the chunk whose header `body` is at `at`, of `rows` rows. `known` are some that are known to be committed: their tuples are not
/// looked at again.
pub fn of_header(
    table: Table<'_>,
    at: Tid,
    body: &[u8],
    rows: u32,
    view: View,
    known: &[Note],
) -> Result<Notes, Damage> {
    let (snapshot, reads) = match view {
        View::Snapshot(snapshot) => (snapshot, true),
        View::Check(snapshot) => (snapshot, false),
        View::Naming(_) => (Snapshot::any(), false),
        View::Written => return Ok(Notes::default()),
    };
    let is_later = |xmin| match view {
        View::Naming(snapshot) => snapshot.is_running(xmin),
        _ => false,
    };
    let all = named(table, at, body, known)?;
    if all.is_empty() {
        return Ok(Notes::default());
    }
    let chunk = header::chunk_id(body);
    let is_mvcc = snapshot.is_mvcc();
    let other = |named: &Named| match named {
        Named::Other(at) => Some(*at),
        Named::Known(_) => None,
    };
    let others: Vec<Tid> = all.iter().filter_map(other).collect();
    let (mut found, mut pending, mut damage) = (Vec::new(), Vec::new(), None);
    let mut are_committed = true;
    // SAFETY: the page of each tuple is locked.
    unsafe {
        visit(table, chunk, &others, |item, body, buffer| {
            let is_seen = if is_mvcc {
                are_committed = false;
                is_visible(table, item, buffer, snapshot, reads)
            } else {
                let writer = writer(&item);
                are_committed &= writer == Writer::Committed;
                match writer {
                    Writer::Committed if is_later(tuple::xmin(item.header())) => {
                        pending.push(item.tid);
                        false
                    }
                    Writer::Committed => true,
                    Writer::Own => !is_taken_back(&item),
                    Writer::InProgress(_) => {
                        pending.push(item.tid);
                        false
                    }
                    Writer::Aborted => false,
                }
            };
            if !is_seen {
                return;
            }
            match decoded_notes::decode(body, rows) {
                Ok(runs) => found.push(Note {
                    tid: item.tid,
                    xmin: tuple::xmin(item.header()),
                    slot: note::slot(chunk, item.tid),
                    runs,
                }),
                Err(error) => damage = Some(Damage::new(error).at(format!("note at {}", item.tid))),
            }
        });
    }
    if let Some(damage) = damage {
        return Err(damage);
    }
    are_committed &= found.len() == others.len();
    let mut found = found.into_iter().peekable();
    let is_known_to = |note: &Note| !is_mvcc || !snapshot.is_running(note.xmin);
    let mut seen = Vec::with_capacity(all.len());
    for named in all {
        match named {
            Named::Other(at) => seen.extend(found.next_if(|note| note.tid == at)),
            Named::Known(note) if is_known_to(note) => seen.push(note.clone()),
            Named::Known(_) => {}
        }
    }
    Ok(Notes {
        seen: seen.into(),
        pending,
        are_committed,
        slots: None,
        stamp: None,
    })
}

/// Does an MVCC snapshot see a note? What it does not see a serializable transaction has missed.
///
/// # Safety
/// `table` must be open, `snapshot` valid; the tuple must be on the page in `buffer`, which is pinned and locked.
unsafe fn is_visible(
    table: Table<'_>,
    item: PageTuple<'_>,
    buffer: Buffer,
    snapshot: Snapshot<'_>,
    reads: bool,
) -> bool {
    // SAFETY: the caller has locked the tuple's page.
    unsafe {
        let mut found = item.to_heap_tuple(table.oid());
        let is_seen = snapshot.sees(&mut found, buffer);
        if reads && transaction::is_serializable() {
            table.note_reading(&mut found, buffer, snapshot, is_seen);
        }
        is_seen
    }
}

/// Has the chunk got a note that `chunk` was opened without, valid or in progress, of `row` or of any?
///
/// # Safety
/// The chunk's table must be open, its header protected by a snapshot.
pub unsafe fn has_others(chunk: &Chunk, row: Option<u32>) -> bool {
    let (table, id) = (chunk.table(), chunk.header.chunk);
    // SAFETY: by contract.
    unsafe {
        let changed = |slots: &[u8]| (!chunk.notes.are_all_of(slots)).then(|| slots.to_vec());
        let Some(slots) = with_slots_at(table, chunk.tid, id, changed).flatten() else {
            return false;
        };
        let named = match sort_out(id, &slots, &chunk.notes.seen) {
            Ok(named) => named,
            Err(error) => chunk.raise(&Damage::new(error)),
        };
        let others = named.iter().filter_map(|named| match named {
            Named::Other(at) => Some(*at),
            Named::Known(_) => None,
        });
        let others: Vec<Tid> = others.collect();
        let mut found = false;
        visit(table, id, &others, |item, body, _| {
            found |= writer(&item) != Writer::Aborted
                && row.is_none_or(|row| names(body, chunk.header.rows, row));
        });
        found
    }
}

/// The transaction in progress, other than this one, that has noted a change of a row.
pub fn changer_of(table: Table<'_>, header: Tid, chunk: u64, row: u32) -> Option<TransactionId> {
    // SAFETY: the table is open. A slot that cannot be read is reported by who opens the chunk.
    unsafe {
        let slots = slots_at(table, header, chunk)?;
        let places = note::all_named(chunk, &slots).unwrap_or_default();
        let mut changer = None;
        visit(table, chunk, &places, |item, body, _| {
            if let Writer::InProgress(xid) = writer(&item) {
                if names(body, u32::MAX, row) {
                    changer = Some(xid);
                }
            }
        });
        changer
    }
}

/// Rows that the notes of a header name, for who counts what is there now; `slots` are the header's. `None` where it names more than `most` notes.
pub fn rows_gone(table: Table<'_>, chunk: u64, slots: &[u8], most: usize) -> Option<u32> {
    let is_empty = |slot: &[u8]| slot.iter().all(|&byte| byte == 0);
    let used = slots
        .chunks_exact(SLOT_BYTES)
        .filter(|slot| !is_empty(slot));
    match used.count() {
        0 => return Some(0),
        used if used > most => return None,
        _ => {}
    }
    // Somebody may be filling a slot: what he writes is not there yet.
    let places = note::all_named(chunk, slots).unwrap_or_default();
    let mut gone = 0;
    // SAFETY: the table is open; the page of each tuple is locked.
    unsafe {
        visit(table, chunk, &places, |item, body, _| {
            let is_there = match writer(&item) {
                Writer::Committed => true,
                Writer::Own => !is_taken_back(&item),
                Writer::InProgress(_) | Writer::Aborted => false,
            };
            if is_there {
                gone += note::decode(body, u32::MAX).map_or(0, |runs| note::count(&runs));
            }
        });
    }
    Some(gone)
}

fn names(body: &[u8], rows: u32, row: u32) -> bool {
    note::decode(body, rows).is_ok_and(|runs| runs.iter().any(|run| run.contains(row)))
}

/// Is a note at the place that a slot names which is not gone for good, or is it not known what the slot names?
pub(super) fn is_used(table: Table<'_>, chunk: u64, slot: &[u8; SLOT_BYTES]) -> bool {
    match note::named(chunk, slot) {
        Ok(None) => false,
        Ok(Some(place)) => {
            let mut is_used = false;
            // SAFETY: the table is open.
            unsafe {
                visit(table, chunk, &[place], |item, _, _| {
                    is_used = writer(&item) != Writer::Aborted;
                });
            }
            is_used
        }
        Err(_) => true,
    }
}

/// Slots of a header that a new note may be written to, by their numbers, as they are now, but for the last one
/// (`next_header`): `wanted` of the empty ones, and some more that are there, or, where these are fewer, also those of notes that nobody will ever see, for
/// which all notes have to be looked at.
pub fn free_slots(table: Table<'_>, chunk: u64, slots: &[u8], wanted: usize) -> Vec<usize> {
    /// For others who are faster.
    const SPARE: usize = 16;
    let count = slots.len() / SLOT_BYTES;
    let all = 0..count.saturating_sub(1);
    let bytes = |at: &usize| {
        let start = at * SLOT_BYTES;
        &slots[start..start + SLOT_BYTES]
    };
    let is_empty = |at: &usize| bytes(at).iter().fold(0, |any, byte| any | byte) == 0;
    let empty: Vec<usize> = all.clone().filter(is_empty).take(wanted + SPARE).collect();
    if empty.len() >= wanted {
        return empty;
    }
    let mut free: Vec<usize> = all.collect();
    let named = |at: &usize| note::named(chunk, bytes(at));
    let places = note::all_named(chunk, slots).unwrap_or_default();
    let mut used = Vec::new();
    // SAFETY: the table is open.
    unsafe {
        visit(table, chunk, &places, |item, _, _| {
            if writer(&item) != Writer::Aborted {
                used.push(item.tid);
            }
        });
    }
    // One that cannot be read is not free.
    free.retain(|at| match named(at) {
        Ok(place) => place.is_none_or(|place| !used.contains(&place)),
        Err(_) => false,
    });
    free
}
