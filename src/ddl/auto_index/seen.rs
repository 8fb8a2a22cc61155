//! What has happened to indexes since the last statement that was looked at. The hook notes OIDs: what they are of cannot be
//! asked yet when it is called. Of a transaction, or a subtransaction, that was rolled back nothing exists any more.

use crate::catalog::layout;
use crate::pg::relation;
use crate::pg::transaction::{Access, PerTransaction};
use pgrx::pg_sys;
use pgrx::prelude::*;

/// `pg_constraint`
const CONSTRAINTS: pg_sys::Oid = pg_sys::Oid::from_u32(2606);

#[derive(Default)]
pub struct Seen {
    relations: Vec<pg_sys::Oid>,
    constraints: Vec<pg_sys::Oid>,
    /// Tables that have lost a series index.
    pub bereft: Vec<pg_sys::Oid>,
}

impl Seen {
    /// The indexes that were made, or made constraints, and exist.
    pub fn indexes(&self) -> Vec<pg_sys::Oid> {
        let mut found = self.relations.clone();
        // SAFETY: syscache look-ups, of any OID.
        unsafe {
            let of_keys = self.constraints.iter();
            found.extend(of_keys.map(|&oid| pg_sys::get_constraint_index(oid)));
            found.retain(|&oid| pg_sys::IndexGetRelation(oid, true) != pg_sys::InvalidOid);
        }
        found
    }

    /// The tables that were made, and exist.
    pub fn tables(&self) -> impl Iterator<Item = pg_sys::Oid> + '_ {
        let relations = self.relations.iter().copied();
        relations.filter(|&oid| relation::has_rows(oid))
    }
}

thread_local! {
    static SEEN: PerTransaction<Seen> = PerTransaction::default();
}

pub fn take() -> Seen {
    SEEN.replace(Seen::default())
}

/// Notes what may concern indexes.
///
/// # Safety
/// Called by the object access hook.
#[pg_guard]
pub unsafe extern "C-unwind" fn note(
    access: pg_sys::ObjectAccessType::Type,
    class: pg_sys::Oid,
    object: pg_sys::Oid,
) {
    use pg_sys::ObjectAccessType::{OAT_DROP, OAT_POST_CREATE};
    SEEN.with_borrow_mut(|seen| match (access, class) {
        (OAT_POST_CREATE, pg_sys::RelationRelationId) => seen.relations.push(object),
        (OAT_POST_CREATE, CONSTRAINTS) => seen.constraints.push(object),
        // SAFETY: what is being dropped is still there.
        (OAT_DROP, pg_sys::RelationRelationId) => unsafe {
            if relation::access_method(object) == Some(layout::index_am()) {
                seen.bereft.push(pg_sys::IndexGetRelation(object, true));
            }
        },
        _ => {}
    });
}
