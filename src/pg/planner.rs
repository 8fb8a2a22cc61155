//! A query that is being planned, and the tables that it reads, as the planner hands them to hooks.

use super::expression::{conjuncts, Expression};
use super::join_tree::JoinTree;
use super::node::{cast, items};
use super::planned_table::PlannedTable;
use super::sort_order::SortOrder;
use core::marker::PhantomData;
use core::ptr::NonNull;
use pgrx::pg_sys::{self, NodeTag, Oid};

/// A query that is being planned. What is made for it is in the current memory context, which is the planner's while it calls a hook. Functions that make,
/// reckon or look something up may raise errors: within a guarded entry point, as those that hooks in `pg` call are.
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
            // SAFETY: what the caller says is valid is not null.
            root: unsafe { NonNull::new_unchecked(root) },
            kept: PhantomData,
        }
    }

    /// For PostgreSQL's functions.
    #[inline]
    pub fn as_ptr(self) -> *mut pg_sys::PlannerInfo {
        self.root.as_ptr()
    }

    #[inline]
    fn fields(&self) -> &pg_sys::PlannerInfo {
        // SAFETY: the handle's query is valid.
        unsafe { self.root.as_ref() }
    }

    #[inline]
    fn query(&self) -> &pg_sys::Query {
        // SAFETY: as above.
        unsafe { &*self.fields().parse }
    }

    /// What it reads, if it is a query: CREATE INDEX and CLUSTER ask the planner about a table alone. Hooks are called when conditions have been
    /// preprocessed.
    pub fn join_tree(self) -> Option<JoinTree<'a>> {
        let tree: *mut pg_sys::Node = self.query().jointree.cast();
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

    /// Is a relation an ordinary table that FROM names?
    pub fn is_ordinary_table(self, table: PlannedTable<'_>) -> bool {
        table.is_named()
            && table.is_of_catalog()
            && self.entry(table).relkind as u8 == pg_sys::RELKIND_RELATION
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
        let query = self.query();
        !self.has_grouping_sets()
            && query.rowMarks.is_null()
            && (query.hasAggs || self.has_group_columns())
    }

    /// Is there a GROUP BY with columns that tell groups apart?
    pub fn has_group_columns(self) -> bool {
        !self.query().groupClause.is_null()
    }

    /// Is there a GROUPING SETS, ROLLUP or CUBE?
    pub fn has_grouping_sets(self) -> bool {
        !self.query().groupingSets.is_null()
    }

    /// The part of the rows that have the most common value of an expression, as statistics tell; 0 where they do not.
    pub fn most_common(self, expression: Expression<'a>) -> f64 {
        let (mut frequency, mut of_buckets) = (0.0, 0.0);
        // SAFETY: a planner's expression; both answers are written.
        unsafe {
            pg_sys::estimate_hash_bucket_stats(
                self.as_ptr(),
                expression.as_ptr(),
                1.0,
                &mut frequency,
                &mut of_buckets,
            );
        }
        frequency
    }

    /// Is there a window function of its rows?
    pub fn has_windows(self) -> bool {
        self.query().hasWindowFuncs
    }

    /// Does its select list make several rows of one?
    pub fn returns_sets(self) -> bool {
        self.query().hasTargetSRFs
    }

    /// Is there an aggregate of its rows?
    pub fn has_aggregates(self) -> bool {
        self.query().hasAggs
    }

    /// What HAVING says, taken apart at its AND.
    pub fn having(self) -> Vec<Expression<'a>> {
        // SAFETY: the handle's query is valid; its conditions are null, a list, or an expression.
        unsafe { conjuncts(self.query().havingQual) }
    }

    /// What its rows are made of, with what is sorted and grouped by.
    pub fn targets(self) -> impl Iterator<Item = Expression<'a>> {
        // SAFETY: the handle's query is valid, and has a list of target entries.
        unsafe {
            items::<pg_sys::TargetEntry>(self.fields().processed_tlist)
                .map(|entry| Expression::from_ptr((*entry).expr.cast()))
        }
    }

    /// The only member of FROM, if it is a relation, by its number. None of a query that the planner has made up.
    pub fn only_table(self) -> Option<u32> {
        // SAFETY: the handle's query is valid; its join tree is null or a FromExpr, whose list has nodes.
        unsafe {
            let tree = self.query().jointree.as_ref()?;
            let mut members = items::<pg_sys::Node>(tree.fromlist);
            let (Some(first), None) = (members.next(), members.next()) else {
                return None;
            };
            let only = cast::<pg_sys::RangeTblRef>(first, NodeTag::T_RangeTblRef)?;
            Some((*only).rtindex as u32)
        }
    }

    /// Does it read one relation?
    pub fn reads_one_table(self) -> bool {
        // SAFETY: the handle's query is valid, and has a set of relations.
        let members = unsafe { pg_sys::bms_membership(self.fields().all_baserels) };
        members == pg_sys::BMS_Membership::BMS_SINGLETON
    }

    /// The relation of a number, if the query reads it.
    pub fn table(self, number: u32) -> Option<PlannedTable<'a>> {
        let root = self.fields();
        if number >= root.simple_rel_array_size as u32 {
            return None;
        }
        // SAFETY: within the array; what is in it is null or valid.
        unsafe {
            let table = *root.simple_rel_array.add(number as usize);
            (!table.is_null()).then(|| PlannedTable::from_ptr(table))
        }
    }

    /// How many rows of the result are wanted: as many where it is 1 or more, a share of them where it is less, all where it is 0.
    pub fn tuple_fraction(self) -> f64 {
        self.fields().tuple_fraction
    }

    /// How many rows LIMIT and OFFSET want; less than 0 where that is not known.
    pub fn limit(self) -> f64 {
        self.fields().limit_tuples
    }

    /// The order in which its rows come out of scans and joins at best.
    pub fn wanted_order(self) -> SortOrder<'a> {
        // SAFETY: the handle's query is valid, and has lists of pathkeys.
        unsafe { SortOrder::from_ptr(self.fields().query_pathkeys) }
    }

    /// An order in which each group's rows come together. Columns that a condition makes constant are in none.
    pub fn group_order(self) -> SortOrder<'a> {
        // SAFETY: as above.
        unsafe { SortOrder::from_ptr(self.fields().group_pathkeys) }
    }

    /// What ORDER BY says.
    pub fn sort_order(self) -> SortOrder<'a> {
        // SAFETY: as above.
        unsafe { SortOrder::from_ptr(self.fields().sort_pathkeys) }
    }

    /// May parts of its plan run in several processes?
    pub fn may_be_parallel(self) -> bool {
        // SAFETY: the handle's query is valid.
        unsafe { (*self.fields().glob).parallelModeOK }
    }
}
