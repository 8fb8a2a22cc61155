//! Which INSERT statements may collect their rows in batches: those in which nothing can look at the
//! table while it is being filled, or wants the rows' TIDs (COPY's own rules for multi-inserts).

use crate::catalog::access_method;
use crate::guc;
use crate::pg::node;
use crate::pg::plan_functions;
use crate::pg::relation::Table;
use pgrx::pg_sys;
use std::ffi::CStr;

/// The command id of an INSERT whose rows may be collected; `None` for any other statement.
///
/// # Safety
/// `query` must be started.
pub unsafe fn eligible_command(query: *mut pg_sys::QueryDesc) -> Option<pg_sys::CommandId> {
    // SAFETY: by contract.
    unsafe {
        if (*query).operation != pg_sys::CmdType::CMD_INSERT {
            return None;
        }
        let statement = (*query).plannedstmt;
        let plan = (*statement).planTree;
        let plain = !(*statement).hasReturning
            && !(*statement).hasModifyingCTE
            && (*plan).type_ == pg_sys::NodeTag::T_ModifyTable;
        if !plain {
            return None;
        }
        let modify = plan.cast::<pg_sys::ModifyTable>();
        if !fills_varve_table((*query).planstate.cast()) || !may_reach_a_batch(plan) {
            return None;
        }
        let on_conflict = (*modify).onConflictAction != pg_sys::OnConflictAction::ONCONFLICT_NONE;
        let checks = !(*modify).withCheckOptionLists.is_null();
        if on_conflict || checks || plan_functions::calls_any((*query).planstate, may_run_sql) {
            return None;
        }
        Some((*(*query).estate).es_output_cid)
    }
}

/// Is the target a varve table, or a partitioned table that may have varve partitions?
unsafe fn fills_varve_table(modify: *mut pg_sys::ModifyTableState) -> bool {
    // SAFETY: a started INSERT has opened its target.
    unsafe {
        let target = Table::from_ptr((*(*modify).resultRelInfo).ri_RelationDesc);
        target.class().relkind as u8 == pg_sys::RELKIND_PARTITIONED_TABLE
            || access_method::is_varve(target)
    }
}

/// Single rows and short VALUES lists go to the tail without further thought.
unsafe fn may_reach_a_batch(plan: *mut pg_sys::Plan) -> bool {
    // SAFETY: the plan of an INSERT has its source as the left subtree.
    unsafe {
        let source = (*plan).lefttree;
        let rows = match (*source).type_ {
            pg_sys::NodeTag::T_Result if (*source).lefttree.is_null() => 1,
            pg_sys::NodeTag::T_ValuesScan => {
                node::of_list::<pg_sys::List>((*source.cast::<pg_sys::ValuesScan>()).values_lists)
                    .len()
            }
            _ => return true,
        };
        rows >= guc::batch_rows()
    }
}

/// A volatile function that is not one of the server's own, or is one of those that run queries.
fn may_run_sql(oid: pg_sys::Oid) -> bool {
    const RUN_QUERIES: [&CStr; 3] = [c"xml", c"ts_stat", c"ts_rewrite"];
    // SAFETY: syscache look-ups of a function that a plan names.
    unsafe {
        if pg_sys::func_volatile(oid) != pg_sys::PROVOLATILE_VOLATILE as core::ffi::c_char {
            return false;
        }
        if oid.to_u32() >= pg_sys::FirstNormalObjectId {
            return true;
        }
        let name = pg_sys::get_func_name(oid);
        if name.is_null() {
            return true;
        }
        let name = CStr::from_ptr(name).to_string_lossy();
        RUN_QUERIES
            .iter()
            .any(|part| name.contains(&*part.to_string_lossy()))
    }
}
