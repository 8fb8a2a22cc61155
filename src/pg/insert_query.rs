//! An INSERT that is started, and what its plan does.

use super::executor_hooks::Query;
use super::node;
use super::plan_functions;
use super::relation::Table;
use pgrx::pg_sys::{self, CommandId, NodeTag, Oid};

/// An INSERT that returns nothing, beside no other change of the statement's.
#[derive(Clone, Copy)]
pub struct InsertQuery(Query);

impl InsertQuery {
    /// None of any other statement.
    pub fn of(query: Query) -> Option<InsertQuery> {
        let own = query.as_ptr();
        // SAFETY: a query that is started has its plan.
        let is_plain = unsafe {
            let statement = (*own).plannedstmt;
            (*own).operation == pg_sys::CmdType::CMD_INSERT
                && !(*statement).hasReturning
                && !(*statement).hasModifyingCTE
                && (*(*statement).planTree).type_ == NodeTag::T_ModifyTable
        };
        is_plain.then_some(InsertQuery(query))
    }

    fn plan(&self) -> *mut pg_sys::Plan {
        // SAFETY: as above.
        unsafe { (*(*self.0.as_ptr()).plannedstmt).planTree }
    }

    /// The table that it names.
    pub fn target(&self) -> Table<'_> {
        // SAFETY: an INSERT that is started has opened its target; its state is that of a ModifyTable.
        unsafe {
            let modify: *mut pg_sys::ModifyTableState = (*self.0.as_ptr()).planstate.cast();
            Table::from_ptr((*(*modify).resultRelInfo).ri_RelationDesc)
        }
    }

    /// How many rows its VALUES have; None where its rows come from something else.
    pub fn values(&self) -> Option<usize> {
        // SAFETY: the plan of an INSERT has its source as the left subtree; a node's tag says what it is.
        unsafe {
            let source = (*self.plan()).lefttree;
            match (*source).type_ {
                NodeTag::T_Result if (*source).lefttree.is_null() => Some(1),
                NodeTag::T_ValuesScan => {
                    let lists = (*source.cast::<pg_sys::ValuesScan>()).values_lists;
                    Some(node::of_list::<pg_sys::List>(lists).len())
                }
                _ => None,
            }
        }
    }

    /// Has it a word to say about rows that are there already, or policies and views that its rows are to satisfy?
    pub fn checks_rows(&self) -> bool {
        let modify: *mut pg_sys::ModifyTable = self.plan().cast();
        // SAFETY: the plan is a ModifyTable.
        unsafe {
            (*modify).onConflictAction != pg_sys::OnConflictAction::ONCONFLICT_NONE
                || !(*modify).withCheckOptionLists.is_null()
        }
    }

    /// Does it call a function that `is_meant` is true of? So it is taken to where that is not known. Within a guarded entry point.
    pub fn calls_any(&self, is_meant: fn(Oid) -> bool) -> bool {
        // SAFETY: the query is started.
        unsafe { plan_functions::calls_any((*self.0.as_ptr()).planstate, is_meant) }
    }

    /// The command that its rows are of.
    pub fn command(&self) -> CommandId {
        // SAFETY: as above.
        unsafe { (*(*self.0.as_ptr()).estate).es_output_cid }
    }
}
