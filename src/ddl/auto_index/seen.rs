//! What has happened to indexes since the last statement that was looked at. The hook notes OIDs: what they are of cannot be
//! asked yet when it is called. Of a transaction, or a subtransaction, that was rolled back nothing exists any more.

use crate::catalog::layout;
use crate::pg::object_access::Event;
use crate::pg::relation_lookup;
use crate::pg::transaction::{Access, PerTransaction};
use crate::pg::Oid;

#[derive(Default)]
pub struct Seen {
    relations: Vec<Oid>,
    constraints: Vec<Oid>,
    /// Tables that have lost a series index.
    pub bereft: Vec<Oid>,
}

impl Seen {
    /// The indexes that were made, or made constraints, and exist.
    pub fn indexes(&self) -> Vec<Oid> {
        let mut found = self.relations.clone();
        let of_keys = self.constraints.iter();
        found.extend(of_keys.filter_map(|&oid| relation_lookup::index_of_constraint(oid)));
        found.retain(|&oid| relation_lookup::table_of_index(oid).is_some());
        found
    }

    /// The tables that were made, and exist.
    pub fn tables(&self) -> impl Iterator<Item = Oid> + '_ {
        let relations = self.relations.iter().copied();
        relations.filter(|&oid| relation_lookup::has_rows(oid))
    }
}

thread_local! {
    static SEEN: PerTransaction<Seen> = PerTransaction::default();
}

pub fn take() -> Seen {
    SEEN.replace(Seen::default())
}

/// Notes what may concern indexes.
pub fn note(event: Event) {
    SEEN.with_borrow_mut(|seen| match event {
        Event::RelationMade(relation) => seen.relations.push(relation),
        Event::ConstraintMade(constraint) => seen.constraints.push(constraint),
        // What is being dropped is still there.
        Event::RelationDropped { relation, .. } => {
            if relation_lookup::access_method(relation) == Some(layout::index_am()) {
                seen.bereft
                    .extend(relation_lookup::table_of_index(relation));
            }
        }
        Event::InheritanceChanged { .. } | Event::Truncated(_) => {}
    });
}
