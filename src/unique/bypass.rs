//! Inside btree's own check of a key, which visits the table: it needs nothing of ours.

use crate::pg::transaction::{Access, PerTransaction};

thread_local! {
    static BYPASSED: PerTransaction<bool> = PerTransaction::until_a_part_ends();
}

/// Is nothing intercepted?
pub fn is_bypassed() -> bool {
    BYPASSED.with_borrow(|bypassed| *bypassed)
}

/// Has nothing intercepted, or goes on with it; returns what was before.
pub fn set_bypassed(bypassed: bool) -> bool {
    BYPASSED.replace(bypassed)
}
