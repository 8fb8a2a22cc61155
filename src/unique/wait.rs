//! What an inserter waits for whose key somebody else is inserting, or changing the row of.

use crate::chunk::reader::Reader;
use crate::pg::relation::Table;
use crate::pg::tid::Tid;
use crate::pg::wait;
use crate::pg::TransactionId;
use crate::table::locks;
use std::rc::Rc;

pub enum Wait {
    /// Who has announced that he changes a row of a chunk.
    Change(Rc<Reader>, u32),
    /// The end of a transaction that changes or inserts the row at a place.
    Transaction(TransactionId, Tid),
    /// A transaction's INSERT … ON CONFLICT of a row.
    Speculation(TransactionId, u32),
}

impl Wait {
    /// Waits.
    ///
    /// # Safety
    /// `table` must be open; no page is locked.
    pub unsafe fn wait(&self, table: Table<'_>) {
        // SAFETY: by contract.
        unsafe {
            match self {
                Wait::Change(reader, row) => {
                    locks::await_change(table, reader.chunk.header.chunk, *row, true);
                }
                Wait::Transaction(other, at) => {
                    wait::await_inserter(*other, table, *at);
                }
                Wait::Speculation(other, token) => {
                    wait::await_speculation(*other, *token);
                }
            }
        }
    }
}
