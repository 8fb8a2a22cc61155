//! Conditions on `time_bucket(width, t)` become conditions on t, which indexes and chunk summaries can use.
//!
//! For buckets of a clock without jumps, `time_bucket(width, t)` compared with a constant is the same as t compared with a
//! boundary; the condition is replaced. With a value that is known only at execution, or with a time zone, a condition that
//! follows is added. It happens in the hook that the planner calls for each table before it takes WHERE apart, so that it is in
//! time when the library is loaded by the very query.
use super::gapfill::buckets::{Buckets, TimeType};
use crate::functions::bucket::{Width, DAY_US};
use crate::functions::time_bucket::{
    varve_time_bucket, varve_time_bucket_date, varve_time_bucket_int2, varve_time_bucket_int4,
    varve_time_bucket_int8, varve_time_bucket_zone,
};
use crate::pg::fcinfo::Fcinfo;
use crate::pg::node::{cast, items, list as node_list};
use pgrx::pg_guard;
use pgrx::pg_sys::{self, Datum, Node, NodeTag, Oid};

/// More than a bucket of a zone's clock is longer than its width, and than two clocks differ.
const ZONE_SLACK_US: i64 = 3 * DAY_US;

static mut PREVIOUS_HOOK: pg_sys::get_relation_info_hook_type = None;

pub fn init() {
    // SAFETY: runs once, in the only thread.
    unsafe {
        PREVIOUS_HOOK = pg_sys::get_relation_info_hook;
        pg_sys::get_relation_info_hook = Some(get_relation_info);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn get_relation_info(
    root: *mut pg_sys::PlannerInfo,
    relation: Oid,
    inhparent: bool,
    rel: *mut pg_sys::RelOptInfo,
) {
    // SAFETY: called by the planner with valid arguments; hooks are C functions and may raise.
    unsafe {
        if let Some(previous) = PREVIOUS_HOOK {
            pg_sys::ffi::pg_guard_ffi_boundary(|| previous(root, relation, inhparent, rel));
        }
        // Children of a partitioned table come when the conditions have been taken apart already.
        if (*rel).reloptkind == pg_sys::RelOptKind::RELOPT_BASEREL {
            let table = Table {
                root,
                relid: (*rel).relid as i32,
                keeps_conditions: may_need_conditions(rel),
            };
            walk((*(*root).parse).jointree.cast(), &table);
        }
    }
}

/// The table whose conditions are looked at.
struct Table {
    root: *mut pg_sys::PlannerInfo,
    relid: i32,
    /// Conditions stay beside what follows from them.
    keeps_conditions: bool,
}

/// Whether an index or the partitioning of a table may be by an expression, so by `time_bucket` itself.
///
/// # Safety
/// `rel` is a table whose indexes and partitioning have been looked up.
unsafe fn may_need_conditions(rel: *mut pg_sys::RelOptInfo) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let by_expression = |index: *mut pg_sys::IndexOptInfo| {
            !(*index).indexprs.is_null() || !(*index).indpred.is_null()
        };
        !(*rel).part_scheme.is_null()
            || items::<pg_sys::IndexOptInfo>((*rel).indexlist).any(by_expression)
    }
}

/// # Safety
/// `node` is a join tree node whose conditions have been preprocessed; must run inside a guarded entry point.
unsafe fn walk(node: *mut Node, table: &Table) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(from) = cast::<pg_sys::FromExpr>(node, NodeTag::T_FromExpr) {
            items::<Node>((*from).fromlist).for_each(|child| walk(child, table));
            rewrite(&mut (*from).quals, table);
        } else if let Some(join) = cast::<pg_sys::JoinExpr>(node, NodeTag::T_JoinExpr) {
            walk((*join).larg, table);
            walk((*join).rarg, table);
            rewrite(&mut (*join).quals, table);
        }
    }
}

/// # Safety
/// `quals` is null or an implicit-AND list; must run inside a guarded entry point.
unsafe fn rewrite(quals: &mut *mut Node, table: &Table) {
    // SAFETY: the caller's promise.
    unsafe {
        if cast::<pg_sys::List>(*quals, NodeTag::T_List).is_none() {
            return;
        }
        let conditions: Vec<*mut Node> = items((*quals).cast()).collect();
        let mut changed = false;
        let mut rewritten = Vec::with_capacity(conditions.len());
        for condition in &conditions {
            let derived = Comparison::of(*condition)
                .filter(|c| c.concerns(table))
                .and_then(|c| c.on_time());
            let Some(Derived {
                conditions: derived,
                exact,
            }) = derived
            else {
                rewritten.push(*condition);
                continue;
            };
            let exact = exact && !table.keeps_conditions;
            if !exact {
                rewritten.push(*condition);
            }
            for new in derived {
                if !conditions
                    .iter()
                    .any(|known| pg_sys::equal(known.cast(), new.cast()))
                {
                    rewritten.push(new);
                    changed = true;
                }
            }
            changed |= exact;
        }
        if changed {
            *quals = node_list(rewritten).cast();
        }
    }
}

/// Conditions on the time; `exact` if they say no less than the one on the bucket.
struct Derived {
    conditions: Vec<*mut Node>,
    exact: bool,
}

/// `time_bucket(width, time [, zone]) operator value`, with a constant width.
struct Comparison {
    buckets: Option<Buckets>,
    /// A fixed width, in the unit of the time type.
    fixed_width: Option<i64>,
    zoned: bool,
    call: *mut pg_sys::FuncExpr,
    time: *mut Node,
    time_type: TimeType,
    typ: Oid,
    strategy: u32,
    opfamily: Oid,
    value: *mut Node,
}

impl Comparison {
    /// # Safety
    /// `condition` is an expression; must run inside a guarded entry point.
    unsafe fn of(condition: *mut Node) -> Option<Comparison> {
        // SAFETY: the caller's promise; a comparison has two arguments.
        unsafe {
            let operator = cast::<pg_sys::OpExpr>(condition, NodeTag::T_OpExpr)?;
            let arguments: Vec<*mut Node> = items((*operator).args).collect();
            let [left, right] = arguments[..] else {
                return None;
            };
            let (call, value, commuted) = match (time_bucket_call(left), time_bucket_call(right)) {
                (Some(call), None) => (call, right, false),
                (None, Some(call)) => (call, left, true),
                _ => return None,
            };
            let arguments: Vec<*mut Node> = items((*call).args).collect();
            let (zoned, constants) = match arguments[..] {
                [_, _] => (false, true),
                [_, _, _, origin, offset] => (true, is_null(origin) && is_null(offset)),
                _ => return None,
            };
            let (width, time) = (arguments[0], arguments[1]);
            let typ = pg_sys::exprType(time);
            let width = cast::<pg_sys::Const>(width, NodeTag::T_Const)
                .filter(|width| !(**width).constisnull)?;
            let usable = constants
                && pg_sys::exprType(value) == typ
                && !pg_sys::contain_var_clause(value)
                && !pg_sys::contain_volatile_functions(value)
                && !pg_sys::contain_volatile_functions(time);
            if !usable {
                return None;
            }
            let interpretations = pg_sys::get_op_btree_interpretation((*operator).opno);
            let interpretation = items::<pg_sys::OpBtreeInterpretation>(interpretations).next()?;
            let strategy = (*interpretation).strategy as u32;
            // Of `<>` nothing follows for the time.
            if strategy > pg_sys::BTGreaterStrategyNumber {
                return None;
            }
            let time_type = TimeType::of(typ)?;
            let (buckets, fixed_width) = buckets_of(time_type, (*width).constvalue)?;
            Some(Comparison {
                buckets: (!zoned).then_some(buckets),
                fixed_width,
                zoned,
                call,
                time,
                time_type,
                typ,
                strategy: if commuted {
                    pg_sys::BTGreaterStrategyNumber + 1 - strategy
                } else {
                    strategy
                },
                opfamily: (*interpretation).opfamily_id,
                value,
            })
        }
    }

    /// Whether the time is of this table alone.
    ///
    /// # Safety
    /// Must run inside a guarded entry point.
    unsafe fn concerns(&self, table: &Table) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            let tables = pg_sys::pull_varnos(table.root, self.time);
            let mut only = 0;
            pg_sys::bms_get_singleton_member(tables, &mut only) && only == table.relid
        }
    }

    /// # Safety
    /// Must run inside a guarded entry point.
    unsafe fn on_time(self) -> Option<Derived> {
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(value) = cast::<pg_sys::Const>(self.value, NodeTag::T_Const) {
                if (*value).constisnull {
                    return None;
                }
                let number = self.time_type.number((*value).constvalue);
                if self.time_type.is_infinite(number) {
                    return None;
                }
                return if self.zoned {
                    self.zoned_bounds(number)
                } else {
                    self.boundaries(number)
                };
            }
            self.bounds_at_execution()
        }
    }

    /// Exactly: the bucket compared with a constant is the time compared with the boundary at or after it.
    ///
    /// # Safety
    /// Must run inside a guarded entry point.
    unsafe fn boundaries(mut self, value: i64) -> Option<Derived> {
        let buckets = self.buckets.as_mut()?;
        let at_or_before = buckets.containing(value).ok()?;
        let after = buckets.after(at_or_before)?;
        let at_or_after = if at_or_before == value { value } else { after };
        let bounds = match self.strategy {
            pg_sys::BTLessStrategyNumber => vec![(pg_sys::BTLessStrategyNumber, at_or_after)],
            pg_sys::BTLessEqualStrategyNumber => vec![(pg_sys::BTLessStrategyNumber, after)],
            pg_sys::BTGreaterEqualStrategyNumber => {
                vec![(pg_sys::BTGreaterEqualStrategyNumber, at_or_after)]
            }
            pg_sys::BTGreaterStrategyNumber => vec![(pg_sys::BTGreaterEqualStrategyNumber, after)],
            pg_sys::BTEqualStrategyNumber if at_or_before == value => {
                vec![
                    (pg_sys::BTGreaterEqualStrategyNumber, value),
                    (pg_sys::BTLessStrategyNumber, after),
                ]
            }
            _ => return None,
        };
        // SAFETY: the caller's promise.
        unsafe { self.with_constants(&bounds, true) }
    }

    /// A bucket is at or before its times, and its times are before its start, its width and some slack.
    ///
    /// # Safety
    /// Must run inside a guarded entry point.
    unsafe fn zoned_bounds(self, value: i64) -> Option<Derived> {
        let lower = (pg_sys::BTGreaterEqualStrategyNumber, value);
        let width = self.fixed_width.unwrap_or(0);
        let upper = value
            .checked_add(width)?
            .checked_add(ZONE_SLACK_US)
            .filter(|_| self.fixed_width.is_some());
        let upper = upper.map(|upper| (pg_sys::BTLessStrategyNumber, upper));
        let bounds: Vec<(u32, i64)> = match self.strategy {
            pg_sys::BTLessStrategyNumber | pg_sys::BTLessEqualStrategyNumber => {
                upper.into_iter().collect()
            }
            pg_sys::BTEqualStrategyNumber => upper.into_iter().chain([lower]).collect(),
            _ => vec![lower],
        };
        // SAFETY: the caller's promise.
        unsafe { self.with_constants(&bounds, false) }
    }

    /// # Safety
    /// Must run inside a guarded entry point.
    unsafe fn with_constants(&self, bounds: &[(u32, i64)], exact: bool) -> Option<Derived> {
        // SAFETY: the caller's promise; the numbers are times of this type.
        unsafe {
            let mut conditions = Vec::with_capacity(bounds.len());
            for (strategy, bound) in bounds {
                let datum = self.time_type.datum(*bound);
                if self.time_type.number(datum) != *bound || self.time_type.is_infinite(*bound) {
                    return None;
                }
                conditions.push(self.compared(*strategy, constant(self.typ, datum))?);
            }
            (!conditions.is_empty()).then_some(Derived { conditions, exact })
        }
    }

    /// For a value that is not known yet: `t >= value`, and `t <= time_bucket(width, value) + width`.
    ///
    /// # Safety
    /// Must run inside a guarded entry point.
    unsafe fn bounds_at_execution(&self) -> Option<Derived> {
        // SAFETY: the caller's promise.
        unsafe {
            let lower = || self.compared(pg_sys::BTGreaterEqualStrategyNumber, self.value);
            // Not less, but at most: both may be infinite.
            let upper = || self.compared(pg_sys::BTLessEqualStrategyNumber, self.end_of_bucket()?);
            let conditions: Vec<*mut Node> = match self.strategy {
                pg_sys::BTGreaterStrategyNumber | pg_sys::BTGreaterEqualStrategyNumber => {
                    lower().into_iter().collect()
                }
                pg_sys::BTEqualStrategyNumber => lower().into_iter().chain(upper()).collect(),
                _ => upper().into_iter().collect(),
            };
            (!conditions.is_empty()).then_some(Derived {
                conditions,
                exact: false,
            })
        }
    }

    /// `time_bucket(width, value) + width` for timestamps and fixed widths; other types say it only with constants.
    ///
    /// # Safety
    /// Must run inside a guarded entry point.
    unsafe fn end_of_bucket(&self) -> Option<*mut Node> {
        if self.zoned || self.time_type != TimeType::Timestamp {
            return None;
        }
        let plus = if self.typ == pg_sys::TIMESTAMPTZOID {
            pg_sys::F_TIMESTAMPTZ_PL_INTERVAL
        } else {
            pg_sys::F_TIMESTAMP_PL_INTERVAL
        };
        // SAFETY: the caller's promise.
        unsafe {
            let call: *mut pg_sys::FuncExpr = pg_sys::copyObjectImpl(self.call.cast()).cast();
            let width: *mut Node = items((*call).args).next()?;
            (*call).args = node_list([width, self.value]);
            // Days and time as time alone: then the session's time zone does not matter.
            let interval =
                pg_sys::palloc0(size_of::<pg_sys::Interval>()).cast::<pg_sys::Interval>();
            (*interval).time = self.fixed_width?;
            let interval = constant(pg_sys::INTERVALOID, Datum::from(interval));
            Some(
                pg_sys::makeFuncExpr(
                    Oid::from(plus),
                    self.typ,
                    node_list([call.cast(), interval]),
                    Oid::INVALID,
                    Oid::INVALID,
                    pg_sys::CoercionForm::COERCE_EXPLICIT_CALL,
                )
                .cast(),
            )
        }
    }

    /// `time operator value`.
    ///
    /// # Safety
    /// `value` is of the time's type; must run inside a guarded entry point.
    unsafe fn compared(&self, strategy: u32, value: *mut Node) -> Option<*mut Node> {
        // SAFETY: the caller's promise.
        unsafe {
            let operator =
                pg_sys::get_opfamily_member(self.opfamily, self.typ, self.typ, strategy as i16);
            if operator == Oid::INVALID {
                return None;
            }
            let time = pg_sys::copyObjectImpl(self.time.cast()).cast();
            let condition = pg_sys::make_opclause(
                operator,
                pg_sys::BOOLOID,
                false,
                time,
                value.cast(),
                Oid::INVALID,
                Oid::INVALID,
            );
            (*condition.cast::<pg_sys::OpExpr>()).opfuncid = pg_sys::get_opcode(operator);
            Some(condition.cast())
        }
    }
}

/// A call of `time_bucket` in a form that this file knows.
///
/// # Safety
/// `node` is an expression; must run inside a guarded entry point.
unsafe fn time_bucket_call(node: *mut Node) -> Option<*mut pg_sys::FuncExpr> {
    // SAFETY: the caller's promise.
    unsafe {
        let call = cast::<pg_sys::FuncExpr>(node, NodeTag::T_FuncExpr)?;
        if (*call).funcid.to_u32() < pg_sys::FirstNormalObjectId {
            return None;
        }
        let mut function = pg_sys::FmgrInfo::default();
        pg_sys::fmgr_info((*call).funcid, &mut function);
        let address = function.fn_addr? as usize;
        let known: [unsafe extern "C-unwind" fn(Fcinfo) -> Datum; 6] = [
            varve_time_bucket,
            varve_time_bucket_date,
            varve_time_bucket_int2,
            varve_time_bucket_int4,
            varve_time_bucket_int8,
            varve_time_bucket_zone,
        ];
        known
            .iter()
            .any(|function| *function as usize == address)
            .then_some(call)
    }
}

/// # Safety
/// `node` is an expression.
unsafe fn is_null(node: *mut Node) -> bool {
    // SAFETY: the caller's promise.
    unsafe { cast::<pg_sys::Const>(node, NodeTag::T_Const).is_some_and(|c| (*c).constisnull) }
}

/// The buckets of a width, and the width if it is a fixed one.
///
/// # Safety
/// `width` is an integer or an interval, as the time type goes with.
unsafe fn buckets_of(time_type: TimeType, width: Datum) -> Option<(Buckets, Option<i64>)> {
    // SAFETY: the caller's promise.
    let interval = || unsafe { &*width.cast_mut_ptr::<pg_sys::Interval>() };
    let fixed = |width: Width| match width {
        Width::Fixed(us) => Some(us),
        Width::Months(_) => None,
    };
    Some(match time_type {
        TimeType::Date => {
            let width = Width::of_days(interval()).ok()?;
            (Buckets::Date(width), fixed(width).map(|us| us / DAY_US))
        }
        TimeType::Timestamp => {
            let width = Width::of(interval()).ok()?;
            (Buckets::Clock(width), fixed(width))
        }
        integer => {
            let width = integer.number(width);
            if width <= 0 {
                return None;
            }
            (Buckets::Integer(width), Some(width))
        }
    })
}

/// # Safety
/// `value` is of a fixed-length type `typ`, an interval if not passed by value; must run inside a guarded entry point.
unsafe fn constant(typ: Oid, value: Datum) -> *mut Node {
    // SAFETY: the caller's promise.
    unsafe {
        let (mut len, mut by_value) = (0, false);
        pg_sys::get_typlenbyval(typ, &mut len, &mut by_value);
        pg_sys::makeConst(typ, -1, Oid::INVALID, len.into(), value, false, by_value).cast()
    }
}
