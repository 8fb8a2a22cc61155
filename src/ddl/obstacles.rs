//! Tables whose rows will stay uncompressed are named when that comes about, with the reason and what to do: when a table is made or
//! becomes a varve table, gets a key, or loses its series index. What compact would say later is said at once.

use super::auto_index::seen::Seen;
use super::auto_index::statement;
use crate::catalog::layout;
use crate::compact::obstacle;
use crate::ddl::auto_index::existing;
use crate::pg::lock_mode::LockMode;
use crate::pg::open::OpenIndex;
use crate::pg::relation_lookup;
use crate::pg::statement::Statement;
use crate::pg::Oid;
use std::collections::BTreeSet;

/// The tables that a statement has made, or changed in a way that may keep their rows uncompressed.
pub fn concerned(statement: Option<Statement<'_>>, seen: &Seen) -> BTreeSet<u32> {
    let mut tables: BTreeSet<u32> = seen
        .tables()
        .chain(seen.bereft.iter().copied())
        .chain(statement::converted(statement))
        .map(|table| table.to_u32())
        .collect();
    // Indexes that a new type makes anew are those that were there.
    if statement::retyped(statement).is_empty() {
        let keys = seen.indexes().into_iter().filter(|&index| is_key(index));
        let keyed = keys.filter_map(relation_lookup::table_of_index);
        tables.extend(keyed.map(|table| table.to_u32()));
    }
    let concurrently = statement::indexed_concurrently(statement);
    let key = concurrently.filter(|(index, _)| index.is_unique());
    tables.extend(key.map(|(_, table)| table.to_u32()));
    tables
}

/// Names the obstacles of tables. Temporary ones are nobody's concern.
pub fn tell(tables: BTreeSet<u32>) {
    for table in tables {
        if let Some(open) = existing::open_varve(Oid::from(table)) {
            // One that is about to go is told of when it has gone.
            if !open.rel().is_temporary() && !layout::loses_unique_index(open.rel()) {
                obstacle::tell(open.rel());
            }
        }
    }
}

/// Does the index keep two rows apart?
fn is_key(index: Oid) -> bool {
    let index = OpenIndex::open(index, LockMode::AccessShare);
    let form = index.rel().form();
    relation_lookup::access_method(index.rel().oid()) != Some(layout::index_am())
        && (form.indisunique || form.indisexclusion)
}
