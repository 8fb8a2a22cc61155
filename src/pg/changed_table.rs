//! Statements that change a table, while they are planned.

use super::node::items;
use super::planned_table::PlannedTable;
use super::planner::Planner;
use pgrx::pg_sys::{self, CmdType, Oid};

/// What a statement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    Insert,
    Delete,
    Other,
}

/// The table that a statement changes.
#[derive(Clone, Copy)]
pub struct ChangedTable<'a> {
    /// Its place in the range table, from 1.
    pub number: u32,
    pub oid: Oid,
    /// Does it stand for its partitions and descendants too?
    pub has_children: bool,
    /// As the statement reads it, if it does.
    pub read: Option<PlannedTable<'a>>,
}

impl<'a> Planner<'a> {
    fn statement(&self) -> &pg_sys::Query {
        // SAFETY: the handle's query is valid.
        unsafe { &*(*self.as_ptr()).parse }
    }

    /// What the statement does.
    pub fn command(self) -> Command {
        match self.statement().commandType {
            CmdType::CMD_INSERT => Command::Insert,
            CmdType::CMD_DELETE => Command::Delete,
            _ => Command::Other,
        }
    }

    /// The table that it changes; None where it changes none.
    pub fn changed_table(self) -> Option<ChangedTable<'a>> {
        let number = self.statement().resultRelation as u32;
        if number == 0 {
            return None;
        }
        // SAFETY: the range table has an entry of it, which the planner's array shows.
        let entry = unsafe { &**(*self.as_ptr()).simple_rte_array.add(number as usize) };
        Some(ChangedTable {
            number,
            oid: entry.relid,
            has_children: entry.inh,
            read: self.table(number),
        })
    }

    /// Is it the whole statement, without RETURNING, WITH, subqueries that are plans of their own, or conditions that are the same for all rows?
    pub fn stands_alone(self) -> bool {
        // SAFETY: the handle's query is valid.
        unsafe {
            let (root, statement) = (&*self.as_ptr(), self.statement());
            root.parent_root.is_null()
                && statement.returningList.is_null()
                && statement.cteList.is_null()
                && (*root.glob).subplans.is_null()
                && !root.hasPseudoConstantQuals
        }
    }

    /// What ON CONFLICT says, if it says DO NOTHING.
    pub fn does_nothing_on_conflict(self) -> Option<Arbiters> {
        // SAFETY: the handle's query is valid.
        unsafe {
            let conflict = self.statement().onConflict.as_ref()?;
            let does_nothing = conflict.action == pg_sys::OnConflictAction::ONCONFLICT_NOTHING;
            does_nothing.then(|| Arbiters::of(conflict))
        }
    }
}

/// Which unique indexes ON CONFLICT looks at.
pub enum Arbiters {
    All,
    /// That of a constraint; the OID is InvalidOid where it has none.
    Index(Oid),
    /// Those of these columns, from 1, in any order. None where something else is named: an expression, an operator class, a collation.
    Columns(Option<Vec<i16>>),
}

impl Arbiters {
    /// # Safety
    /// It must be valid. Within a guarded entry point.
    unsafe fn of(conflict: &pg_sys::OnConflictExpr) -> Arbiters {
        // SAFETY: the node is valid, and has a list of its own nodes; a syscache look-up.
        unsafe {
            if conflict.constraint != pg_sys::InvalidOid {
                return Arbiters::Index(pg_sys::get_constraint_index(conflict.constraint));
            }
            if conflict.arbiterElems.is_null() {
                return Arbiters::All;
            }
            let column_of = |element: *mut pg_sys::InferenceElem| {
                let node = (*element).expr;
                let tag = pg_sys::NodeTag::T_Var;
                let column = super::node::cast::<pg_sys::Var>(node, tag)?;
                let any_order = (*element).infercollid == pg_sys::InvalidOid
                    && (*element).inferopclass == pg_sys::InvalidOid;
                any_order.then_some((*column).varattno)
            };
            Arbiters::Columns(items(conflict.arbiterElems).map(column_of).collect())
        }
    }
}
