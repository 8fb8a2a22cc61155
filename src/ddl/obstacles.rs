//! Tables whose rows will stay uncompressed are named when that comes about, with the reason and what to do: when a table is made or
//! becomes a varve table, gets a key, or loses its series index. What compact would say later is said at once.

use super::auto_index::seen::Seen;
use super::auto_index::statement;
use crate::catalog::layout;
use crate::compact::obstacle;
use crate::ddl::auto_index::existing;
use crate::pg::lock_mode::LockMode;
use crate::pg::relation::OpenIndex;
use crate::pg::relation_lookup;
use pgrx::pg_sys;
use pgrx::pg_sys::AlterTableType;
use std::collections::BTreeSet;

/// The tables that a statement has made, or changed in a way that may keep their rows uncompressed.
///
/// # Safety
/// `statement` must be null or a statement's parse tree.
pub unsafe fn concerned(statement: *mut pg_sys::Node, seen: &Seen) -> BTreeSet<u32> {
    // SAFETY: by contract; syscache look-ups of any OID.
    unsafe {
        let mut tables: BTreeSet<u32> = seen
            .tables()
            .chain(seen.bereft.iter().copied())
            .chain(statement::converted(statement))
            .map(|table| table.to_u32())
            .collect();
        // Indexes that a new type makes anew are those that were there.
        if statement::commands(statement, AlterTableType::AT_AlterColumnType).is_empty() {
            let keys = seen.indexes().into_iter().filter(|&index| is_key(index));
            tables.extend(keys.map(|key| pg_sys::IndexGetRelation(key, true).to_u32()));
        }
        let concurrently = statement::indexed_concurrently(statement);
        let key = concurrently.filter(|_| (*statement.cast::<pg_sys::IndexStmt>()).unique);
        tables.extend(key.map(|table| table.to_u32()));
        tables
    }
}

/// Names the obstacles of tables. Temporary ones are nobody's concern.
pub fn tell(tables: BTreeSet<u32>) {
    for table in tables {
        if let Some(open) = existing::open_varve(pg_sys::Oid::from(table)) {
            // One that is about to go is told of when it has gone.
            if !open.rel().is_temporary() && !layout::loses_unique_index(open.rel()) {
                obstacle::tell(open.rel());
            }
        }
    }
}

/// Does the index keep two rows apart?
fn is_key(index: pg_sys::Oid) -> bool {
    let index = OpenIndex::open(index, LockMode::AccessShare);
    let form = index.rel().form();
    relation_lookup::access_method(index.rel().oid()) != Some(layout::index_am())
        && (form.indisunique || form.indisexclusion)
}
