//! Utility statements that bring rows: the end of a COPY is told to batches. Core says of each partition when it is done with it for now,
//! and has no word for the end of all. At the end of those that drop a series index the keys that it has settled are built again, and rollups of tables that
//! a statement has emptied are emptied too.

use crate::ingest::batch;
use crate::pg::statement::Statement;
use crate::pg::transaction;
use crate::pg::utility_hook::{self, AroundUtility};
use crate::rollup::truncate;
use crate::unique::unsettled;

struct Loads;

pub fn init() {
    utility_hook::install::<Loads>();
}

impl AroundUtility for Loads {
    fn before(statement: Statement<'_>) -> bool {
        let loads = statement.is_copy_from();
        if loads {
            batch::enter_copy();
        }
        loads
    }

    fn after(loads: bool) {
        if loads {
            batch::leave_copy();
        }
        // ROLLBACK runs in a part that has failed, and has left what was noted for its own end.
        if transaction::is_sound() {
            unsettled::rebuild();
            truncate::empty_noted();
        }
    }
}
