//! A key brings a series index along: its *automatic index* (docs/design/0007). When a key with a time column comes into being on a
//! varve table, and no series index finds its rows in chunks, one is made, which goes away with the key. So does a btree of keys and time,
//! on a table that has no series index; that one stays when the btree goes.
//!
//! An object access hook sees keys come (`seen`), whatever statement makes them; an event trigger at the end of the statement
//! makes the index (`make`) of the columns that it takes (`columns`), and ties it to its key (`dependency`). CREATE INDEX asks whether
//! the index that somebody wants is an automatic index that is there (`adopt`), ALTER TABLE whether one is in the way (`retype`).

pub mod adopt;
pub mod dependency;
pub mod existing;
pub mod make;
pub mod retype;
pub mod seen;
pub mod statement;

pub use adopt::adopt;

use crate::catalog::access_method;
use crate::catalog::{index_options, layout};
use crate::ddl::obstacles;
use crate::pg::event_trigger;
use crate::pg::fcinfo::{guarded, sql_function};
use crate::pg::lock_mode::LockMode;
use crate::pg::open::OpenIndex;
use crate::pg::relation::Table;
use crate::pg::relation_lookup;
use crate::pg::statement::{Kind, Statement};
use crate::pg::transaction;
use crate::pg::{Datum, Oid};
use crate::unique::unsettled;
use existing::{auto_indexes, open_table, open_varve};
use seen::Seen;
use std::collections::BTreeMap;

/// Which indexes of a table have to be looked at for keys. Its automatic indexes are tied in any case.
enum Keys {
    All,
    These(Vec<Oid>),
}

sql_function! {
    /// `varve.after_ddl() → event_trigger`, at ddl_command_end.
    fn varve_after_ddl(call) {
        guarded(|| {
            // SAFETY: the call runs.
            after(unsafe { event_trigger::statement(call) });
            Datum::from(0usize)
        })
    }
}

fn after(statement: Option<Statement<'_>>) {
    // LIKE copies what nobody has asked for.
    let is_copy = matches!(statement.map(Statement::kind), Some(Kind::CreateTable));
    let seen = seen::take();
    let mut made = obstacles::concerned(statement, &seen);
    for (table, keys) in concerned(statement, seen) {
        settle(Oid::from(table), keys, is_copy);
    }
    unsettled::rebuild();
    if let Some((_, table)) = statement::indexed_concurrently(statement) {
        // Who is told how to make a series index knows what for.
        if make::advise(table) {
            made.remove(&table.to_u32());
        }
    }
    if !transaction::is_binary_upgrade() {
        obstacles::tell(made);
    }
}

/// What has to be done before a statement: automatic indexes make way for types that no series index takes, and those that pg_upgrade
/// brought, which has no event triggers, are tied to the keys that may be dropped.
pub fn before(statement: Statement<'_>) {
    retype::make_way(statement);
    for table in statement::stripped(statement) {
        if let Some(open) = open_varve(table) {
            dependency::record_all(open.rel());
        }
    }
}

/// The tables whose indexes a statement has changed.
fn concerned(statement: Option<Statement<'_>>, seen: Seen) -> BTreeMap<u32, Keys> {
    let mut tables = BTreeMap::new();
    let none = || Keys::These(Vec::new());
    for table in statement::reattached(statement) {
        tables.insert(table.to_u32(), none());
    }
    for index in seen.indexes() {
        let Some(table) = relation_lookup::table_of_index(index) else {
            continue;
        };
        if let Keys::These(keys) = tables.entry(table.to_u32()).or_insert_with(none) {
            keys.push(index);
        }
    }
    // A series index that is dropped on its own is not wanted any more.
    let is_drop = statement::is_drop(statement);
    let bereft = seen.bereft.into_iter().filter(|_| !is_drop);
    for table in bereft.chain(statement::converted(statement)) {
        tables.insert(table.to_u32(), Keys::All);
    }
    tables
}

/// Ties the automatic indexes of a table to their keys, drops those that are not needed, and makes one for each of the keys that needs
/// one. On a table that is not, or no longer, a varve table there are none, unless somebody has made them by name: a dump, or a tool
/// that copies definitions.
fn settle(table: Oid, keys: Keys, is_copy: bool) {
    // The table and its indexes are open with a lock while they are looked at, and no longer: core insists that nobody uses what it
    // changes.
    let Some(open) = open_table(table) else {
        return;
    };
    let is_varve = access_method::is_varve(open.rel());
    let lost: Vec<_> = auto_indexes(open.rel())
        .iter()
        .filter(|auto_index| {
            if is_varve {
                is_replaced(open.rel(), auto_index)
            } else {
                is_copy || matches!(keys, Keys::All)
            }
        })
        .map(|auto_index| auto_index.rel().oid())
        .collect();
    if is_varve {
        dependency::record_all(open.rel());
    }
    let unique = match keys {
        _ if !is_varve => Vec::new(),
        Keys::All => open.rel().index_oids(),
        Keys::These(unique) => unique,
    };
    drop(open);
    for auto_index in lost {
        make::unmake(auto_index);
    }
    // pg_upgrade brings all indexes from where they are.
    if !transaction::is_binary_upgrade() {
        let (keys, others): (Vec<_>, Vec<_>) = unique.into_iter().partition(|&oid| is_unique(oid));
        for &key in keys.iter().chain(&others) {
            make::auto_index(table, key);
        }
        if !keys.is_empty() {
            drop_replaced(table);
        }
    }
}

/// Is it a unique btree? One that was noted may have gone since.
fn is_unique(index: Oid) -> bool {
    relation_lookup::is_btree(index) && {
        let index = OpenIndex::open(index, LockMode::AccessShare);
        index.rel().form().indisunique
    }
}

/// Drops automatic indexes of ordinary indexes where a key has brought its own.
fn drop_replaced(table: Oid) {
    // Nothing is open when indexes are dropped.
    let replaced: Vec<_> = match open_varve(table) {
        Some(open) => auto_indexes(open.rel())
            .iter()
            .filter(|auto_index| is_replaced(open.rel(), auto_index))
            .map(|auto_index| auto_index.rel().oid())
            .collect(),
        None => Vec::new(),
    };
    for auto_index in replaced {
        make::unmake(auto_index);
    }
}

/// Is there a series index that somebody has asked for, for each key that an automatic index serves, or any other one where it serves an ordinary
/// index only?
fn is_replaced(table: Table<'_>, auto_index: &OpenIndex) -> bool {
    let mut own = layout::series_indexes(table);
    own.retain(|index| !index_options::is_of_key(index.rel()));
    let mut keys: Vec<OpenIndex> = table
        .index_oids()
        .into_iter()
        .map(|oid| OpenIndex::open(oid, LockMode::AccessShare))
        .collect();
    let serves = |series: &[OpenIndex], key: &OpenIndex| {
        layout::series_index_of_key(key.rel(), series).is_some()
    };
    let columns = layout::index_columns(auto_index.rel());
    let is_of_ordinary = keys.iter().any(|index| {
        crate::catalog::auto_index_columns::of_ordinary(table, index.rel()).as_ref()
            == Some(&columns)
    });
    keys.retain(|key| serves(core::slice::from_ref(auto_index), key));
    match keys.is_empty() {
        true => is_of_ordinary && layout::series_indexes(table).len() > 1,
        false => keys.iter().all(|key| serves(&own, key)),
    }
}
