//! Core's hook for what happens to objects, and who wants to know of it: keys and indexes that come or go, tables that are dropped,
//! and partitions of sources of rollups, or such sources that are emptied.

use super::{auto_index::seen, dropped};
use crate::functions::rollup::partitions;
use crate::pg::object_access::{self, Event};
use crate::rollup::truncate;
use crate::unique::unsettled;

pub fn init() {
    object_access::init(show);
}

fn show(event: Event) {
    seen::note(event);
    // SAFETY: told by the hook: who changes a relation so has locked it.
    unsafe {
        match event {
            Event::RelationDropped {
                relation,
                concurrently,
            } => {
                unsettled::before_drop(relation, concurrently);
                dropped::drop_marker(relation);
                partitions::dropped(relation);
            }
            Event::InheritanceChanged {
                table,
                parent: Some(parent),
            } => partitions::inheritance(table, parent),
            Event::Truncated(table) => truncate::note(table),
            _ => {}
        }
    }
}
