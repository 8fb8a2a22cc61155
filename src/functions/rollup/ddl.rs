//! What event triggers do for rollups, in PL/pgSQL (src/schema/60-rollups.sql). Where there are none they do not call it: a session that has loaded a language has each of its
//! parallel workers load it too.

use crate::pg::event_trigger;
use crate::pg::fcinfo::{guarded, sql_function, Fcinfo};
use crate::pg::sql;
use crate::pg::Datum;
use crate::rollup::catalog;

sql_function! {
    /// `varve.after_rollup_drop() → event_trigger`, at sql_drop.
    fn varve_after_rollup_drop(call) {
        guarded(|| with_rollups(call, "SELECT varve.drop_what_rollups_stored()"))
    }
}

sql_function! {
    /// `varve.after_source_ddl() → event_trigger`, at ddl_command_end.
    fn varve_after_source_ddl(call) {
        guarded(|| with_rollups(call, "SELECT varve.refuse_for_rollups()"))
    }
}

fn with_rollups(call: Fcinfo, statement: &str) -> Datum {
    // SAFETY: the call runs.
    unsafe { event_trigger::statement(call) };
    if catalog::is_any() {
        // SAFETY: event triggers run in a transaction; the statement has a snapshot of its own.
        unsafe { sql::execute(statement, &[]) };
    }
    Datum::from(0usize)
}
