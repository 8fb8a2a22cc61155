//! Relations: handles of open ones, names, sizes and indexes.
//!
//! A handle is what proves that a relation is open: it lives no longer than the guard (`open`) that it was taken from, or than the call of
//! PostgreSQL's that has brought the relation. So what needs an open relation and no more is safe.

use super::bare;
use super::descriptor::Descriptor;
use super::lock_mode::LockMode;
use super::page;
use super::snapshot::Snapshot;
use super::tuple;
use super::unbound;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;
use pgrx::pg_sys;
use std::ffi::CStr;

/// An open relation of any kind, locked by this transaction.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Relation<'a> {
    relation: NonNull<pg_sys::RelationData>,
    open: PhantomData<&'a pg_sys::RelationData>,
}

/// An open table, or what has rows as a table has: a materialized view, a TOAST table.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Table<'a>(Relation<'a>);

/// An open index.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Index<'a>(Relation<'a>);

impl<'a> Deref for Table<'a> {
    type Target = Relation<'a>;

    #[inline]
    fn deref(&self) -> &Relation<'a> {
        &self.0
    }
}

impl<'a> Deref for Index<'a> {
    type Target = Relation<'a>;

    #[inline]
    fn deref(&self) -> &Relation<'a> {
        &self.0
    }
}

impl<'a> From<Table<'a>> for Relation<'a> {
    #[inline]
    fn from(table: Table<'a>) -> Relation<'a> {
        table.0
    }
}

impl<'a> From<Index<'a>> for Relation<'a> {
    #[inline]
    fn from(index: Index<'a>) -> Relation<'a> {
        index.0
    }
}

impl Relation<'_> {
    /// A relation that PostgreSQL hands out.
    ///
    /// # Safety
    /// `relation` must be open, and locked, as long as the handle is used.
    #[inline]
    pub unsafe fn from_ptr<'a>(relation: pg_sys::Relation) -> Relation<'a> {
        debug_assert!(!relation.is_null());
        Relation {
            // SAFETY: by contract: what is open is not null.
            relation: unsafe { NonNull::new_unchecked(relation) },
            open: PhantomData,
        }
    }
}

impl Table<'_> {
    /// A table that PostgreSQL hands out.
    ///
    /// # Safety
    /// As `Relation::from_ptr`; it must have rows.
    #[inline]
    pub unsafe fn from_ptr<'a>(table: pg_sys::Relation) -> Table<'a> {
        // SAFETY: by contract.
        Table(unsafe { Relation::from_ptr(table) })
    }
}

impl Index<'_> {
    /// An index that PostgreSQL hands out.
    ///
    /// # Safety
    /// As `Relation::from_ptr`; it must be an index.
    #[inline]
    pub unsafe fn from_ptr<'a>(index: pg_sys::Relation) -> Index<'a> {
        // SAFETY: by contract.
        Index(unsafe { Relation::from_ptr(index) })
    }
}

impl<'a> Relation<'a> {
    /// For PostgreSQL's functions.
    #[inline]
    pub fn as_ptr(self) -> pg_sys::Relation {
        self.relation.as_ptr()
    }

    #[inline]
    fn data(self) -> &'a pg_sys::RelationData {
        // SAFETY: the relation is open; what is read is not changed while it is referred to.
        unsafe { self.relation.as_ref() }
    }

    #[inline]
    pub fn oid(self) -> pg_sys::Oid {
        self.data().rd_id
    }

    /// Its row of pg_class.
    #[inline]
    pub fn class(self) -> &'a pg_sys::FormData_pg_class {
        // SAFETY: an open relation has it.
        unsafe { &*self.data().rd_rel }
    }

    /// Its columns. The descriptor lasts as long as the relation is open, also where the relation is read anew meanwhile.
    #[inline]
    pub fn descriptor(self) -> Descriptor<'a> {
        // SAFETY: an open relation has it.
        unsafe { Descriptor::from_ptr(self.data().rd_att) }
    }

    /// Its columns, dropped ones included.
    #[inline]
    pub fn attributes(self) -> &'a [pg_sys::FormData_pg_attribute] {
        self.descriptor().attributes()
    }

    pub fn name(self) -> String {
        self.stored_name().to_string_lossy().into_owned()
    }

    /// The name as it is stored, in the database's encoding.
    pub fn stored_name(self) -> &'a CStr {
        // SAFETY: relname is NUL-terminated.
        unsafe { CStr::from_ptr(self.class().relname.data.as_ptr()) }
    }

    /// Number that names the relation's file; changes when the table is rewritten or truncated.
    #[inline]
    pub fn file_number(self) -> pg_sys::Oid {
        #[cfg(feature = "pg15")]
        return self.data().rd_node.relNode;
        #[cfg(feature = "pg17")]
        return self.data().rd_locator.relNumber;
    }

    /// The tablespace that the relation's file is in.
    pub fn file_tablespace(self) -> pg_sys::Oid {
        #[cfg(feature = "pg15")]
        return self.data().rd_node.spcNode;
        #[cfg(feature = "pg17")]
        return self.data().rd_locator.spcOid;
    }

    #[inline]
    pub fn blocks(self) -> u32 {
        // SAFETY: the relation is open.
        unsafe {
            pg_sys::RelationGetNumberOfBlocksInFork(self.as_ptr(), pg_sys::ForkNumber::MAIN_FORKNUM)
        }
    }

    /// Has the relation a block? The file is asked only where the process does not know that it was so long before: a file that gets
    /// shorter is closed by who does not work with it just then.
    #[inline]
    pub fn has_block(self, block: u32) -> bool {
        let storage = self.data().rd_smgr;
        let main = pg_sys::ForkNumber::MAIN_FORKNUM as usize;
        // SAFETY: storage that the relation has open is valid.
        let known = (!storage.is_null()).then(|| unsafe { (*storage).smgr_cached_nblocks[main] });
        let is_known =
            known.is_some_and(|known| known != pg_sys::InvalidBlockNumber && block < known);
        is_known || block < self.blocks()
    }

    /// The name with its schema, as SQL.
    pub fn qualified_name(self) -> String {
        let class = self.class();
        // SAFETY: relname is NUL-terminated; the results are palloc'd.
        unsafe {
            let schema = pg_sys::get_namespace_name(class.relnamespace);
            let quoted = pg_sys::quote_qualified_identifier(schema, class.relname.data.as_ptr());
            CStr::from_ptr(quoted).to_string_lossy().into_owned()
        }
    }

    /// The session of a temporary relation; -1 for any other.
    pub fn backend(self) -> i32 {
        self.data().rd_backend
    }

    /// Has this transaction created the relation?
    #[inline]
    pub fn is_created_here(self) -> bool {
        const NO_SUBTRANSACTION: pg_sys::SubTransactionId = 0;
        self.data().rd_createSubid != NO_SUBTRANSACTION
    }

    /// Has this transaction, or a part of it that was not undone, given the relation the file that it has?
    pub fn has_new_file(self) -> bool {
        const NO_SUBTRANSACTION: pg_sys::SubTransactionId = 0;
        let relation = self.data();
        #[cfg(feature = "pg15")]
        let since = relation.rd_firstRelfilenodeSubid;
        #[cfg(feature = "pg17")]
        let since = relation.rd_firstRelfilelocatorSubid;
        self.is_created_here() || since != NO_SUBTRANSACTION
    }

    /// Has this transaction the relation to itself?
    pub fn is_locked_exclusively(self) -> bool {
        // SAFETY: the relation is open.
        unsafe { CheckRelationLockedByMe(self.as_ptr(), pg_sys::AccessExclusiveLock as i32, false) }
    }

    /// RelationNeedsWAL.
    pub fn needs_wal(self) -> bool {
        let permanent = self.class().relpersistence as u8 == pg_sys::RELPERSISTENCE_PERMANENT;
        // SAFETY: a setting of the server's.
        let minimal = unsafe { pg_sys::wal_level } < pg_sys::WalLevel::WAL_LEVEL_REPLICA as i32;
        permanent && !(minimal && self.has_new_file())
    }

    /// Who owns it.
    #[inline]
    pub fn owner(self) -> pg_sys::Oid {
        self.class().relowner
    }

    #[inline]
    pub fn kind(self) -> Kind {
        Kind::of(self.class().relkind)
    }

    /// Is it a temporary relation of another session?
    pub fn is_of_other_session(self) -> bool {
        // SAFETY: compares a number with what this process knows.
        self.is_temporary()
            && unsafe { !pg_sys::isTempOrTempToastNamespace(self.class().relnamespace) }
    }

    /// Is it a permanent relation, and neither unlogged nor temporary?
    pub fn is_permanent(self) -> bool {
        self.class().relpersistence as u8 == pg_sys::RELPERSISTENCE_PERMANENT
    }

    /// Is it a temporary relation?
    pub fn is_temporary(self) -> bool {
        self.class().relpersistence as u8 == pg_sys::RELPERSISTENCE_TEMP
    }
}

/// Where an open table is in memory, for what outlives the handle: it tells nothing of whether the table is open still.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Address(NonNull<pg_sys::RelationData>);

impl Address {
    /// The table.
    ///
    /// # Safety
    /// It must be open, as it was when the address was taken or since then again, as long as the handle is used.
    #[inline]
    pub unsafe fn table<'a>(self) -> Table<'a> {
        // SAFETY: by contract.
        unsafe { Table::from_ptr(self.0.as_ptr()) }
    }
}

impl<'a> Table<'a> {
    #[inline]
    pub fn address(self) -> Address {
        Address(self.0.relation)
    }

    /// Free bytes that heap wants of a page for a tuple that takes `bytes` of it, with its line pointer: what the table's `fillfactor` keeps free besides, but no more than a
    /// page has that is nearly empty.
    pub fn page_room_for(self, bytes: usize) -> usize {
        (bytes + self.kept_free_bytes()).min(bytes.max(page::NEARLY_EMPTY_BYTES))
    }

    /// What inserts leave free on each page: the table's `fillfactor`.
    fn kept_free_bytes(self) -> usize {
        // SAFETY: the options of a table are heap's.
        unsafe {
            let options: *const pg_sys::StdRdOptions = self.data().rd_options.cast();
            let percent = options.as_ref().map_or(100, |options| options.fillfactor);
            pg_sys::BLCKSZ as usize * (100 - percent.clamp(0, 100)) as usize / 100
        }
    }

    /// Has it a rule ON DELETE?
    pub fn has_rule_on_delete(self) -> bool {
        // SAFETY: null, or valid while the table is open and locked; there are so many rules.
        unsafe {
            let Some(rules) = self.data().rd_rules.as_ref() else {
                return false;
            };
            let on_delete = pg_sys::CmdType::CMD_DELETE;
            (0..rules.numLocks as usize).any(|at| (**rules.rules.add(at)).event == on_delete)
        }
    }

    /// What triggers it has; None where it has none.
    #[inline]
    pub fn triggers(self) -> Option<&'a pg_sys::TriggerDesc> {
        // SAFETY: null, or valid while the table is open and locked.
        unsafe { self.data().trigdesc.as_ref() }
    }

    /// Transactions from this one on may still see what they have come upon of the table: older ones have ended for everybody.
    pub fn horizon(self) -> pg_sys::TransactionId {
        // SAFETY: the table is open.
        unsafe { pg_sys::GetOldestNonRemovableTransactionId(self.as_ptr()) }
    }

    /// All its indexes, valid or not.
    pub fn index_oids(self) -> Vec<pg_sys::Oid> {
        // SAFETY: the list is a copy of ours.
        unsafe {
            let list = pg_sys::RelationGetIndexList(self.as_ptr());
            let result = oids(list);
            pg_sys::list_free(list);
            result
        }
    }

    /// Columns of keys that other rows may refer to, from 0.
    pub fn key_columns(self) -> Vec<usize> {
        let mut columns = Vec::new();
        // SAFETY: the table is open; the set is a copy of ours.
        unsafe {
            let keys = pg_sys::IndexAttrBitmapKind::INDEX_ATTR_BITMAP_KEY;
            let set = pg_sys::RelationGetIndexAttrBitmap(self.as_ptr(), keys);
            let mut member = -1;
            loop {
                member = bare::bms_next_member(set, member);
                if member < 0 {
                    break;
                }
                let number = member + pg_sys::FirstLowInvalidHeapAttributeNumber;
                columns.extend(usize::try_from(number - 1));
            }
            pg_sys::bms_free(set);
        }
        columns
    }

    /// The partitioned tables above it, nearest first.
    pub fn partition_ancestors(self) -> Vec<pg_sys::Oid> {
        ancestors_of(self.oid())
    }

    /// Makes a page the one that this backend tries first with its next tuple.
    pub fn fill_next(self, block: u32) {
        // SAFETY: null, where nobody has looked at its file yet, or valid.
        if let Some(storage) = unsafe { self.data().rd_smgr.as_mut() } {
            storage.smgr_targblock = block;
        }
    }

    /// The page that this backend tries first; none of the table's where it has tried none.
    pub fn filled_next(self) -> u32 {
        // SAFETY: as above.
        let storage = unsafe { self.data().rd_smgr.as_ref() };
        storage.map_or(pg_sys::InvalidBlockNumber, |storage| storage.smgr_targblock)
    }

    /// Has all sessions read anew what they know of the table, when this transaction commits.
    pub fn invalidate(self) {
        // SAFETY: the table is open.
        unsafe { pg_sys::CacheInvalidateRelcache(self.as_ptr()) }
    }

    /// Raises an error where the session has the table open elsewhere, or is still to fire triggers of it.
    pub fn check_unused(self, command: &'static CStr) {
        // SAFETY: the table is open.
        unsafe { pg_sys::CheckTableNotInUse(self.as_ptr(), command.as_ptr()) }
    }

    /// Has a serializable transaction that reads all of the table remembered as one that does.
    pub fn note_reader(self, snapshot: Snapshot<'_>) {
        // SAFETY: the table is open, the snapshot valid; errors become panics at the boundary.
        unsafe {
            pg_sys::ffi::pg_guard_ffi_boundary(|| {
                unbound::PredicateLockRelation(self.as_ptr(), snapshot.as_ptr())
            })
        }
    }

    /// Has a serializable transaction that has seen a tuple of the table, or missed it, remembered as one that does. Raises a serialization failure
    /// where that closes a dangerous structure.
    ///
    /// # Safety
    /// `tuple` must be on the page in `buffer`, which is pinned and locked.
    pub unsafe fn note_reading(
        self,
        tuple: &mut pg_sys::HeapTupleData,
        buffer: pg_sys::Buffer,
        snapshot: Snapshot<'_>,
        is_seen: bool,
    ) {
        let (table, snapshot) = (self.as_ptr(), snapshot.as_ptr());
        // SAFETY: by contract; the table is open.
        unsafe {
            pg_sys::HeapCheckForSerializableConflictOut(is_seen, table, tuple, buffer, snapshot)
        }
    }

    /// Raises "snapshot too old" where that is why something is missing: old_snapshot_threshold lets VACUUM take away what the statement's
    /// snapshot still sees.
    pub fn check_snapshot_age(self) {
        // SAFETY: the table is open.
        #[cfg(feature = "pg15")]
        unsafe {
            if pg_sys::old_snapshot_threshold >= 0 && pg_sys::ActiveSnapshotSet() {
                pg_sys::TestForOldSnapshot_impl(pg_sys::GetActiveSnapshot(), self.as_ptr());
            }
        }
    }

    /// Raises a serialization failure where a change of the table closes a dangerous structure with serializable readers of it.
    pub fn check_serializable(self) {
        // SAFETY: the table is open; errors become panics at the boundary.
        unsafe {
            pg_sys::ffi::pg_guard_ffi_boundary(|| {
                CheckForSerializableConflictIn(
                    self.as_ptr(),
                    core::ptr::null_mut(),
                    pg_sys::InvalidBlockNumber,
                )
            })
        }
    }
}

impl<'a> Index<'a> {
    #[inline]
    pub fn is_btree(self) -> bool {
        self.class().relam == pg_sys::BTREE_AM_OID
    }

    /// Is it one of core's, of a kind that grows with its entries, and never gets smaller, but for btrees?
    pub fn is_of_growing_kind(self) -> bool {
        const KINDS: [pg_sys::Oid; 4] = [
            pg_sys::HASH_AM_OID,
            pg_sys::GIST_AM_OID,
            pg_sys::GIN_AM_OID,
            pg_sys::SPGIST_AM_OID,
        ];
        KINDS.contains(&self.class().relam)
    }

    /// Has it entries for some rows only?
    pub fn has_predicate(self) -> bool {
        let column = pg_sys::Anum_pg_index_indpred as i32;
        let none = core::ptr::null_mut();
        // SAFETY: an open index has its row of pg_index.
        unsafe { !pg_sys::heap_attisnull(self.data().rd_indextuple, column, none) }
    }

    /// The transaction that has written its row of pg_index, or the frozen id.
    pub fn written_by(self) -> pg_sys::TransactionId {
        // SAFETY: an open index has a copy of that row.
        unsafe { tuple::xmin((*self.data().rd_indextuple).t_data) }
    }

    /// Its storage parameters, as `amoptions` has made them; null where none is set.
    #[inline]
    pub fn options<T>(self) -> *const T {
        self.data().rd_options.cast_const().cast()
    }

    /// Its row of pg_index.
    #[inline]
    pub fn form(self) -> &'a pg_sys::FormData_pg_index {
        // SAFETY: an open index has it.
        unsafe { &*self.data().rd_index }
    }

    /// One of the arrays that have an element for each key column.
    #[inline]
    fn of_key<T: Copy>(self, array: *const T, column: usize) -> T {
        assert!(
            column < self.form().indnkeyatts as usize,
            "BUG: an index has no such key column"
        );
        // SAFETY: the column is one of the key's.
        unsafe { *array.add(column) }
    }

    /// The type that the operator class of a key column, from 0, is for.
    #[inline]
    pub fn input_type(self, column: usize) -> pg_sys::Oid {
        self.of_key(self.data().rd_opcintype, column)
    }

    #[inline]
    pub fn operator_family(self, column: usize) -> pg_sys::Oid {
        self.of_key(self.data().rd_opfamily, column)
    }

    #[inline]
    pub fn collation(self, column: usize) -> pg_sys::Oid {
        self.of_key(self.data().rd_indcollation, column)
    }

    /// How two values of a key column, from 0, compare: less than 0, 0, or more.
    ///
    /// # Safety
    /// Both must be values of the column's type, and the index have nbtree's support functions.
    #[inline]
    pub unsafe fn compare(self, column: usize, one: pg_sys::Datum, other: pg_sys::Datum) -> i32 {
        const ORDER_FUNCTION: u16 = 1;
        // SAFETY: by contract.
        unsafe {
            let order = pg_sys::index_getprocinfo(self.as_ptr(), column as i16 + 1, ORDER_FUNCTION);
            let compared = pg_sys::FunctionCall2Coll(order, self.collation(column), one, other);
            compared.value() as i32
        }
    }

    /// Is a column of an index, from 0, in the order of the signed integers that its values are stored as? The index must have
    /// nbtree's support functions.
    pub fn orders_integers(self, column: usize) -> bool {
        const ORDER_FUNCTION: usize = 1;
        // SAFETY: each key column has as many functions as the access method.
        let functions = usize::from(unsafe { (*self.data().rd_indam).amsupport });
        assert!(
            column < self.form().indnkeyatts as usize && functions >= ORDER_FUNCTION,
            "BUG: an index has no such key column"
        );
        // SAFETY: as above.
        let function = unsafe {
            *self
                .data()
                .rd_support
                .add(column * functions + ORDER_FUNCTION - 1)
        };
        compares_integers(function)
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

pub fn attribute_name(attribute: &pg_sys::FormData_pg_attribute) -> String {
    stored_attribute_name(attribute)
        .to_string_lossy()
        .into_owned()
}

/// The name of a column as it is stored, in the database's encoding.
pub fn stored_attribute_name(attribute: &pg_sys::FormData_pg_attribute) -> &CStr {
    // SAFETY: attname is NUL-terminated.
    unsafe { CStr::from_ptr(attribute.attname.data.as_ptr()) }
}

/// The name of a column, as SQL.
pub fn quoted_attribute_name(attribute: &pg_sys::FormData_pg_attribute) -> String {
    // SAFETY: attname is NUL-terminated, and so is the result.
    unsafe {
        let quoted = pg_sys::quote_identifier(attribute.attname.data.as_ptr());
        CStr::from_ptr(quoted).to_string_lossy().into_owned()
    }
}

/// Has all sessions read anew what they know of a relation, when this transaction commits, and this one at its next command. It raises an
/// error where there is no such relation.
pub fn invalidate(relation: pg_sys::Oid) {
    // SAFETY: any OID.
    unsafe { pg_sys::CacheInvalidateRelcacheByRelid(relation) }
}

/// Hears of what other sessions have committed. Inside a transaction.
pub fn accept_invalidations() {
    // SAFETY: callbacks of core and ours run, which touch caches only.
    unsafe { pg_sys::AcceptInvalidationMessages() }
}

/// Calls `tell` with the OID whenever what this process knows of a relation may be outdated, with InvalidOid for all relations. To be called
/// once, when a backend loads the library.
pub fn tell_of_changes(tell: unsafe extern "C-unwind" fn(pg_sys::Datum, pg_sys::Oid)) {
    // SAFETY: the callback lives as long as the library.
    unsafe {
        pg_sys::CacheRegisterRelcacheCallback(Some(tell), pg_sys::Datum::from(0usize));
    }
}

/// Calls `tell` whenever what this process knows of functions, operators, types, or constraints may be outdated. To be called as `tell_of_changes`.
pub fn tell_of_changed_expressions(
    tell: unsafe extern "C-unwind" fn(pg_sys::Datum, i32, pg_sys::uint32),
) {
    use pg_sys::SysCacheIdentifier::{AMOPOPID, CONSTROID, OPEROID, PROCOID, TYPEOID};
    for cache in [AMOPOPID, CONSTROID, OPEROID, PROCOID, TYPEOID] {
        // SAFETY: the callback lives as long as the library.
        unsafe {
            let none = pg_sys::Datum::from(0usize);
            pg_sys::CacheRegisterSyscacheCallback(cache as i32, Some(tell), none);
        }
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

/// The functions of a table access method, at an address that they keep.
pub struct Routine(Box<pg_sys::TableAmRoutine>);

impl Routine {
    pub fn new(routine: Box<pg_sys::TableAmRoutine>) -> Routine {
        Routine(routine)
    }

    pub fn address(&self) -> usize {
        (&raw const *self.0).addr()
    }

    /// Is it that of the table?
    #[inline]
    pub fn is_of(&self, table: Table<'_>) -> bool {
        core::ptr::eq(table.data().rd_tableam, &*self.0)
    }
}

/// What a relation is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Table,
    MaterializedView,
    Partitioned,
    View,
    Index,
    Other,
}

impl Kind {
    pub(super) fn of(kind: core::ffi::c_char) -> Kind {
        match kind as u8 {
            pg_sys::RELKIND_RELATION => Kind::Table,
            pg_sys::RELKIND_MATVIEW => Kind::MaterializedView,
            pg_sys::RELKIND_PARTITIONED_TABLE => Kind::Partitioned,
            pg_sys::RELKIND_VIEW => Kind::View,
            pg_sys::RELKIND_INDEX => Kind::Index,
            _ => Kind::Other,
        }
    }

    /// Is it a table or a materialized view, and not one of partitions?
    pub fn has_rows(self) -> bool {
        matches!(self, Kind::Table | Kind::MaterializedView)
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
}

/// The same by OID. A table that inherits from others without being a partition has ancestors too.
pub fn ancestors_of(table: pg_sys::Oid) -> Vec<pg_sys::Oid> {
    // SAFETY: inside a transaction; errors become panics at the boundary.
    unsafe {
        let list = pg_sys::ffi::pg_guard_ffi_boundary(|| get_partition_ancestors(table));
        oids(list)
    }
}

/// A table and all tables that inherit from it, partitions for example, locked.
///
/// # Safety
/// `table` must be the OID of a table.
pub unsafe fn inheritors(table: pg_sys::Oid, lock: LockMode) -> Vec<pg_sys::Oid> {
    // SAFETY: by contract; errors become panics at the boundary.
    unsafe {
        oids(pg_sys::ffi::pg_guard_ffi_boundary(|| {
            find_all_inheritors(table, lock.as_raw(), core::ptr::null_mut())
        }))
    }
}
