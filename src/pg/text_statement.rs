//! Statements that a client sends as text, to be run at once, and plans that are kept for them.

use super::bare;
use super::functions;
use super::literals::{Literals, Span};
use super::memory::{self, Context};
use super::node::{self, items};
use super::planned_statement::Planned;
use super::valued_plan;
use core::marker::PhantomData;
use pgrx::pg_guard;
use pgrx::pg_sys::{self, CmdType, NodeTag, Oid};
use smallvec::SmallVec;
use std::ffi::{c_char, c_void, CStr};

/// Bytes of a statement's text that are kept to be shown.
const MOST_TEXT: i32 = 1023;
/// Bytes of a text whose statements are short, and so are their constants.
const LONGEST_TEXT: usize = 16 << 10;

/// A statement that was analyzed, and is about to be planned.
#[derive(Clone, Copy)]
pub struct TextStatement<'a> {
    query: *mut pg_sys::Query,
    text: *const c_char,
    kept: PhantomData<&'a pg_sys::Query>,
}

/// What is to be planned in a statement's stead: it has parameters where that one has constants.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct GenericQuery {
    pub(super) query: *mut pg_sys::Query,
    /// The same once more, with the bounds of its ranges, which estimates may look at. Null where there are no ranges.
    pub(super) ranged: *mut pg_sys::Query,
    pub(super) bounds: pg_sys::ParamListInfo,
}

/// A plan that is run at once, with values for its parameters.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct RunnablePlan(pub(super) *mut pg_sys::PlannedStmt);

impl TextStatement<'_> {
    /// # Safety
    /// The query must be one that was analyzed, of a text, and as long as the handle is used be there, and be nobody else's.
    pub(super) unsafe fn from_ptr(
        query: *mut pg_sys::Query,
        text: *const c_char,
    ) -> TextStatement<'static> {
        TextStatement {
            query,
            text,
            kept: PhantomData,
        }
    }

    fn query(&self) -> &pg_sys::Query {
        // SAFETY: valid as long as the handle is used.
        unsafe { &*self.query }
    }

    /// The only table that it reads or changes, but for those of subqueries: of an INSERT of one row of expressions, with ON CONFLICT or without, and of
    /// a SELECT without row locks. Of a SELECT of what one WITH query reads, and of tables beside it, it is that of the WITH query.
    pub fn only_table(&self) -> Option<Oid> {
        let mut query = self.query();
        // SAFETY: what an analyzed query refers to is valid.
        unsafe {
            if let Some(read) = read_with(query) {
                query = &*read;
                if query.commandType != CmdType::CMD_SELECT {
                    return None;
                }
            }
            let mut tables = items::<pg_sys::RangeTblEntry>(query.rtable);
            let table = tables.next()?;
            let others = tables.count();
            let is_plain = query.cteList.is_null()
                && !query.hasRowSecurity
                && query.withCheckOptions.is_null()
                && !query.hasTargetSRFs;
            let is_known = match query.commandType {
                CmdType::CMD_INSERT => {
                    // What is proposed to ON CONFLICT counts as another table.
                    let proposed = usize::from(!query.onConflict.is_null());
                    query.resultRelation == 1
                        && others == proposed
                        && !query.hasSubLinks
                        && (*query.jointree).fromlist.is_null()
                        && (*query.jointree).quals.is_null()
                }
                CmdType::CMD_SELECT => {
                    others == 0
                        && query.setOperations.is_null()
                        && query.rowMarks.is_null()
                        && !query.hasForUpdate
                        && items::<pg_sys::Node>((*query.jointree).fromlist).count() == 1
                }
                _ => false,
            };
            let is_table = (*table).rtekind == pg_sys::RTEKind::RTE_RELATION
                && (*table).relkind as u8 == pg_sys::RELKIND_RELATION
                && (*table).tablesample.is_null();
            (is_plain && is_known && is_table).then_some((*table).relid)
        }
    }

    pub fn inserts(&self) -> bool {
        self.query().commandType == CmdType::CMD_INSERT
    }

    /// The constants that a plan may have parameters for; None where there are many, or the text is long.
    pub fn literals(&self) -> Option<Literals> {
        // SAFETY: the query is an analyzed one, and valid; it is one of a text.
        unsafe {
            let length = bare::strnlen(self.text, LONGEST_TEXT + 1);
            (length <= LONGEST_TEXT)
                .then(|| Literals::of(self.query))
                .flatten()
        }
    }

    /// The tables that it names, but for those in subqueries that are no conditions of their own. Their locks were taken when it was analyzed.
    pub fn tables(&self) -> Vec<Oid> {
        let mut found = Vec::new();
        // SAFETY: what an analyzed query refers to is valid.
        unsafe { add_tables(self.query, &mut found) };
        found
    }

    /// Does it call functions that may be planned away?
    pub fn calls_what_is_planned_away(&self) -> bool {
        // SAFETY: the query is an analyzed one.
        unsafe { calls_any(self.query.cast(), core::ptr::null_mut()) }
    }

    /// Copies with parameters for the constants, which are its `literals`.
    pub fn generic(&self, literals: &Literals) -> GenericQuery {
        // SAFETY: the constants are the statement's.
        let bounds = unsafe { literals.bounds() };
        GenericQuery {
            query: self.with_parameters(),
            ranged: match bounds.is_null() {
                true => core::ptr::null_mut(),
                false => self.with_parameters(),
            },
            bounds,
        }
    }

    fn with_parameters(&self) -> *mut pg_sys::Query {
        // SAFETY: the copy is palloc'd, and nobody else's.
        unsafe {
            let copy: *mut pg_sys::Query = pg_sys::copyObjectImpl(self.query.cast()).cast();
            if let Some(literals) = Literals::of(copy) {
                literals.become_parameters();
            }
            copy
        }
    }
}

/// A statement that a plan is kept for, with all that are alike but for constants. It is freed by `delete` alone: what ends with the process needs no more.
pub struct KeptPlan {
    context: Context,
    /// Without its constants.
    query: *mut pg_sys::Query,
    spans: SmallVec<[Span; 1]>,
    /// Is the plan for ranges that are about as wide? Else it is for narrower ones too.
    is_of_spans: bool,
    /// Null where none is to be kept.
    plan: *mut pg_sys::PlannedStmt,
}

impl KeptPlan {
    /// For a statement, without a plan yet. In pg_backend_memory_contexts it has the statement's text.
    pub fn of(statement: TextStatement<'_>, literals: &Literals) -> KeptPlan {
        // SAFETY: the parent lives as long as the process; what is copied is valid.
        unsafe {
            let context = memory::small(pg_sys::CacheMemoryContext, c"varve kept plan");
            let query = memory::within(context, || {
                let length = CStr::from_ptr(statement.text).count_bytes() as i32;
                let shown = pg_sys::pg_mbcliplen(statement.text, length, MOST_TEXT);
                let text = pg_sys::pnstrdup(statement.text, shown as usize);
                pg_sys::MemoryContextSetIdentifier(context.as_ptr(), text);
                literals.while_hidden(|| pg_sys::copyObjectImpl(statement.query.cast()))
            });
            KeptPlan {
                context,
                query: query.cast(),
                spans: literals.spans(),
                is_of_spans: false,
                plan: core::ptr::null_mut(),
            }
        }
    }

    /// Is a statement this one, but for constants, and are its ranges not much wider, nor much narrower where the plan is for ranges as wide?
    pub fn is_of(&self, statement: TextStatement<'_>, literals: &Literals) -> bool {
        // SAFETY: both are valid queries. Where a text has several statements, lengths tell where each ends.
        unsafe {
            if (*self.query).commandType != (*statement.query).commandType {
                return false;
            }
            let length = (*statement.query).stmt_len;
            (*statement.query).stmt_len = (*self.query).stmt_len;
            let is_same =
                literals.while_hidden(|| pg_sys::equal(self.query.cast(), statement.query.cast()));
            (*statement.query).stmt_len = length;
            let spans = literals.spans();
            is_same
                && spans.iter().zip(&self.spans).all(|(one, planned)| {
                    one.is_within(planned) && (!self.is_of_spans || planned.is_within(one))
                })
        }
    }

    /// Keeps a copy of a plan that was made for the statement's `generic`: with the bounds of its ranges, if it is one `of_spans`.
    pub fn keep(&mut self, plan: Planned<'_>, of_spans: bool) {
        self.is_of_spans = of_spans;
        // SAFETY: the context is live until `delete`.
        self.plan = unsafe {
            memory::within(self.context, || pg_sys::copyObjectImpl(plan.0.cast())).cast()
        };
    }

    /// The plan for a statement that it `is_of`, which runs with that one's constants. None where none is kept.
    pub fn for_run(
        &self,
        statement: TextStatement<'_>,
        literals: &Literals,
    ) -> Option<RunnablePlan> {
        if self.plan.is_null() {
            return None;
        }
        // SAFETY: the plan's tree is not changed by who runs it, so it is shared.
        unsafe {
            let plan = valued_plan::make(self.plan, literals.constants());
            let query = statement.query();
            (*plan).queryId = query.queryId;
            (*plan).stmt_location = query.stmt_location;
            (*plan).stmt_len = query.stmt_len;
            Some(RunnablePlan(plan))
        }
    }

    /// Frees it. No statement may be running with its plan, or be about to.
    pub fn delete(self) {
        // SAFETY: made by `of`, and deleted once.
        unsafe { self.context.delete() }
    }
}

/// The WITH query of a SELECT that reads nothing but the rows of this one, and tables beside it. None where there is none, or several.
///
/// # Safety
/// `query` must be an analyzed one.
pub(super) unsafe fn read_with(query: &pg_sys::Query) -> Option<*mut pg_sys::Query> {
    // SAFETY: by contract; what an analyzed query refers to is valid.
    unsafe {
        let mut all = items::<pg_sys::CommonTableExpr>(query.cteList);
        let (Some(only), None) = (all.next(), all.next()) else {
            return None;
        };
        let is_plain = query.commandType == CmdType::CMD_SELECT
            && !query.hasRecursive
            && !query.hasRowSecurity
            && !query.hasTargetSRFs
            && !query.hasSubLinks
            && !query.hasForUpdate
            && query.rowMarks.is_null()
            && query.setOperations.is_null();
        let is_known = |entry: *mut pg_sys::RangeTblEntry| match (*entry).rtekind {
            pg_sys::RTEKind::RTE_CTE => true,
            pg_sys::RTEKind::RTE_JOIN => true,
            pg_sys::RTEKind::RTE_RELATION => {
                (*entry).relkind as u8 == pg_sys::RELKIND_RELATION && (*entry).tablesample.is_null()
            }
            _ => false,
        };
        let fits = is_plain && items(query.rtable).all(is_known);
        fits.then(|| node::cast((*only).ctequery, NodeTag::T_Query))?
    }
}

/// # Safety
/// `query` must be an analyzed one.
unsafe fn add_tables(query: *mut pg_sys::Query, found: &mut Vec<Oid>) {
    // SAFETY: by contract; what an analyzed query refers to is valid.
    unsafe {
        let entries = items::<pg_sys::RangeTblEntry>((*query).rtable);
        let tables = entries.filter(|&entry| (*entry).rtekind == pg_sys::RTEKind::RTE_RELATION);
        found.extend(tables.map(|entry| (*entry).relid));
        if let Some(read) = read_with(&*query) {
            add_tables(read, found);
        }
        if (*query).jointree.is_null() {
            return;
        }
        let quals = (*(*query).jointree).quals;
        let all = node::cast::<pg_sys::BoolExpr>(quals, NodeTag::T_BoolExpr);
        let conditions = match all {
            Some(all) if (*all).boolop == pg_sys::BoolExprType::AND_EXPR => {
                node::of_list((*all).args)
            }
            _ => vec![quals],
        };
        for condition in conditions {
            let link = node::cast::<pg_sys::SubLink>(condition, NodeTag::T_SubLink);
            let inner = link.map_or(core::ptr::null_mut(), |link| (*link).subselect);
            if let Some(inner) = node::cast::<pg_sys::Query>(inner, NodeTag::T_Query) {
                add_tables(inner, found);
            }
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn calls_any(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: called for the parts of an analyzed query.
    unsafe {
        match node::cast::<pg_sys::Query>(node, NodeTag::T_Query) {
            Some(query) => pg_sys::query_tree_walker(query, Some(calls_any), context, 0),
            None => {
                pg_sys::check_functions_in_node(node, Some(is_planned_away), context)
                    || pg_sys::expression_tree_walker(node, Some(calls_any), context)
            }
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn is_planned_away(function: Oid, _context: *mut c_void) -> bool {
    !functions::is_of_server(function) && functions::may_be_planned_away(function)
}
