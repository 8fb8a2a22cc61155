//! Labels of the views of rollups, as the catalogs have them.

use super::catalog::Rollup;
use super::label::Label;
use crate::pg::catalogs;
use crate::pg::lock_mode::LockMode;
use crate::pg::relation;
use crate::pg::security_label;
use crate::pg::Oid;
use std::ffi::{CStr, CString};

const PROVIDER: &CStr = c"varve";

impl Label {
    /// The label of a rollup as it is now.
    pub fn of(rollup: &Rollup) -> Label {
        Label {
            watermark: rollup.watermark,
            removed: rollup.removed,
            ignores_late: rollup.ignores_late,
            stored_has_index: has_index(rollup.stored),
            source_has_index: has_index(rollup.source),
        }
    }

    /// The label that a view has.
    pub fn read(view: Oid) -> Option<Label> {
        Label::parse(&security_label::read(view, PROVIDER)?)
    }

    /// Labels a view, in the current transaction.
    pub fn write(&self, view: Oid) {
        if let Ok(text) = CString::new(self.text()) {
            security_label::write(view, PROVIDER, Some(&text));
        }
    }
}

/// Has a table, or a partition of it, an index?
fn has_index(table: Oid) -> bool {
    // SAFETY: the table exists; no partition is locked.
    let mut all = unsafe { relation::inheritors(table, LockMode::Held) }.into_iter();
    all.any(catalogs::has_index)
}

/// Has a dump of the rollup not been restored to its end yet? Its tables get rows first and indexes afterwards.
pub fn is_being_restored(rollup: &Rollup) -> bool {
    rollup.is_restored()
        && Label::read(rollup.view).is_some_and(|label| {
            (label.stored_has_index && !has_index(rollup.stored))
                || (label.source_has_index && !has_index(rollup.source))
        })
}
