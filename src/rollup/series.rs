//! The series of a late row, as far as rollups tell series apart: the value of one column that they group by, as text. A refresh
//! computes the buckets of that series alone.

use crate::pg::types::{self, INT2OID, INT4OID, INT8OID, OIDOID, TEXTOID, UUIDOID, VARCHAROID};
use crate::pg::{Datum, InvalidOid, Oid};

/// Can series be told apart by a column of this type and collation? Equal values must have one text, which no setting changes.
pub fn can_tell(kind: Oid, collation: Oid) -> bool {
    let is_plain = [
        INT2OID, INT4OID, INT8OID, OIDOID, TEXTOID, VARCHAROID, UUIDOID,
    ]
    .contains(&kind);
    is_plain && (collation == InvalidOid || types::is_deterministic(collation))
}

/// The text of a value.
///
/// # Safety
/// `value` must be of the type, and not null.
pub unsafe fn text(value: Datum, kind: Oid) -> String {
    // SAFETY: by contract.
    unsafe { types::text_of(value, kind) }
}

/// The value of a text that `text` has given, of a value of this type.
pub fn value(text: &str, kind: Oid) -> Datum {
    types::value_of(text, kind)
}
