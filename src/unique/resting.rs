//! Inside btree's own check of a key, which visits the table: it needs nothing of ours.

use crate::pg::transaction::{Access, PerTransaction};

thread_local! {
    static RESTING: PerTransaction<bool> = PerTransaction::until_a_part_ends();
}

/// Does `arm` rest?
pub fn is_resting() -> bool {
    RESTING.with_borrow(|rests| *rests)
}

/// Lets `arm` rest, or not; returns what was before.
pub fn set_resting(rests: bool) -> bool {
    RESTING.replace(rests)
}
