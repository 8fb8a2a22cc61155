//! What a dump has to tell of a rollup that its view and its stored table do not: how far it was stored, and what retention had
//! taken. It is the security label of the view, of provider `varve`, which goes wherever the view is dumped to (docs/design/0016).

use super::catalog::Rollup;
use crate::pg::lock_mode::LockMode;
use crate::pg::relation::{self, Open};
use pgrx::pg_sys;
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
    pub fn read(view: pg_sys::Oid) -> Option<Label> {
        let object = address(view);
        // SAFETY: inside a transaction; a label is NUL-terminated.
        unsafe {
            let label = pg_sys::GetSecurityLabel(&object, PROVIDER.as_ptr());
            if label.is_null() {
                return None;
            }
            Label::parse(&CStr::from_ptr(label).to_string_lossy())
        }
    }

    /// Labels a view, in the current transaction.
    pub fn write(&self, view: pg_sys::Oid) {
        let object = address(view);
        let Ok(text) = CString::new(self.text()) else {
            return;
        };
        // SAFETY: inside a transaction that excludes others who write the label; the text is copied.
        unsafe { pg_sys::SetSecurityLabel(&object, PROVIDER.as_ptr(), text.as_ptr()) };
    }
}

/// Has a table, or a partition of it, an index?
fn has_index(table: pg_sys::Oid) -> bool {
    // SAFETY: the table exists; no partition is locked.
    let mut all = unsafe { relation::inheritors(table, LockMode::Held) }.into_iter();
    all.any(has_own_index)
}

/// Reads the catalog, so that nobody is waited for.
fn has_own_index(table: pg_sys::Oid) -> bool {
    // SAFETY: within a transaction; the scan ends here.
    unsafe {
        let catalog = Open::table(pg_sys::IndexRelationId, LockMode::AccessShare);
        let mut key = pg_sys::ScanKeyData::default();
        pg_sys::ScanKeyInit(
            &mut key,
            pg_sys::Anum_pg_index_indrelid as pg_sys::AttrNumber,
            pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber,
            pg_sys::Oid::from(pg_sys::F_OIDEQ),
            table.into(),
        );
        let index = pg_sys::Oid::from(pg_sys::IndexIndrelidIndexId);
        let none = core::ptr::null_mut();
        let scan =
            pg_sys::systable_beginscan(catalog.rel().as_ptr(), index, true, none, 1, &mut key);
        let found = !pg_sys::systable_getnext(scan).is_null();
        pg_sys::systable_endscan(scan);
        found
    }
}

fn address(view: pg_sys::Oid) -> pg_sys::ObjectAddress {
    pg_sys::ObjectAddress {
        classId: pg_sys::RelationRelationId,
        objectId: view,
        objectSubId: 0,
    }
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
