//! Changes of compressed rows of tables that logical replication reads. Decoding knows rows only from heap
//! tuples, so the old row is put into the tail and at once deleted or updated there: that heap tuple's change
//! is logged as any other, with the old row as the replica identity asks for. The put itself is not logged
//! for decoding, and nobody ever sees it, by the choice of command ids: the tuple lives from one command to
//! the next, both of which are begun and over before any snapshot is taken.

use super::changes;
use crate::chunk::reader::Reader;
use crate::pg::heap::heap_callback;
use crate::pg::relation::Table;
use crate::pg::replication::{self, NoHotUpdate};
use crate::pg::tid::{self, Tid};
use crate::pg::transaction::{self, Access, PerTransaction};
use pgrx::pg_sys;

/// Longer tuples are toasted, and their TOAST tuples need a command of their own to be deleted.
const TOAST_THRESHOLD_BYTES: u32 = 2032;

#[derive(Default)]
struct State {
    /// The statement that changed rows last, and the command in which its old rows are put into tails.
    put: Option<(pg_sys::CommandId, pg_sys::CommandId)>,
    /// Statements and tables that were asked about, and the answer.
    known: Vec<(pg_sys::CommandId, pg_sys::Oid, bool)>,
}

thread_local! {
    static STATE: PerTransaction<State> = PerTransaction::default();
}

/// Must changes that the statement `command` makes to compressed rows of the table be logged for decoding?
pub fn is_streamed(table: Table<'_>, command: pg_sys::CommandId) -> bool {
    let oid = table.oid();
    let known = STATE.with_borrow(|state| {
        let fits = |known: &&(_, _, _)| (known.0, known.1) == (command, oid);
        state.known.iter().find(fits).map(|known| known.2)
    });
    known.unwrap_or_else(|| {
        // The answer is good for a transaction that has an id.
        transaction::id();
        let answer = replication::is_streamed(table);
        STATE.with_borrow_mut(|state| {
            state.known.retain(|known| known.0 == command);
            state.known.push((command, oid, answer));
        });
        answer
    })
}

/// The command in which old rows of `statement` are put into tails; the next one takes them out.
fn put_command(statement: pg_sys::CommandId) -> pg_sys::CommandId {
    let known = STATE.with_borrow(|state| state.put.filter(|put| put.0 == statement));
    if let Some((_, put)) = known {
        return put;
    }
    let put = {
        let put = transaction::command(true);
        transaction::next_command();
        transaction::command(true);
        transaction::next_command();
        put
    };
    STATE.with_borrow_mut(|state| state.put = Some((statement, put)));
    put
}

/// Puts a compressed row into the tail; returns its TID there.
unsafe fn put(
    table: Table<'_>,
    reader: &Reader,
    row: u32,
    command: pg_sys::CommandId,
) -> pg_sys::ItemPointerData {
    // SAFETY: the callers' contract; the tuple is ours.
    unsafe {
        let descriptor = table.descriptor();
        let natts = descriptor.len();
        let mut values = vec![pg_sys::Datum::from(0usize); natts];
        let mut nulls = vec![true; natts];
        let (to, null) = (values.as_mut_ptr(), nulls.as_mut_ptr());
        reader.fill(descriptor, row, 0..natts, to, null);
        let tuple =
            pg_sys::heap_form_tuple(descriptor.as_ptr(), values.as_mut_ptr(), nulls.as_mut_ptr());
        (*tuple).t_tableOid = table.oid();
        let options = pg_sys::HEAP_INSERT_NO_LOGICAL as i32;
        pg_sys::heap_insert(
            table.as_ptr(),
            tuple,
            command,
            options,
            core::ptr::null_mut(),
        );
        // Nobody has inserted a row.
        pg_sys::pgstat_count_heap_insert(table.as_ptr(), -1);
        if (*tuple).t_len > TOAST_THRESHOLD_BYTES {
            transaction::next_command();
        }
        let at = (*tuple).t_self;
        pg_sys::heap_freetuple(tuple);
        at
    }
}

/// Deletes a compressed row whose chunk is locked, and logs that.
///
/// # Safety
/// `table` must be open for writing, and `reader` show the newest version of the chunk.
pub unsafe fn delete(
    table: Table<'_>,
    reader: &Reader,
    row: u32,
    statement: pg_sys::CommandId,
    successor: Option<Tid>,
) {
    let first = put_command(statement);
    // SAFETY: by contract.
    unsafe {
        let mut at = put(table, reader, row, first);
        let mut failure = pg_sys::TM_FailureData::default();
        let result = pg_sys::heap_delete(
            table.as_ptr(),
            &mut at,
            first + 1,
            core::ptr::null_mut(),
            true,
            &mut failure,
            successor.is_some(),
        );
        assert!(
            result == pg_sys::TM_Result::TM_Ok,
            "BUG: an old row in the tail cannot be deleted ({result})"
        );
    }
    changes::record(&reader.chunk, row, statement, first + 1, successor);
}

/// Updates a compressed row whose chunk is locked, and logs that. The new version is the slot's, which
/// gets its TID; it needs entries in all indexes.
///
/// # Safety
/// As `delete`; `slot` must hold a row of the table.
pub unsafe fn update(
    table: Table<'_>,
    reader: &Reader,
    row: u32,
    statement: pg_sys::CommandId,
    slot: *mut pg_sys::TupleTableSlot,
) {
    let first = put_command(statement);
    // SAFETY: by contract.
    let next = unsafe {
        let mut at = put(table, reader, row, first);
        let _guard = NoHotUpdate::begin(table);
        let mut failure = pg_sys::TM_FailureData::default();
        let mut mode = pg_sys::LockTupleMode::LockTupleExclusive;
        let mut update_indexes = Default::default();
        let none = core::ptr::null_mut();
        let result = heap_callback!(
            tuple_update,
            table.as_ptr(),
            &mut at,
            slot,
            first + 1,
            none,
            none,
            true,
            &mut failure,
            &mut mode,
            &mut update_indexes,
        );
        assert!(
            result == pg_sys::TM_Result::TM_Ok,
            "BUG: an old row in the tail cannot be updated ({result})"
        );
        tid::from_pg(&(*slot).tts_tid)
    };
    changes::record(&reader.chunk, row, statement, first + 1, Some(next));
}
