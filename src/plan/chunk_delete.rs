//! Which DELETEs take rows of chunks together: those from one table, with conditions that are decided over vectors, and of which
//! nobody wants to know row by row: no RETURNING, no triggers on rows, no transition tables. Foreign keys that refer to the table are
//! such triggers. What is found out when the statement runs keeps core's way too: rollups and logical replication.

use crate::catalog::access_method;
use crate::catalog::keys;
use crate::exec::aggregate::conditions::Condition;
use crate::exec::chunk_delete::ChunkDelete;
use crate::guc;
use crate::pg::changed_table::{ChangedTable, Command};
use crate::pg::custom_scan::Private;
use crate::pg::expression::Expression;
use crate::pg::lock_mode::LockMode;
use crate::pg::open::Open;
use crate::pg::planner::Planner;
use crate::pg::relation::Table;
use crate::pg::upper_paths::ChangePath;

/// The table of a statement that is a DELETE from it, and nothing besides.
fn plain_delete(planner: Planner<'_>) -> Option<ChangedTable<'_>> {
    if planner.command() != Command::Delete || !planner.stands_alone() {
        return None;
    }
    let table = planner.changed_table()?;
    (planner.only_table() == Some(table.number)).then_some(table)
}

/// Puts the node above the scan of a DELETE, if it can be of use there. Within a guarded entry point.
pub fn offer<'a>(planner: Planner<'a>, delete: ChangePath<'a>) {
    let Some(deleted) = plain_delete(planner) else {
        return;
    };
    let source = delete.source();
    let few = source.rows() < guc::batch_rows() as f64;
    if few || !delete.counts_rows() || deleted.has_children {
        return;
    }
    // The statement has its lock.
    let table = Open::table(deleted.oid, LockMode::Held);
    if !access_method::is_varve(table.rel())
        || !keys::may_have_chunks(table.rel())
        || concerns_rows(table.rel())
    {
        return;
    }
    let read = deleted
        .read
        .expect("BUG: a DELETE that does not read its table");
    let clauses = read.restrictions().map(|condition| condition.clause);
    let clauses: Vec<Expression<'_>> = clauses.collect();
    let is_decided =
        |clause: &Expression<'_>| Condition::of(*clause).is_some() && !clause.is_volatile();
    if clauses.iter().all(is_decided) {
        let number = Private::Integers(vec![deleted.number as i32]);
        let private = [number, Private::expressions(clauses)];
        let path = planner.path_above::<ChunkDelete>(source, 0.0, &private);
        // SAFETY: the node hands on all rows of the source.
        unsafe { delete.set_source(path) };
    }
}

/// Does anybody want to know of each row that is deleted?
fn concerns_rows(table: Table<'_>) -> bool {
    table.triggers().is_some_and(|triggers| {
        triggers.trig_delete_before_row
            || triggers.trig_delete_after_row
            || triggers.trig_delete_old_table
    })
}
