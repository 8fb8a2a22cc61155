//! The range to fill, as the query's conditions state it: `time >= X`, `time < Y`, BETWEEN, in any spelling.
use super::buckets::TimeType;
use crate::functions::errors::invalid;
use crate::pg::node::{cast, items};
use pgrx::pg_sys::{self, Node, NodeTag, Oid};

/// A limit on the time: a lower limit is a least time, an upper limit the first time beyond the range.
pub struct Bound {
    pub lower: bool,
    /// `>` and `<=`: the limit is the value's successor.
    pub successor: bool,
    /// The value is a timestamp, the time a date.
    pub date_from_timestamp: bool,
    pub value: *mut Node,
}

/// Every limit that holds for all rows of the query.
///
/// # Safety
/// `root` is a planner info whose conditions have been preprocessed; must run inside a guarded entry point.
pub unsafe fn collect(root: *mut pg_sys::PlannerInfo, time: *mut Node) -> Vec<Bound> {
    let mut bounds = Vec::new();
    // SAFETY: the caller's promise.
    unsafe { walk((*(*root).parse).jointree.cast(), time, &mut bounds) };
    bounds
}

/// # Safety
/// `node` is a join tree node.
unsafe fn walk(node: *mut Node, time: *mut Node, bounds: &mut Vec<Bound>) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(from) = cast::<pg_sys::FromExpr>(node, NodeTag::T_FromExpr) {
            items::<Node>((*from).fromlist).for_each(|child| walk(child, time, bounds));
            conditions((*from).quals, time, bounds);
        } else if let Some(join) = cast::<pg_sys::JoinExpr>(node, NodeTag::T_JoinExpr) {
            match (*join).jointype {
                pg_sys::JoinType::JOIN_INNER => {
                    walk((*join).larg, time, bounds);
                    walk((*join).rarg, time, bounds);
                    conditions((*join).quals, time, bounds);
                }
                // A condition on the inner side of an outer join, or in its ON, lets NULL-extended rows pass.
                pg_sys::JoinType::JOIN_LEFT
                | pg_sys::JoinType::JOIN_SEMI
                | pg_sys::JoinType::JOIN_ANTI => walk((*join).larg, time, bounds),
                _ => {}
            }
        }
    }
}

/// # Safety
/// `quals` is null or an implicit-AND list.
unsafe fn conditions(quals: *mut Node, time: *mut Node, bounds: &mut Vec<Bound>) {
    // SAFETY: the caller's promise.
    unsafe {
        if cast::<pg_sys::List>(quals, NodeTag::T_List).is_some() {
            items::<Node>(quals.cast())
                .for_each(|condition| from_condition(condition, time, bounds));
        }
    }
}

/// # Safety
/// `condition` is an expression.
unsafe fn from_condition(condition: *mut Node, time: *mut Node, bounds: &mut Vec<Bound>) {
    // SAFETY: the caller's promise; a binary operator has two arguments.
    unsafe {
        let Some(operator) = cast::<pg_sys::OpExpr>(condition, NodeTag::T_OpExpr) else {
            return;
        };
        let arguments: Vec<*mut Node> = items((*operator).args).collect();
        let [left, right] = arguments[..] else { return };
        let (value, commuted) = if pg_sys::equal(left.cast(), time.cast()) {
            (right, false)
        } else if pg_sys::equal(right.cast(), time.cast()) {
            (left, true)
        } else {
            return;
        };
        if pg_sys::contain_var_clause(value) || pg_sys::contain_volatile_functions(value) {
            return;
        }
        let Some((value, date_from_timestamp)) = fitting(value, pg_sys::exprType(time)) else {
            return;
        };
        let interpretation = items::<pg_sys::OpBtreeInterpretation>(
            pg_sys::get_op_btree_interpretation((*operator).opno),
        )
        .next();
        let Some(interpretation) = interpretation else {
            return;
        };
        let strategy = (*interpretation).strategy as u32;
        let mut add = |lower: bool, successor: bool| {
            bounds.push(Bound {
                lower,
                successor,
                date_from_timestamp,
                value,
            })
        };
        match (strategy, commuted) {
            (pg_sys::BTLessStrategyNumber, false) | (pg_sys::BTGreaterStrategyNumber, true) => {
                add(false, false)
            }
            (pg_sys::BTLessEqualStrategyNumber, false)
            | (pg_sys::BTGreaterEqualStrategyNumber, true) => add(false, true),
            (pg_sys::BTGreaterEqualStrategyNumber, false)
            | (pg_sys::BTLessEqualStrategyNumber, true) => add(true, false),
            (pg_sys::BTGreaterStrategyNumber, false) | (pg_sys::BTLessStrategyNumber, true) => {
                add(true, true)
            }
            (pg_sys::BTEqualStrategyNumber, _) => {
                add(true, false);
                add(false, true);
            }
            _ => {}
        }
    }
}

/// The value in the type of the time, or as a timestamp for a date; integers of any size fit each other.
///
/// # Safety
/// `value` is an expression.
unsafe fn fitting(value: *mut Node, time_type: Oid) -> Option<(*mut Node, bool)> {
    // SAFETY: the caller's promise.
    unsafe {
        let value_type = pg_sys::exprType(value);
        match (TimeType::of(time_type)?, TimeType::of(value_type)?) {
            (TimeType::Timestamp, TimeType::Timestamp) if value_type == time_type => {
                Some((value, false))
            }
            (TimeType::Timestamp, TimeType::Date | TimeType::Timestamp) => {
                Some((converted(value, value_type, time_type)?, false))
            }
            (TimeType::Date, TimeType::Date) => Some((value, false)),
            (TimeType::Date, TimeType::Timestamp) => {
                Some((converted(value, value_type, pg_sys::TIMESTAMPOID)?, true))
            }
            (TimeType::Date | TimeType::Timestamp, _)
            | (_, TimeType::Date | TimeType::Timestamp) => None,
            _ => Some((value, false)),
        }
    }
}

/// # Safety
/// `value` is an expression of type `from`.
unsafe fn converted(value: *mut Node, from: Oid, to: Oid) -> Option<*mut Node> {
    // SAFETY: the caller's promise; no parse state is needed for a conversion by function.
    let converted = unsafe {
        pg_sys::coerce_to_target_type(
            std::ptr::null_mut(),
            value,
            from,
            to,
            -1,
            pg_sys::CoercionContext::COERCION_EXPLICIT,
            pg_sys::CoercionForm::COERCE_IMPLICIT_CAST,
            -1,
        )
    };
    (!converted.is_null()).then_some(converted)
}

#[cold]
pub fn raise_missing_bound(which: &str) -> ! {
    let condition = if which == "start" {
        "time >= X"
    } else {
        "time < X"
    };
    invalid(
        format!("time_bucket_gapfill has no {which}"),
        &format!("Give {which} as an argument, or limit the very argument of the call in WHERE: {condition}."),
    )
}
