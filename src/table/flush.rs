//! Changes of compressed rows leave memory: at the end of a statement, of the transaction, or before the table gets another file, as notes or new headers
//! (docs/design/0036).

use super::changes::{
    any_unwritten, is_foreign, uses_one_snapshot, Key, Newest, Touched, Written, STATE,
};
use super::next_version;
use super::publish::{self, Published, Terms};
use super::unwritten::Unwritten;
use super::{handover, locks};
use crate::chunk::chunk_cache;
use crate::pg::error::{self, Code};
use crate::pg::heap;
use crate::pg::lock_mode::LockMode;
use crate::pg::open::Open;
use crate::pg::relation::Table;
use crate::pg::snapshot::{self, Snapshot};
use crate::pg::tid::Tid;
use crate::pg::transaction::{self, Access};
use crate::pg::SubTransactionId;
use std::cell::RefCell;
use std::rc::Rc;
use varve_columns::tuple::header::BODY_BYTES;
use varve_columns::tuple::note::{self, Run};

/// Rows of all chunks from which on the end of a statement writes them all.
const MOST_ROWS: usize = 1 << 20;

/// Of a chunk that is locked as a whole, a note of so many bytes is less than a new header with its entries in indexes.
const SHORT_NOTE_BYTES: usize = 256;

/// At the end of a statement: writes what the current subtransaction has changed of chunks of which that is much, a note or a new header
/// version for each. Few changes stay in memory, since each version is one more for later statements to pass by. So do those of
/// outer subtransactions, since what is written now may be rolled back alone, those of chunks of which the transaction sees an
/// earlier version, and of which it has locked single rows. `is_over`: the statement reads no more.
/// A cursor that has been run may do so: then nothing is written yet, unless that is very much.
pub fn after_statement(is_over: bool) {
    let (is_any_ripe, are_most) =
        STATE.with_borrow(|state| (!state.ripe.is_empty(), state.rows >= MOST_ROWS));
    if !(are_most || is_any_ripe && is_over) {
        return;
    }
    let ripe = STATE.with_borrow_mut(|state| {
        let mut ripe = core::mem::take(&mut state.ripe);
        ripe.retain(|key| {
            let Some(touched) = state.touched.get_mut(key) else {
                return false;
            };
            touched.is_listed = false;
            touched.is_ripe()
        });
        ripe
    });
    let ripe = if are_most {
        chunks_where(|_, touched| !touched.foreign && touched.is_whole())
    } else {
        ripe
    };
    if !ripe.is_empty() {
        let has_cursors = !is_over || snapshot::any_is_prior();
        write_chunks(ripe, When::Before { has_cursors });
    }
}

/// Writes everything before the transaction commits, or is prepared: nothing is read after this.
pub fn finally(prepares: bool) {
    if any_unwritten() {
        write_chunks(chunks_where(|_, _| true), When::AtEnd { prepares });
    }
}

/// Writes all changes of a table that is about to get another file. What is changed of other tables stays in memory, over the versions that this
/// transaction may go on reading.
///
/// # Safety
/// `table` must be open and locked exclusively.
pub unsafe fn before_rewrite(table: Table<'_>) {
    if !any_unwritten() {
        return;
    }
    let oid = table.oid();
    let work = chunks_where(|key, _| key.table == oid);
    if uses_one_snapshot() {
        for &key in &work {
            check_is_own(table, key);
        }
    }
    let has_cursors = snapshot::any_is_prior();
    write_chunks(work, When::Before { has_cursors });
    let is_left = STATE.with_borrow(|state| {
        let of_table = |(key, touched): (&Key, &Touched)| {
            key.table == oid && touched.unwritten.borrow().count() > 0
        };
        state.touched.iter().any(of_table)
    });
    if is_left {
        error::raise(
            Code::ERRCODE_OBJECT_IN_USE,
            "cannot rewrite a table with changes of an outer subtransaction",
            "They can be written only when that subtransaction is the current one.",
            "Release the savepoint first.",
        )
    }
}

/// When changes are written.
#[derive(Clone, Copy)]
enum When {
    /// The transaction may read them, and by older snapshots where it has cursors.
    Before {
        has_cursors: bool,
    },
    AtEnd {
        prepares: bool,
    },
}

/// Raises a serialization failure where the changes of a chunk would be written over a version that the transaction's snapshot does not see: it goes on
/// seeing an earlier one, and would see ours beside that. Nobody else can write the chunk.
fn check_is_own(table: Table<'_>, key: Key) {
    let found = STATE.with_borrow(|state| {
        let touched = state.touched.get(&key)?;
        let is_there =
            touched.file == table.file_number() && touched.unwritten.borrow().count() > 0;
        match touched.newest() {
            Newest::At(tid) if is_there => Some((tid, touched.is_whole(), touched.foreign)),
            _ => None,
        }
    });
    let Some((tid, is_whole, foreign)) = found else {
        return;
    };
    // Who has locked single rows does not know who has replaced the header since.
    let newest = match is_whole {
        true => Some(tid),
        false => locks::lock_to_write(table, key.chunk, tid),
    };
    // SAFETY: the table is open.
    let reader =
        newest.and_then(|at| unsafe { chunk_cache::reader_at(table, at, Snapshot::any()) });
    if foreign || reader.is_some_and(|reader| is_foreign(&reader.chunk)) {
        error::raise(
            Code::ERRCODE_T_R_SERIALIZATION_FAILURE,
            "could not serialize access due to concurrent update",
            "Rows that this transaction has changed are in chunks that others have changed after its snapshot was taken.",
            "Retry the transaction.",
        )
    }
}

fn chunks_where(wanted: impl Fn(&Key, &Touched) -> bool) -> Vec<Key> {
    STATE.with_borrow(|state| {
        let touched = state.touched.iter();
        let wanted = touched.filter(|(key, touched)| wanted(key, touched));
        wanted.map(|(key, _)| *key).collect()
    })
}

/// Writes what the current subtransaction has changed of chunks.
fn write_chunks(mut work: Vec<Key>, when: When) {
    let sub = transaction::part();
    STATE.with_borrow(|state| {
        work.retain(|key| {
            let touched = &state.touched[key];
            touched.newest() != Newest::Gone && touched.unwritten.borrow().has_of(sub)
        });
    });
    // All transactions lock headers to write in this order.
    work.sort_unstable_by_key(|key| (key.table.to_u32(), key.chunk));
    work.dedup();
    for key in work {
        error::check_interrupts();
        write_chunk(key, sub, when);
    }
}

/// Writes what a subtransaction has changed of a chunk.
fn write_chunk(key: Key, sub: SubTransactionId, when: When) {
    let (changed, before, file, newest, (is_whole, is_replaced)) = STATE.with_borrow_mut(|state| {
        let touched = state
            .touched
            .get_mut(&key)
            .expect("BUG: a chunk was forgotten");
        let changed = touched.unwritten.borrow().runs_of(sub);
        let rest = touched.unwritten.borrow().without(sub);
        let rest = Rc::new(RefCell::new(rest));
        // Scans that have opened the chunk keep what they share.
        let before = core::mem::replace(&mut touched.unwritten, rest);
        if let Some(level) = touched.subs.last_mut().filter(|level| level.sub == sub) {
            level.unwritten = 0;
        }
        state.rows -= note::count(&changed) as usize;
        (
            changed,
            before,
            touched.file,
            touched.newest(),
            (touched.is_whole(), !touched.versions.is_empty()),
        )
    });
    let Some(table) = Open::existing_table(key.table, LockMode::RowExclusive) else {
        return; // Dropped since.
    };
    if table.rel().file_number() != file {
        return; // Rewritten or truncated since: the rows are gone with the file.
    }
    let Newest::At(mut tid) = newest else {
        return;
    };
    let mut is_locked = is_whole;
    let terms = match (is_whole, when) {
        (false, When::AtEnd { prepares }) => Some((prepares, BODY_BYTES)),
        (true, When::AtEnd { prepares }) if !is_replaced => Some((prepares, SHORT_NOTE_BYTES)),
        (true, When::Before { has_cursors: false }) if !is_replaced => {
            Some((false, SHORT_NOTE_BYTES))
        }
        _ => None,
    };
    if let Some((prepares, most_bytes)) = terms {
        let terms = Terms {
            prepares,
            most_bytes,
        };
        // SAFETY: the table is open for writing; the transaction is about to end, or has the chunk to itself.
        match unsafe { publish::publish(table.rel(), tid, key.chunk, &changed, terms) } {
            Published::Done => {
                STATE.with_borrow_mut(|state| {
                    if let Some(touched) = state.touched.get_mut(&key) {
                        touched.noted.get_or_insert(sub);
                    }
                });
                if !is_whole {
                    handover::hand_over(table.rel(), key.chunk);
                }
                return heap::count_deleted(table.rel(), note::count(&changed) as usize);
            }
            Published::No(None) => {}
            Published::No(Some(at)) => (tid, is_locked) = (at, true),
        }
    }
    if !is_locked {
        tid = locks::lock_to_write(table.rel(), key.chunk, tid)
            .expect("BUG: a chunk with locked rows is gone");
    }
    let has_cursors = match when {
        When::Before { has_cursors } => has_cursors,
        When::AtEnd { .. } => snapshot::any_is_prior(),
    };
    let laid_over = has_cursors.then_some(before);
    write_changes(key, &table, tid, &changed, laid_over, when);
    if !is_whole {
        handover::hand_over(table.rel(), key.chunk);
    }
}

fn write_changes(
    key: Key,
    table: &Open,
    tid: Tid,
    changed: &[Run],
    laid_over: Option<Rc<RefCell<Unwritten>>>,
    when: When,
) {
    // SAFETY: the table is open.
    let reader = unsafe {
        match when {
            // The transaction reads on by a snapshot that may not show all notes.
            When::Before { .. } if uses_one_snapshot() => {
                chunk_cache::reader_to_replace(table.rel(), tid, snapshot::of_transaction())
            }
            _ => {
                let any = Snapshot::any();
                chunk_cache::reader_at(table.rel(), tid, any)
            }
        }
    };
    let reader = reader.filter(|reader| reader.chunk.header.chunk == key.chunk);
    let reader = reader.expect("BUG: a locked header is gone");
    let next = next_version::write(table, &reader, changed);
    let newest = next.map_or(Newest::Gone, Newest::At);
    heap::count_deleted(table.rel(), note::count(changed) as usize);
    STATE.with_borrow_mut(|state| {
        let sub = state.enter(key);
        if let Some(touched) = state.touched.get_mut(&key) {
            touched.versions.push(Written {
                sub,
                newest,
                replaced: tid,
                laid_over,
            });
            // What we inserted ourselves nobody else can lock before we end.
            touched.locked.get_or_insert(sub);
        }
    });
}
