//! Safe and thin wrappers around what pgrx lacks: heap tuples, pages, relations, snapshots, memory
//! contexts and errors. Nearly all unsafe code of the extension lives here or at C entry points.

pub mod activity;
pub mod background;
pub mod bare;
pub mod catalog_scan;
pub mod catalog_write;
pub mod catalogs;
pub mod citus;
pub mod clock;
pub mod composite;
pub mod constraint;
pub mod custom_scan;
pub mod databases;
pub mod departure;
pub mod dependencies;
pub mod descriptor;
pub mod equality;
pub mod error;
pub mod event_trigger;
pub mod executor;
pub mod expression_context;
pub mod fcinfo;
pub mod file_end;
pub mod free_space;
pub mod heap;
pub mod horizon;
pub mod image;
pub mod index_rebuild;
pub mod key_share;
mod leaf_descent;
pub mod leaf_probe;
pub mod leaf_range;
pub mod leaf_walk;
pub mod leaves;
pub mod lock_mode;
pub mod lock_tags;
pub mod memory;
pub mod names;
pub mod nbtree;
pub mod news;
pub mod node;
pub mod object_access;
pub mod owner;
pub mod page;
pub mod page_patch;
pub mod parallel_scan;
pub mod partitions;
pub mod places;
pub mod plain_entries;
pub mod plan_functions;
pub mod random;
pub mod relation;
pub mod relation_lookup;
pub mod replication;
pub mod rights;
pub mod rounds;
pub mod row_slot;
pub mod row_sort;
pub mod scan_key;
pub mod security_label;
pub mod slot;
pub mod snapshot;
pub mod sql;
pub mod statement;
pub mod storage_parameters;
pub mod table_fetch;
pub mod tid;
pub mod time_zone;
pub mod transaction;
pub mod tuple;
pub mod types;
pub mod unbound;
pub mod vacuum;
pub mod value_layout;
pub mod varlena;
pub mod visibility_map;
pub mod wait;
pub mod wake;

/// Values without any pointer that this code follows: safe as they are (0026 says which leave `pg` so).
pub use pgrx::pg_sys::{
    Buffer, CommandId, Datum, FormData_pg_attribute, Interval, InvalidOid, ItemPointerData,
    NullableDatum, Oid, SubTransactionId, TM_Result, TransactionId, BLCKSZ, INDEX_MAX_KEYS,
};
