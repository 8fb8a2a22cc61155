//! All entries of a series index, with hashes of their keys by which they are compared with those that chunks should have.

use crate::chunk::datum;
use crate::chunk::row_set::put_ordered;
use crate::pg::leaves;
use crate::pg::relation::Index;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::Datum;
use rustc_hash::FxHasher;
use std::hash::Hasher;
use varve_columns::column::Kind;

/// Hashes index keys, so that entries can be compared.
pub struct KeyHasher {
    kinds: Vec<(Kind, i16)>,
}

impl KeyHasher {
    pub fn new(index: Index<'_>) -> KeyHasher {
        let attributes = index.attributes();
        KeyHasher {
            kinds: attributes
                .iter()
                .map(|attribute| (datum::kind_of(attribute), attribute.attlen))
                .collect(),
        }
    }

    /// # Safety
    /// `values` and `nulls` must hold an entry of the index.
    pub unsafe fn hash(&self, values: &[Datum], nulls: &[bool]) -> u64 {
        let mut bytes = Vec::new();
        for (at, (kind, length)) in self.kinds.iter().enumerate() {
            let mut column = datum::empty(*kind);
            // SAFETY: by contract.
            unsafe { datum::push(&mut column, values[at], nulls[at], *length) };
            put_ordered(&mut bytes, &column, 0);
        }
        let mut hasher = FxHasher::default();
        hasher.write(&bytes);
        hasher.finish()
    }
}

/// Shows the TID and the hashed key of every entry to `visit`.
pub fn entries(index: Index<'_>, mut visit: impl FnMut(Tid, u64)) {
    // SAFETY: the index is open.
    unsafe {
        let hasher = KeyHasher::new(index);
        let count = index.descriptor().len();
        let mut values = vec![Datum::from(0usize); count];
        let mut nulls = vec![true; count];
        // What does not hang together is missed, and found by that.
        leaves::each_item(index, Snapshot::NONE, |item| {
            item.values(index, &mut values, &mut nulls);
            let hash = hasher.hash(&values, &nulls);
            item.tids().for_each(|at| visit(at, hash));
        });
    }
}
