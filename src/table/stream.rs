//! Changes of compressed rows of tables that logical replication reads. Decoding knows rows only from heap
//! tuples, so the old row is put into the tail and at once deleted or updated there: that heap tuple's change
//! is logged as any other, with the old row as the replica identity asks for. The put itself is not logged
//! for decoding, and nobody ever sees it, by the choice of command ids: the tuple lives from one command to
//! the next, both of which are begun and over before any snapshot is taken.

use super::changes;
use crate::chunk::reader::Reader;
use crate::pg::activity;
use crate::pg::heap;
use crate::pg::relation::Table;
use crate::pg::replication::{self, NoHotUpdate};
use crate::pg::row_slot::RowSlot;
use crate::pg::tid::Tid;
use crate::pg::transaction::{self, Access, PerTransaction};
use crate::pg::tuple::Formed;
use crate::pg::{CommandId, Datum, Oid, TM_Result};

/// Longer tuples are toasted, and their TOAST tuples need a command of their own to be deleted.
const TOAST_THRESHOLD_BYTES: u32 = 2032;

#[derive(Default)]
struct State {
    /// The statement that changed rows last, and the command in which its old rows are put into tails.
    put: Option<(CommandId, CommandId)>,
    /// Statements and tables that were asked about, and the answer.
    known: Vec<(CommandId, Oid, bool)>,
}

thread_local! {
    static STATE: PerTransaction<State> = PerTransaction::default();
}

/// Must changes that the statement `command` makes to compressed rows of the table be logged for decoding?
pub fn is_streamed(table: Table<'_>, command: CommandId) -> bool {
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
fn put_command(statement: CommandId) -> CommandId {
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
///
/// # Safety
/// `table` must be open for writing, and `reader` be of a chunk of it that has the row.
unsafe fn put(table: Table<'_>, reader: &Reader, row: u32, command: CommandId) -> Tid {
    let descriptor = table.descriptor();
    let natts = descriptor.len();
    let mut values = vec![Datum::null(); natts];
    let mut nulls = vec![true; natts];
    // SAFETY: the row is one of the chunk's, which has the table's columns; there is a place for each.
    let tuple = unsafe {
        let (to, null) = (values.as_mut_ptr(), nulls.as_mut_ptr());
        reader.fill(descriptor, row, 0..natts, to, null);
        Formed::new(descriptor, &mut values, &mut nulls)
    };
    // SAFETY: the table is open for writing, and the tuple has its columns.
    let at = unsafe { heap::insert(table, &tuple, command, heap::UNSEEN) };
    // Nobody has inserted a row.
    activity::count_inserts(table, -1);
    if tuple.bytes() > TOAST_THRESHOLD_BYTES {
        transaction::next_command();
    }
    at
}

/// Deletes a compressed row whose chunk is locked, and logs that.
///
/// # Safety
/// `table` must be open for writing, and `reader` show the newest version of the chunk.
pub unsafe fn delete(
    table: Table<'_>,
    reader: &Reader,
    row: u32,
    statement: CommandId,
    successor: Option<Tid>,
) {
    let first = put_command(statement);
    // SAFETY: the table is open for writing; nobody else sees what was put there.
    let result = unsafe {
        let at = put(table, reader, row, first);
        heap::delete(table, at, first + 1, true, successor.is_some())
    };
    assert!(
        result == TM_Result::TM_Ok,
        "BUG: an old row in the tail cannot be deleted ({result})"
    );
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
    statement: CommandId,
    slot: RowSlot,
) {
    let first = put_command(statement);
    // SAFETY: the table is open for writing, and the slot holds a row of it; nobody else sees what was put there.
    let result = unsafe {
        let at = put(table, reader, row, first);
        let _guard = NoHotUpdate::begin(table);
        heap::update(table, at, slot, first + 1)
    };
    assert!(
        result == TM_Result::TM_Ok,
        "BUG: an old row in the tail cannot be updated ({result})"
    );
    changes::record(&reader.chunk, row, statement, first + 1, Some(slot.tid()));
}
