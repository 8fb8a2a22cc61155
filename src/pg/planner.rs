//! A query that is being planned, and the tables that it reads, as the planner hands them to hooks.

use super::expression::Expression;
use super::join_tree::JoinTree;
use super::node::items;
use core::marker::PhantomData;
use core::ptr::NonNull;
use pgrx::pg_sys::{self, Oid};

/// A query that is being planned.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Planner<'a> {
    root: NonNull<pg_sys::PlannerInfo>,
    kept: PhantomData<&'a pg_sys::PlannerInfo>,
}

impl<'a> Planner<'a> {
    /// A query that PostgreSQL hands to a hook of the planner's.
    ///
    /// # Safety
    /// `root` must be valid as long as the handle is used.
    #[inline]
    pub unsafe fn from_ptr(root: *mut pg_sys::PlannerInfo) -> Planner<'a> {
        debug_assert!(!root.is_null());
        Planner {
            // SAFETY: by contract: what is valid is not null.
            root: unsafe { NonNull::new_unchecked(root) },
            kept: PhantomData,
        }
    }

    /// For PostgreSQL's functions.
    #[inline]
    pub fn as_ptr(self) -> *mut pg_sys::PlannerInfo {
        self.root.as_ptr()
    }

    /// What it reads, if it is a query: CREATE INDEX and CLUSTER ask the planner about a table alone. Hooks are called when conditions have been
    /// preprocessed.
    pub fn join_tree(self) -> Option<JoinTree<'a>> {
        // SAFETY: the handle's query is valid.
        let tree: *mut pg_sys::Node = unsafe { (*(*self.as_ptr()).parse).jointree.cast() };
        // SAFETY: a node of the query's tree.
        (!tree.is_null()).then(|| unsafe { JoinTree::from_ptr(tree) })
    }

    /// An expression as far as its value is known or may be taken for known.
    pub fn estimate(self, expression: Expression<'a>) -> Expression<'a> {
        // SAFETY: the handle's query is valid; what comes out is in the planner's memory.
        unsafe {
            let expression = expression.as_ptr();
            Expression::from_ptr(pg_sys::estimate_expression_value(self.as_ptr(), expression))
        }
    }

    /// Is an expression of columns of one relation, of that number?
    pub fn is_of(self, expression: Expression<'_>, table: u32) -> bool {
        let mut only = 0;
        // SAFETY: the handle's query is valid; the set is palloc'd.
        unsafe {
            let tables = pg_sys::pull_varnos(self.as_ptr(), expression.as_ptr());
            pg_sys::bms_get_singleton_member(tables, &mut only) && only as u32 == table
        }
    }

    /// The row of the range table of a relation that it reads.
    fn entry(self, table: PlannedTable<'_>) -> &'a pg_sys::RangeTblEntry {
        // SAFETY: the handle's query is valid, and has an entry of each relation that it reads.
        unsafe {
            &**(*self.as_ptr())
                .simple_rte_array
                .add(table.number() as usize)
        }
    }

    /// The table that a relation of the query is, which the statement has locked; None of anything else, as a partitioned table, and
    /// of one that is looked at otherwise than row by row.
    pub fn plain_table(self, table: PlannedTable<'_>) -> Option<Oid> {
        if !table.is_plain() {
            return None;
        }
        let entry = self.entry(table);
        let kind = entry.relkind as u8;
        let is_table = kind == pg_sys::RELKIND_RELATION || kind == pg_sys::RELKIND_MATVIEW;
        let is_plain = is_table && !entry.inh && entry.tablesample.is_null();
        is_plain.then_some(entry.relid)
    }

    /// The OID of a relation that is one of the catalog's.
    pub fn oid(self, table: PlannedTable<'_>) -> Oid {
        self.entry(table).relid
    }

    /// Does a relation stand for its partitions and descendants too?
    pub fn has_children(self, table: PlannedTable<'_>) -> bool {
        self.entry(table).inh
    }

    /// Does it group, without sets of groups or locks of rows?
    pub fn groups_plainly(self) -> bool {
        // SAFETY: the handle's query is valid.
        unsafe {
            let query = (*self.as_ptr()).parse;
            (*query).groupingSets.is_null()
                && (*query).rowMarks.is_null()
                && ((*query).hasAggs || !(*query).groupClause.is_null())
        }
    }
}

/// A relation of a query that is being planned.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct PlannedTable<'a> {
    table: NonNull<pg_sys::RelOptInfo>,
    kept: PhantomData<&'a pg_sys::RelOptInfo>,
}

/// A condition of WHERE or ON on one relation.
#[derive(Clone, Copy)]
pub struct Restriction<'a> {
    pub clause: Expression<'a>,
    /// One of a lower level is asked first.
    pub security_level: u32,
    /// It is the same for all rows.
    pub is_constant: bool,
}

impl<'a> PlannedTable<'a> {
    /// A relation that PostgreSQL hands to a hook of the planner's.
    ///
    /// # Safety
    /// `table` must be valid as long as the handle is used.
    #[inline]
    pub unsafe fn from_ptr(table: *mut pg_sys::RelOptInfo) -> PlannedTable<'a> {
        debug_assert!(!table.is_null());
        PlannedTable {
            // SAFETY: by contract: what is valid is not null.
            table: unsafe { NonNull::new_unchecked(table) },
            kept: PhantomData,
        }
    }

    fn fields(&self) -> &pg_sys::RelOptInfo {
        // SAFETY: the handle's relation is valid.
        unsafe { self.table.as_ref() }
    }

    /// Its number in the query.
    #[inline]
    pub fn number(self) -> u32 {
        self.fields().relid
    }

    /// As many rows as conditions are thought to leave.
    #[inline]
    pub fn rows(self) -> f64 {
        self.fields().rows
    }

    /// As many as there are thought to be.
    #[inline]
    pub fn tuples(self) -> f64 {
        self.fields().tuples
    }

    /// Is it one relation of FROM or a partition, with rows of its own, and LATERAL names nothing in it?
    fn is_plain(self) -> bool {
        use pg_sys::RelOptKind::{RELOPT_BASEREL, RELOPT_OTHER_MEMBER_REL};
        let table = self.fields();
        [RELOPT_BASEREL, RELOPT_OTHER_MEMBER_REL].contains(&table.reloptkind)
            && table.rtekind == pg_sys::RTEKind::RTE_RELATION
            && table.lateral_relids.is_null()
    }

    /// Is it one that FROM names?
    pub fn is_named(self) -> bool {
        self.fields().reloptkind == pg_sys::RelOptKind::RELOPT_BASEREL
    }

    /// May an index of it or its partitioning be by an expression?
    pub fn may_use_expressions(self) -> bool {
        let by_expression = |index: *mut pg_sys::IndexOptInfo| {
            // SAFETY: an index of a list of such.
            unsafe { !(*index).indexprs.is_null() || !(*index).indpred.is_null() }
        };
        // SAFETY: the handle's relation is valid, and has a list of indexes.
        let mut indexes = unsafe { items(self.fields().indexlist) };
        !self.fields().part_scheme.is_null() || indexes.any(by_expression)
    }

    /// The conditions on it alone.
    pub fn restrictions(self) -> impl Iterator<Item = Restriction<'a>> {
        // SAFETY: the handle's relation is valid, and has a list of conditions.
        unsafe {
            items::<pg_sys::RestrictInfo>(self.fields().baserestrictinfo).map(|info| Restriction {
                clause: Expression::from_ptr((*info).clause.cast()),
                security_level: (*info).security_level,
                is_constant: (*info).pseudoconstant,
            })
        }
    }
}
