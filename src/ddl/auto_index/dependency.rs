//! The dependency of an automatic index and its key: an automatic dependency on the key's index. It follows from the storage parameter
//! `of_key`, which dumps carry, and is renewed whenever indexes of the table were made or attached.

use crate::catalog::{index_options, layout};
use crate::pg::dependencies;
use crate::pg::lock_mode::LockMode;
use crate::pg::open::OpenIndex;
use crate::pg::relation::Table;
use crate::pg::transaction;

/// Ties each automatic index of a table to the first key that it serves. One that has become part of a partitioned index goes with that.
pub fn record_all(table: Table<'_>) {
    let series_am = layout::index_am();
    let all = table.index_oids().into_iter();
    let (series, others): (Vec<_>, Vec<_>) = all
        .map(|oid| OpenIndex::open(oid, LockMode::AccessShare))
        .partition(|index| index.rel().class().relam == series_am);
    if series.is_empty() {
        return;
    }
    for index in series {
        let oid = index.rel().oid();
        for other in &others {
            dependencies::remove(oid, other.rel().oid());
        }
        let is_free = !index.rel().class().relispartition;
        if is_free && index_options::is_of_key(index.rel()) {
            let index = core::slice::from_ref(&index);
            let serves = |key: &&OpenIndex| layout::series_index_of_key(key.rel(), index).is_some();
            if let Some(key) = others.iter().find(serves) {
                dependencies::record(oid, key.rel().oid());
            }
        }
    }
    transaction::next_command();
}
