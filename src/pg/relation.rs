//! Relations: open and close with a lock, names, sizes and indexes.

use super::error::{self, Code};
use pgrx::pg_sys;
use std::ffi::CStr;

/// A relation opened with a lock that is kept until the end of the transaction; closed on drop.
pub struct Open {
    relation: pg_sys::Relation,
    index: bool,
}

impl Open {
    pub fn table(oid: pg_sys::Oid, lock: u32) -> Self {
        Open {
            // SAFETY: raises an error when there is no such table.
            relation: unsafe { pg_sys::table_open(oid, lock as i32) },
            index: false,
        }
    }

    /// None where there is no such table any more.
    pub fn existing_table(oid: pg_sys::Oid, lock: u32) -> Option<Self> {
        // SAFETY: an OID may be of any relation or none.
        let relation = unsafe { pg_sys::try_table_open(oid, lock as i32) };
        (!relation.is_null()).then(|| Open {
            relation,
            index: false,
        })
    }

    /// Of a table that may be dropped while this waits for the lock: that is an error of the user's.
    pub fn living_table(oid: pg_sys::Oid, lock: u32) -> Self {
        Self::existing_table(oid, lock).unwrap_or_else(|| {
            error::raise(
                Code::ERRCODE_UNDEFINED_TABLE,
                "the table does not exist any more",
                "It was dropped while this session waited for its lock.",
                "",
            )
        })
    }

    pub fn index(oid: pg_sys::Oid, lock: u32) -> Self {
        Open {
            // SAFETY: raises an error when there is no such index.
            relation: unsafe { pg_sys::index_open(oid, lock as i32) },
            index: true,
        }
    }

    pub fn rel(&self) -> pg_sys::Relation {
        self.relation
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: opened in the constructors; the lock stays.
            unsafe {
                if self.index {
                    pg_sys::index_close(self.relation, pg_sys::NoLock as i32)
                } else {
                    pg_sys::table_close(self.relation, pg_sys::NoLock as i32)
                }
            }
        }
    }
}

/// # Safety
/// `relation` must be open; the same holds for every function below.
pub unsafe fn oid(relation: pg_sys::Relation) -> pg_sys::Oid {
    // SAFETY: by contract.
    unsafe { (*relation).rd_id }
}

/// # Safety
/// See `oid`.
pub unsafe fn name(relation: pg_sys::Relation) -> String {
    // SAFETY: by contract; relname is NUL-terminated.
    unsafe {
        CStr::from_ptr((*(*relation).rd_rel).relname.data.as_ptr())
            .to_string_lossy()
            .into_owned()
    }
}

/// The name of a relation that may not be there.
pub fn name_of(relation: pg_sys::Oid) -> String {
    // SAFETY: a syscache look-up; the result is null or palloc'd.
    unsafe {
        let name = pg_sys::get_rel_name(relation);
        if name.is_null() {
            relation.to_u32().to_string()
        } else {
            CStr::from_ptr(name).to_string_lossy().into_owned()
        }
    }
}

/// Number that names the relation's file; changes when the table is rewritten or truncated.
///
/// # Safety
/// See `oid`.
pub unsafe fn file_number(relation: pg_sys::Relation) -> pg_sys::Oid {
    // SAFETY: by contract.
    unsafe {
        #[cfg(feature = "pg15")]
        return (*relation).rd_node.relNode;
        #[cfg(feature = "pg17")]
        return (*relation).rd_locator.relNumber;
    }
}

/// The tablespace that the relation's file is in.
///
/// # Safety
/// See `oid`.
pub unsafe fn file_tablespace(relation: pg_sys::Relation) -> pg_sys::Oid {
    // SAFETY: by contract.
    unsafe {
        #[cfg(feature = "pg15")]
        return (*relation).rd_node.spcNode;
        #[cfg(feature = "pg17")]
        return (*relation).rd_locator.spcOid;
    }
}

/// What inserts leave free on each page of a table: its `fillfactor`.
///
/// # Safety
/// See `oid`.
pub unsafe fn kept_free_bytes(table: pg_sys::Relation) -> usize {
    // SAFETY: by contract; the options of a table are heap's.
    unsafe {
        let options: *const pg_sys::StdRdOptions = (*table).rd_options.cast();
        let percent = options.as_ref().map_or(100, |options| options.fillfactor);
        pg_sys::BLCKSZ as usize * (100 - percent.clamp(0, 100)) as usize / 100
    }
}

/// # Safety
/// See `oid`.
pub unsafe fn blocks(relation: pg_sys::Relation) -> u32 {
    // SAFETY: by contract.
    unsafe { pg_sys::RelationGetNumberOfBlocksInFork(relation, pg_sys::ForkNumber::MAIN_FORKNUM) }
}

/// Has the relation a block? The file is asked only where the process does not know that it was so long before: a file that gets
/// shorter is closed by who does not work with it just then.
///
/// # Safety
/// As `blocks`; the relation must be locked.
pub unsafe fn has_block(relation: pg_sys::Relation, block: u32) -> bool {
    // SAFETY: by contract; storage that the relation has open is valid.
    unsafe {
        let storage = (*relation).rd_smgr;
        let main = pg_sys::ForkNumber::MAIN_FORKNUM as usize;
        let known = (!storage.is_null()).then(|| (*storage).smgr_cached_nblocks[main]);
        let is_known =
            known.is_some_and(|known| known != pg_sys::InvalidBlockNumber && block < known);
        is_known || block < blocks(relation)
    }
}

/// # Safety
/// See `oid`.
pub unsafe fn attributes<'a>(descriptor: pg_sys::TupleDesc) -> &'a [pg_sys::FormData_pg_attribute] {
    // SAFETY: a descriptor holds natts attributes and is pinned by its relation or slot.
    unsafe {
        core::slice::from_raw_parts((*descriptor).attrs.as_ptr(), (*descriptor).natts as usize)
    }
}

/// # Safety
/// See `oid`.
pub unsafe fn attribute_name(attribute: &pg_sys::FormData_pg_attribute) -> String {
    // SAFETY: attname is NUL-terminated.
    unsafe {
        CStr::from_ptr(attribute.attname.data.as_ptr())
            .to_string_lossy()
            .into_owned()
    }
}

/// OIDs of a pg_sys list of OIDs.
///
/// # Safety
/// `list` must be NIL or a valid list of OIDs.
pub unsafe fn oids(list: *mut pg_sys::List) -> Vec<pg_sys::Oid> {
    if list.is_null() {
        return Vec::new();
    }
    // SAFETY: by contract.
    unsafe {
        (0..(*list).length as usize)
            .map(|i| (*(*list).elements.add(i)).oid_value)
            .collect()
    }
}

/// Is a column of an index, from 0, in the order of the signed integers that its values are stored as?
///
/// # Safety
/// `index` must be an open index with nbtree's support functions, and have the column.
pub unsafe fn orders_integers(index: pg_sys::Relation, column: usize) -> bool {
    const ORDER_FUNCTION: usize = 1;
    // SAFETY: by contract: each column has as many functions as the access method.
    let function = unsafe {
        let functions = (*(*index).rd_indam).amsupport as usize;
        *(*index)
            .rd_support
            .add(column * functions + ORDER_FUNCTION - 1)
    };
    compares_integers(function)
}

/// Is it one of core's functions that compare two values of one type that is stored as a signed integer?
pub fn compares_integers(function: pg_sys::Oid) -> bool {
    matches!(
        function.to_u32(),
        pg_sys::F_BTINT2CMP
            | pg_sys::F_BTINT4CMP
            | pg_sys::F_BTINT8CMP
            | pg_sys::F_DATE_CMP
            | pg_sys::F_TIMESTAMP_CMP
            | pg_sys::F_TIMESTAMPTZ_CMP
    )
}

/// All indexes of a table, valid or not.
///
/// # Safety
/// See `oid`.
pub unsafe fn index_oids(relation: pg_sys::Relation) -> Vec<pg_sys::Oid> {
    // SAFETY: by contract; the list is a copy of ours.
    unsafe {
        let list = pg_sys::RelationGetIndexList(relation);
        let result = oids(list);
        pg_sys::list_free(list);
        result
    }
}

/// The access method of any relation; None where there is no relation of that OID.
pub fn access_method(relation: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: a syscache look-up, of any OID; the row is read before it is released.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::RELOID as i32;
        let row = pg_sys::SearchSysCache1(cache, relation.into());
        if row.is_null() {
            return None;
        }
        let class: pg_sys::Form_pg_class = pg_sys::GETSTRUCT(row).cast();
        let method = (*class).relam;
        pg_sys::ReleaseSysCache(row);
        Some(method)
    }
}

/// Is it a table or a materialized view, and not one of partitions?
pub fn has_rows(relation: pg_sys::Oid) -> bool {
    // SAFETY: a syscache look-up, of any OID.
    let kind = unsafe { pg_sys::get_rel_relkind(relation) } as u8;
    [pg_sys::RELKIND_RELATION, pg_sys::RELKIND_MATVIEW].contains(&kind)
}

/// Is it a view?
pub fn is_view(relation: pg_sys::Oid) -> bool {
    // SAFETY: a syscache look-up, of any OID.
    unsafe { pg_sys::get_rel_relkind(relation) as u8 == pg_sys::RELKIND_VIEW }
}

/// Is it a partitioned table?
pub fn is_partitioned(relation: pg_sys::Oid) -> bool {
    // SAFETY: a syscache look-up.
    unsafe { pg_sys::get_rel_relkind(relation) as u8 == pg_sys::RELKIND_PARTITIONED_TABLE }
}

/// Does the current user own the relation?
pub fn is_owned(relation: pg_sys::Oid) -> bool {
    // SAFETY: a syscache look-up.
    unsafe {
        #[cfg(feature = "pg15")]
        return pg_sys::pg_class_ownercheck(relation, pg_sys::GetUserId());
        #[cfg(feature = "pg17")]
        return pg_sys::object_ownercheck(
            pg_sys::RelationRelationId,
            relation,
            pg_sys::GetUserId(),
        );
    }
}

/// The relation that a statement names, not locked; InvalidOid where there is none.
///
/// # Safety
/// `name` must be a valid name of a relation.
pub unsafe fn named(name: *mut pg_sys::RangeVar) -> pg_sys::Oid {
    // SAFETY: by contract.
    unsafe {
        pg_sys::RangeVarGetRelidExtended(
            name,
            pg_sys::NoLock as i32,
            pg_sys::RVROption::RVR_MISSING_OK,
            None,
            core::ptr::null_mut(),
        )
    }
}

/// The name with its schema, as SQL.
///
/// # Safety
/// See `oid`.
pub unsafe fn qualified_name(relation: pg_sys::Relation) -> String {
    // SAFETY: by contract; the results are palloc'd.
    unsafe {
        let class = &*(*relation).rd_rel;
        let schema = pg_sys::get_namespace_name(class.relnamespace);
        let quoted = pg_sys::quote_qualified_identifier(schema, class.relname.data.as_ptr());
        CStr::from_ptr(quoted).to_string_lossy().into_owned()
    }
}

unsafe extern "C-unwind" {
    fn find_all_inheritors(
        relation: pg_sys::Oid,
        lock: pg_sys::LOCKMODE,
        parents: *mut *mut pg_sys::List,
    ) -> *mut pg_sys::List;
    fn get_partition_ancestors(relid: pg_sys::Oid) -> *mut pg_sys::List;
    fn CheckRelationLockedByMe(relation: pg_sys::Relation, mode: i32, or_stronger: bool) -> bool;
    fn CheckForSerializableConflictIn(
        relation: pg_sys::Relation,
        tid: pg_sys::ItemPointer,
        block: pg_sys::BlockNumber,
    );
    fn datum_image_eq(a: pg_sys::Datum, b: pg_sys::Datum, by_value: bool, length: i32) -> bool;
}

/// The partitioned tables above a partition, nearest first.
///
/// # Safety
/// See `oid`.
pub unsafe fn partition_ancestors(relation: pg_sys::Relation) -> Vec<pg_sys::Oid> {
    // SAFETY: by contract.
    unsafe { ancestors_of(oid(relation)) }
}

/// The same by OID. A table that inherits from others without being a partition has ancestors too.
///
/// # Safety
/// Inside a transaction.
pub unsafe fn ancestors_of(table: pg_sys::Oid) -> Vec<pg_sys::Oid> {
    // SAFETY: by contract; errors become panics at the boundary.
    unsafe {
        let list = pg_sys::ffi::pg_guard_ffi_boundary(|| get_partition_ancestors(table));
        oids(list)
    }
}

/// A table and all tables that inherit from it, partitions for example, locked.
///
/// # Safety
/// `table` must be the OID of a table.
pub unsafe fn inheritors(table: pg_sys::Oid, lock: u32) -> Vec<pg_sys::Oid> {
    // SAFETY: by contract; errors become panics at the boundary.
    unsafe {
        oids(pg_sys::ffi::pg_guard_ffi_boundary(|| {
            find_all_inheritors(table, lock as i32, core::ptr::null_mut())
        }))
    }
}

/// Are two non-null datums the same bytes, toasted or not?
///
/// # Safety
/// Both must be values of the attribute's type.
pub unsafe fn same_image(
    a: pg_sys::Datum,
    b: pg_sys::Datum,
    attribute: &pg_sys::FormData_pg_attribute,
) -> bool {
    // SAFETY: by contract; errors become panics at the boundary.
    unsafe {
        if attribute.attbyval {
            return a == b;
        }
        // Values of other lengths have no header that says how long they are.
        if attribute.attlen == -1 {
            if let (Some(a), Some(b)) = (plain_body(a), plain_body(b)) {
                return a == b;
            }
        }
        pg_sys::ffi::pg_guard_ffi_boundary(|| {
            datum_image_eq(a, b, attribute.attbyval, i32::from(attribute.attlen))
        })
    }
}

/// A hash of the bytes that `same_image` compares, but for the state in which they are stored.
///
/// # Safety
/// `value` must be of the attribute's type, and not null.
pub unsafe fn image_hash(value: pg_sys::Datum, attribute: &pg_sys::FormData_pg_attribute) -> u32 {
    unsafe extern "C-unwind" {
        fn datum_image_hash(value: pg_sys::Datum, by_value: bool, length: i32) -> u32;
    }
    // SAFETY: by contract; errors become panics at the boundary.
    unsafe {
        pg_sys::ffi::pg_guard_ffi_boundary(|| {
            datum_image_hash(value, attribute.attbyval, i32::from(attribute.attlen))
        })
    }
}

/// A datum as core makes it of a stored value: short ones that are passed by value with their sign, whoever has made them.
pub fn as_stored(value: pg_sys::Datum, attribute: &pg_sys::FormData_pg_attribute) -> pg_sys::Datum {
    let bits = value.value();
    let signed = match (attribute.attbyval, attribute.attlen) {
        (true, 1) => i64::from(bits as i8),
        (true, 2) => i64::from(bits as i16),
        (true, 4) => i64::from(bits as i32),
        _ => return value,
    };
    pg_sys::Datum::from(signed as usize)
}

/// The bytes of a varlena that is neither compressed nor kept elsewhere.
unsafe fn plain_body<'a>(value: pg_sys::Datum) -> Option<&'a [u8]> {
    // SAFETY: the caller's contract.
    unsafe {
        let varlena: *const pg_sys::varlena = value.cast_mut_ptr();
        let is_short = pgrx::varatt_is_1b(varlena) && !pgrx::varatt_is_1b_e(varlena);
        (is_short || pgrx::varatt_is_4b_u(varlena)).then(|| {
            let bytes = pgrx::varsize_any_exhdr(varlena);
            core::slice::from_raw_parts(pgrx::vardata_any(varlena).cast(), bytes)
        })
    }
}

/// Has this transaction created the table?
///
/// # Safety
/// See `oid`.
pub unsafe fn is_created_here(relation: pg_sys::Relation) -> bool {
    const NO_SUBTRANSACTION: pg_sys::SubTransactionId = 0;
    // SAFETY: by contract.
    unsafe { (*relation).rd_createSubid != NO_SUBTRANSACTION }
}

/// Has this transaction the table to itself?
///
/// # Safety
/// See `oid`.
pub unsafe fn is_locked_exclusively(relation: pg_sys::Relation) -> bool {
    // SAFETY: by contract.
    unsafe { CheckRelationLockedByMe(relation, pg_sys::AccessExclusiveLock as i32, false) }
}

/// Raises a serialization failure where a change of the table closes a dangerous structure with serializable readers of it.
///
/// # Safety
/// See `oid`.
pub unsafe fn check_serializable(relation: pg_sys::Relation) {
    // SAFETY: by contract; errors become panics at the boundary.
    unsafe {
        pg_sys::ffi::pg_guard_ffi_boundary(|| {
            CheckForSerializableConflictIn(
                relation,
                core::ptr::null_mut(),
                pg_sys::InvalidBlockNumber,
            )
        })
    }
}

/// RelationNeedsWAL.
///
/// # Safety
/// See `oid`.
pub unsafe fn needs_wal(relation: pg_sys::Relation) -> bool {
    const NO_SUBTRANSACTION: pg_sys::SubTransactionId = 0;
    // SAFETY: by contract.
    unsafe {
        let permanent =
            (*(*relation).rd_rel).relpersistence as u8 == pg_sys::RELPERSISTENCE_PERMANENT;
        #[cfg(feature = "pg15")]
        let is_new = (*relation).rd_createSubid != NO_SUBTRANSACTION
            || (*relation).rd_firstRelfilenodeSubid != NO_SUBTRANSACTION;
        #[cfg(feature = "pg17")]
        let is_new = (*relation).rd_createSubid != NO_SUBTRANSACTION
            || (*relation).rd_firstRelfilelocatorSubid != NO_SUBTRANSACTION;
        let minimal = pg_sys::wal_level < pg_sys::WalLevel::WAL_LEVEL_REPLICA as i32;
        permanent && !(minimal && is_new)
    }
}
