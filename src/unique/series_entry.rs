//! Who enters a row into the series indexes that settle a key: core asks the key's index and the series index for an entry each, in the order of their
//! OIDs, and there must be one. The key's index makes it, with a look at others of the key. Whoever is asked second learns here what the first
//! one has done. That holds for a row until the next one is written (`written_row`), and in the part of the transaction that has written it.

use super::written_row;
use crate::pg::relation::Table;
use crate::pg::tid::Tid;
use crate::pg::transaction::{self, Access, PerTransaction};
use crate::pg::{Oid, SubTransactionId};
use smallvec::SmallVec;

/// The row that is being entered, in a part of the transaction.
#[derive(Clone, Copy, PartialEq)]
struct Row {
    table: Oid,
    at: Tid,
    part: SubTransactionId,
    count: u64,
}

/// What a series index has of a row.
#[derive(Clone, Copy, PartialEq)]
pub enum Entry {
    None,
    /// An entry that was made without a look at others of its key.
    Unsettled,
    Settled,
}

#[derive(Default)]
struct State {
    row: Option<Row>,
    /// Series indexes that have its entry.
    entered: SmallVec<[(Oid, Entry); 2]>,
    /// Those that have none yet, though core has asked: the key makes it.
    left: SmallVec<[Oid; 2]>,
}

thread_local! {
    static STATE: PerTransaction<State> = PerTransaction::default();
}

impl State {
    /// What is known of a row; nothing of another one than before.
    fn of(&mut self, table: Table<'_>, at: Tid) -> &mut State {
        let row = Row {
            table: table.oid(),
            at,
            part: transaction::part(),
            count: written_row::count(),
        };
        if self.row != Some(row) {
            let is_beside = |old: Row| old.part == row.part && old.count == row.count;
            let was_left = !self.left.is_empty() && self.row.is_some_and(is_beside);
            self.row = Some(row);
            self.entered.clear();
            self.left.clear();
            assert!(
                !was_left,
                "BUG: a key has not entered a row that a series index has left to it"
            );
        }
        self
    }
}

/// What a series index has of a row that is being entered.
pub fn entry(table: Table<'_>, at: Tid, series: Oid) -> Entry {
    STATE.with_borrow_mut(|state| {
        let mut entered = state.of(table, at).entered.iter();
        let found = entered.find(|(index, _)| *index == series);
        found.map_or(Entry::None, |&(_, entry)| entry)
    })
}

/// Notes what it has from now on.
pub fn note(table: Table<'_>, at: Tid, series: Oid, entry: Entry) {
    STATE.with_borrow_mut(|state| {
        let state = state.of(table, at);
        state.left.retain(|&mut left| left != series);
        state.entered.retain(|&mut (index, _)| index != series);
        state.entered.push((series, entry));
    });
}

/// The series index leaves the row to its key, which core asks for an entry after it.
pub fn leave(table: Table<'_>, at: Tid, series: Oid) {
    STATE.with_borrow_mut(|state| state.of(table, at).left.push(series));
}
