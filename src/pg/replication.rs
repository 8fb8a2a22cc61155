//! Logical replication: does anybody read the changes of a table from WAL, and guards that say how single
//! changes of heap are logged.

use super::relation::{Relation, Table};
use pgrx::pg_sys;

/// The plugin that sends what publications say. Any other may send every table.
const PUBLISHES: &core::ffi::CStr = c"pgoutput";

/// Are the changes of a table's rows read by logical replication? With a transaction id already assigned,
/// the answer stays good for what the transaction then writes: a slot that is created later waits for it.
pub fn is_streamed(table: Table<'_>) -> bool {
    // SAFETY: the table is open.
    unsafe {
        if !is_logically_logged(table) {
            return false;
        }
        // A publication that was created since the table was opened.
        pg_sys::AcceptInvalidationMessages();
        is_published(table) || has_other_readers()
    }
}

/// RelationIsLogicallyLogged.
fn is_logically_logged(table: Table<'_>) -> bool {
    // SAFETY: the table is open.
    unsafe {
        pg_sys::wal_level >= pg_sys::WalLevel::WAL_LEVEL_LOGICAL as i32
            && table.class().relpersistence as u8 == pg_sys::RELPERSISTENCE_PERMANENT
    }
}

/// Is the table in a publication: by name, schema, partitioned table above it, or with all tables?
fn is_published(table: Table<'_>) -> bool {
    // SAFETY: the table is open.
    let actions = unsafe {
        {
            let mut description = pg_sys::PublicationDesc::default();
            pg_sys::RelationBuildPublicationDesc(table.as_ptr(), &mut description);
            description.pubactions
        }
    };
    actions.pubinsert || actions.pubupdate || actions.pubdelete || actions.pubtruncate
}

/// Has this database a logical slot that does not go by publications?
fn has_other_readers() -> bool {
    // SAFETY: slots are in shared memory for as long as the server runs. The count takes their lock; a slot
    // whose plugin is not known yet counts as one that may send everything.
    unsafe {
        let (mut slots, mut active) = (0, 0);
        if !pg_sys::ReplicationSlotsCountDBSlots(pg_sys::MyDatabaseId, &mut slots, &mut active) {
            return false;
        }
        let first = core::ptr::addr_of!((*pg_sys::ReplicationSlotCtl).replication_slots)
            .cast::<pg_sys::ReplicationSlot>();
        (0..pg_sys::max_replication_slots as usize).any(|at| {
            let slot = first.add(at);
            (*slot).in_use
                && (*slot).data.database == pg_sys::MyDatabaseId
                && core::ffi::CStr::from_ptr((*slot).data.plugin.data.as_ptr()) != PUBLISHES
        })
    }
}

/// Does this process apply changes for pglogical, which deletes rows by a function of heap's?
pub fn applies_past_tables() -> bool {
    // SAFETY: set once, when a background worker starts; null in other processes.
    unsafe {
        let entry = pg_sys::MyBgworkerEntry;
        !entry.is_null()
            && core::ffi::CStr::from_ptr((*entry).bgw_library_name.as_ptr()) == c"pglogical"
    }
}

/// While it lives, deletes in `relation` carry no replica identity, so that logical decoding has
/// nothing to send for them. Used for storage tuples and for rows that merely move.
pub struct UnidentifiedChanges {
    class: pg_sys::Form_pg_class,
    identity: core::ffi::c_char,
}

impl UnidentifiedChanges {
    pub fn begin(relation: Table<'_>) -> Self {
        // SAFETY: rd_rel is this backend's copy of the catalog row.
        unsafe {
            let class = (*relation.as_ptr()).rd_rel;
            let identity = (*class).relreplident;
            (*class).relreplident = pg_sys::REPLICA_IDENTITY_NOTHING as core::ffi::c_char;
            UnidentifiedChanges { class, identity }
        }
    }
}

impl Drop for UnidentifiedChanges {
    fn drop(&mut self) {
        // SAFETY: relcache entries of open relations keep their rd_rel in place.
        unsafe { (*self.class).relreplident = self.identity }
    }
}

/// While it lives, updates in `relation` make new versions with index entries of their own. The set of
/// indexed columns, as the relation cache knows it, gets the whole row as a member, and heap_update takes
/// that for changed.
pub struct NoHotUpdate<'a> {
    relation: Relation<'a>,
    set: *mut pg_sys::Bitmapset,
    had_it: bool,
}

/// Attribute number 0, counted from the lowest system attribute.
const WHOLE_ROW: pg_sys::bitmapword = 1 << -pg_sys::FirstLowInvalidHeapAttributeNumber;

/// The set of columns whose change calls for index entries, as the relation cache has it; null where it has none.
///
/// # Safety
/// The relation must be open.
unsafe fn blocking_columns(relation: Relation<'_>) -> *mut pg_sys::Bitmapset {
    // SAFETY: the callers' contract.
    unsafe {
        #[cfg(feature = "pg15")]
        return (*relation.as_ptr()).rd_indexattr;
        #[cfg(feature = "pg17")]
        return (*relation.as_ptr()).rd_hotblockingattr;
    }
}

impl<'a> NoHotUpdate<'a> {
    pub fn begin(relation: Table<'a>) -> Self {
        #[cfg(feature = "pg15")]
        let kind = pg_sys::IndexAttrBitmapKind::INDEX_ATTR_BITMAP_ALL;
        #[cfg(feature = "pg17")]
        let kind = pg_sys::IndexAttrBitmapKind::INDEX_ATTR_BITMAP_HOT_BLOCKING;
        // SAFETY: the table is open; the call makes sure that the set is there, where there are indexes.
        unsafe {
            pg_sys::bms_free(pg_sys::RelationGetIndexAttrBitmap(relation.as_ptr(), kind));
            let set = blocking_columns(*relation);
            let mut had_it = false;
            if !set.is_null() {
                let word = (*set).words.as_mut_ptr();
                had_it = *word & WHOLE_ROW != 0;
                *word |= WHOLE_ROW;
            }
            NoHotUpdate {
                relation: *relation,
                set,
                had_it,
            }
        }
    }
}

impl Drop for NoHotUpdate<'_> {
    fn drop(&mut self) {
        // SAFETY: the relation is open. An entry that was built anew has another set, without our member.
        unsafe {
            if !self.set.is_null() && !self.had_it && blocking_columns(self.relation) == self.set {
                *(*self.set).words.as_mut_ptr() &= !WHOLE_ROW;
            }
        }
    }
}

/// Does the session apply changes of another server, or act so?
pub fn is_role_replica() -> bool {
    const REPLICA: i32 = pg_sys::SESSION_REPLICATION_ROLE_REPLICA as i32;
    // SAFETY: a setting of the server's.
    unsafe { pg_sys::SessionReplicationRole == REPLICA }
}
