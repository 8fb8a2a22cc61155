//! What a dump has to tell of a rollup that its view and its stored table do not: how far it was stored, and what retention had
//! taken. It is the security label of the view, of provider `varve`, which goes wherever the view is dumped to (docs/design/0016).

use super::catalog::Rollup;
use crate::pg::catalogs;
use crate::pg::lock_mode::LockMode;
use crate::pg::relation;
use crate::pg::security_label;
use crate::pg::Oid;
use serde_json::{json, Value};
use std::ffi::{CStr, CString};

const PROVIDER: &CStr = c"varve";

/// The label's content.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Label {
    /// As of `Rollup`.
    pub watermark: i64,
    pub removed: i64,
    pub ignores_late: bool,
    /// Do the stored table and the source have indexes? A dump is restored once they have them again.
    pub stored_has_index: bool,
    pub source_has_index: bool,
}

impl Label {
    pub fn parse(text: &str) -> Option<Label> {
        let value: Value = serde_json::from_str(text).ok()?;
        Some(Label {
            watermark: value["watermark"].as_i64()?,
            removed: value["removed"].as_i64()?,
            ignores_late: value["ignores_late"].as_bool()?,
            stored_has_index: value["stored_has_index"].as_bool()?,
            source_has_index: value["source_has_index"].as_bool()?,
        })
    }

    fn text(&self) -> String {
        let value = json!({
            "watermark": self.watermark,
            "removed": self.removed,
            "ignores_late": self.ignores_late,
            "stored_has_index": self.stored_has_index,
            "source_has_index": self.source_has_index,
        });
        value.to_string()
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_reads_as_it_was_written() {
        let label = Label {
            watermark: i64::MAX,
            removed: i64::MIN,
            ignores_late: true,
            stored_has_index: true,
            source_has_index: false,
        };
        assert_eq!(Label::parse(&label.text()), Some(label));
        assert_eq!(Label::parse("[]"), None);
        assert_eq!(Label::parse("{\"watermark\": 1}"), None);
    }
}
