//! The horizon of a table: which transactions have ended for everybody who may read it.

use super::relation::Table;
use core::marker::PhantomData;
use pgrx::pg_sys;

/// A horizon that the server keeps, and looks for anew where that may help.
pub struct Horizon<'a> {
    state: *mut pg_sys::GlobalVisState,
    of: PhantomData<Table<'a>>,
}

impl<'a> Horizon<'a> {
    pub fn of(table: Table<'a>) -> Horizon<'a> {
        Horizon {
            // SAFETY: the table is open.
            state: unsafe { pg_sys::GlobalVisTestFor(table.as_ptr()) },
            of: PhantomData,
        }
    }

    /// Does nobody see any more what the transaction has deleted? The answer may be no where it is yes.
    pub fn is_behind(&self, transaction: pg_sys::TransactionId) -> bool {
        // SAFETY: the state is a variable of this process.
        unsafe { pg_sys::GlobalVisTestIsRemovableXid(self.state, transaction) }
    }
}
