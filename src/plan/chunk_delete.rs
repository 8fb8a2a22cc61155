//! Which DELETEs take rows of chunks together: those from one table, with conditions that are decided over vectors, and of which
//! nobody wants to know row by row: no RETURNING, no triggers on rows, no transition tables. Foreign keys that refer to the table are
//! such triggers. What is found out when the statement runs keeps core's way too: rollups and logical replication.

use crate::catalog::access_method;
use crate::catalog::keys;
use crate::exec::aggregate::conditions::Condition;
use crate::exec::chunk_delete::ChunkDelete;
use crate::guc;
use crate::pg::custom_scan::{path_above, path_methods_above, Shared};
use crate::pg::expression::Expression;
use crate::pg::lock_mode::LockMode;
use crate::pg::node::{cast, integer_list, items, list};
use crate::pg::relation::{Open, Table};
use pgrx::pg_sys::{self, Node, NodeTag};

/// Is the statement a DELETE from one table, and nothing besides?
unsafe fn is_plain_delete(root: *mut pg_sys::PlannerInfo) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        let query = (*root).parse;
        if (*query).commandType != pg_sys::CmdType::CMD_DELETE
            || !(*root).parent_root.is_null()
            || !(*query).returningList.is_null()
            || !(*query).cteList.is_null()
            || !(*(*root).glob).subplans.is_null()
            || (*root).hasPseudoConstantQuals
        {
            return false;
        }
        let from: Vec<*mut Node> = items((*(*query).jointree).fromlist).collect();
        let [only] = from[..] else {
            return false;
        };
        let only = cast::<pg_sys::RangeTblRef>(only, NodeTag::T_RangeTblRef);
        only.is_some_and(|only| (*only).rtindex == (*query).resultRelation)
    }
}

/// Puts the node above the scan of a DELETE, if it can be of use there.
///
/// # Safety
/// Called by the planner's hook; all nodes belong to the planner's memory context.
pub unsafe fn offer(root: *mut pg_sys::PlannerInfo, modify: *mut pg_sys::ModifyTablePath) {
    // SAFETY: by contract.
    unsafe {
        if !is_plain_delete(root) {
            return;
        }
        let source = (*modify).subpath;
        let few = (*source).rows < guc::batch_rows() as f64;
        let number = (*(*root).parse).resultRelation;
        let entry = *(*root).simple_rte_array.add(number as usize);
        if few || !(*modify).canSetTag || (*entry).inh {
            return;
        }
        // The statement has its lock.
        let table = Open::table((*entry).relid, LockMode::Held);
        if !access_method::is_varve(table.rel())
            || !keys::may_have_chunks(table.rel())
            || concerns_rows(table.rel())
        {
            return;
        }
        let rel = *(*root).simple_rel_array.add(number as usize);
        let infos = items::<pg_sys::RestrictInfo>((*rel).baserestrictinfo);
        let clauses: Vec<*mut Node> = infos.map(|info| (*info).clause.cast()).collect();
        let is_decided = |clause: &*mut Node| {
            Condition::of(Expression::from_ptr(*clause)).is_some()
                && !pg_sys::contain_volatile_functions(*clause)
        };
        if clauses.iter().all(is_decided) {
            let private = list([integer_list([number]), list(clauses)]);
            (*modify).subpath = path_above(source, 0.0, private, &raw const PATH_METHODS.0).cast();
        }
    }
}

/// Does anybody want to know of each row that is deleted?
fn concerns_rows(table: Table<'_>) -> bool {
    table.triggers().is_some_and(|triggers| {
        triggers.trig_delete_before_row
            || triggers.trig_delete_after_row
            || triggers.trig_delete_old_table
    })
}

static PATH_METHODS: Shared<pg_sys::CustomPathMethods> =
    Shared(path_methods_above::<ChunkDelete>());
