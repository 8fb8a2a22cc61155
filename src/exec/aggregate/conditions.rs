//! Conditions of WHERE that are decided over vectors: comparisons of a column with what is the same for all rows, lists of values
//! and null tests. Only operators of core's own families are taken, which raise no errors, so their order is of no concern; bounds
//! of blocks decide about whole ones.

use super::evaluate::{guarded, Evaluation};
use super::fold::{float_of, int_of, Width};
use super::lanes::{class_of, Class, Lane, Line};
use super::slice::Slice;
use crate::pg::node::{cast, items};
use crate::pg::varlena::body_in_place;
use pgrx::pg_sys::{self, Node, NodeTag, Oid};
use std::ops::Range;
use varve_columns::chunk::prefix_excludes;
use varve_columns::summary::{compare_floats, Bound};
use varve_columns::vector::filter::{self, Comparison};
use varve_columns::vector::Bitmap;

const BOOL_FAMILY: u32 = 424;
const INTEGER_FAMILY: u32 = 1976;
const FLOAT_FAMILY: u32 = 1970;
const DATETIME_FAMILY: u32 = 434;
const TEXT_FAMILY: u32 = 1994;

/// A condition on one column, before its argument is known.
pub struct Condition {
    /// The column, from 0.
    pub at: usize,
    class: Class,
    test: Test,
}

enum Test {
    Null(bool),
    Compare(Comparison, Argument),
    /// The column equals an element of an array.
    Any(Argument),
}

/// What the column is compared with: an expression without columns, and its type, or that of its elements.
struct Argument {
    expression: *mut Node,
    state: *mut pg_sys::ExprState,
    typ: Oid,
}

/// A condition whose argument is known.
#[derive(Clone, Debug)]
pub enum Bounded {
    /// Holds for no row.
    Never,
    Null(bool),
    Int(Comparison, i64),
    Float(Comparison, f64),
    /// Ascending.
    Ints(Vec<i64>),
    Floats(Vec<f64>),
    /// Ascending.
    Bytes(Vec<Vec<u8>>),
}

/// What bounds say of all rows of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    None,
    Some,
    All,
}

impl Condition {
    /// The condition that a clause is, if it is of this kind.
    ///
    /// # Safety
    /// `clause` must be a condition of a plan.
    pub unsafe fn of(clause: *mut Node) -> Option<Condition> {
        // SAFETY: by contract; a node's tag says what it is.
        unsafe {
            if let Some(var) = column(clause) {
                let test = bool_test(true);
                return ((*var).vartype == pg_sys::BOOLOID).then(|| Condition::on(var, test));
            }
            if let Some(test) = cast::<pg_sys::NullTest>(clause, NodeTag::T_NullTest) {
                let var = column((*test).arg.cast())?;
                let is_null = (*test).nulltesttype == pg_sys::NullTestType::IS_NULL;
                return (!(*test).argisrow).then(|| Condition::on(var, Test::Null(is_null)));
            }
            if let Some(not) = cast::<pg_sys::BoolExpr>(clause, NodeTag::T_BoolExpr) {
                if (*not).boolop != pg_sys::BoolExprType::NOT_EXPR {
                    return None;
                }
                let var = column(items::<Node>((*not).args).next()?)?;
                let test = bool_test(false);
                return ((*var).vartype == pg_sys::BOOLOID).then(|| Condition::on(var, test));
            }
            if let Some(operator) = cast::<pg_sys::OpExpr>(clause, NodeTag::T_OpExpr) {
                return comparison(operator);
            }
            let list = cast::<pg_sys::ScalarArrayOpExpr>(clause, NodeTag::T_ScalarArrayOpExpr)?;
            membership(list)
        }
    }

    unsafe fn on(var: *mut pg_sys::Var, test: Test) -> Condition {
        // SAFETY: the callers' contract.
        unsafe {
            Condition {
                at: (*var).varattno as usize - 1,
                class: class_of((*var).vartype),
                test,
            }
        }
    }

    /// Prepares the argument.
    ///
    /// # Safety
    /// `parent` must be the node that begins.
    pub unsafe fn begin(&mut self, parent: *mut pg_sys::PlanState) {
        if let Test::Compare(_, argument) | Test::Any(argument) = &mut self.test {
            // SAFETY: by contract.
            unsafe { argument.state = pg_sys::ExecInitExpr(argument.expression.cast(), parent) };
        }
    }

    /// Evaluates the argument, once for an execution.
    ///
    /// # Safety
    /// After `begin`; inside a guarded entry point.
    pub unsafe fn bind(&self, evaluation: &Evaluation) -> Bounded {
        // SAFETY: by contract.
        unsafe {
            let value_of = |argument: &Argument| {
                let (value, isnull) = guarded(|| evaluation.value(argument.state));
                (!isnull).then_some(value)
            };
            match &self.test {
                Test::Null(is_null) => Bounded::Null(*is_null),
                Test::Compare(comparison, argument) => match value_of(argument) {
                    None => Bounded::Never,
                    Some(value) => self.bind_comparison(*comparison, argument.typ, value),
                },
                Test::Any(argument) => match value_of(argument) {
                    None => Bounded::Never,
                    Some(array) => self.bind_list(argument.typ, array),
                },
            }
        }
    }

    unsafe fn bind_comparison(
        &self,
        comparison: Comparison,
        typ: Oid,
        value: pg_sys::Datum,
    ) -> Bounded {
        match self.class {
            Class::Int => Bounded::Int(comparison, int_of(value, length_of(typ))),
            Class::Single | Class::Double => Bounded::Float(comparison, double_of(typ, value)),
            // SAFETY: the caller's contract: a text.
            Class::Other => unsafe {
                Bounded::Bytes(vec![crate::pg::varlena::with_body(
                    value,
                    -1,
                    <[u8]>::to_vec,
                )])
            },
        }
    }

    unsafe fn bind_list(&self, typ: Oid, array: pg_sys::Datum) -> Bounded {
        // SAFETY: the caller's contract: an array.
        let elements = unsafe { elements_of(array) };
        match self.class {
            Class::Int => {
                let length = length_of(typ);
                let mut ints: Vec<i64> = elements.iter().map(|&e| int_of(e, length)).collect();
                ints.sort_unstable();
                ints.dedup();
                Bounded::Ints(ints)
            }
            Class::Single | Class::Double => {
                Bounded::Floats(elements.iter().map(|&e| double_of(typ, e)).collect())
            }
            Class::Other => {
                let body = |&element: &pg_sys::Datum| {
                    // SAFETY: as above; texts.
                    unsafe { crate::pg::varlena::with_body(element, -1, <[u8]>::to_vec) }
                };
                let mut values: Vec<Vec<u8>> = elements.iter().map(body).collect();
                values.sort_unstable();
                Bounded::Bytes(values)
            }
        }
    }
}

fn bool_test(value: bool) -> Test {
    // SAFETY: makes a constant node.
    let expression = unsafe { pg_sys::makeBoolConst(value, false) };
    Test::Compare(
        Comparison::Equal,
        Argument {
            expression,
            state: core::ptr::null_mut(),
            typ: pg_sys::BOOLOID,
        },
    )
}

fn length_of(typ: Oid) -> i16 {
    // SAFETY: a syscache look-up.
    unsafe { pg_sys::get_typlen(typ) }
}

fn double_of(typ: Oid, value: pg_sys::Datum) -> f64 {
    match typ {
        pg_sys::FLOAT4OID => float_of(value, Width::Single),
        _ => float_of(value, Width::Double),
    }
}

/// The column that an expression is, seen through changes of type that change nothing.
unsafe fn column(node: *mut Node) -> Option<*mut pg_sys::Var> {
    // SAFETY: the caller's contract.
    unsafe {
        if let Some(relabel) = cast::<pg_sys::RelabelType>(node, NodeTag::T_RelabelType) {
            let var = cast::<pg_sys::Var>((*relabel).arg.cast(), NodeTag::T_Var)?;
            let is_text =
                (*var).vartype == pg_sys::VARCHAROID && (*relabel).resulttype == pg_sys::TEXTOID;
            return is_text.then_some(var);
        }
        cast(node, NodeTag::T_Var)
    }
}

/// `column operator value` or the other way round.
unsafe fn comparison(operator: *mut pg_sys::OpExpr) -> Option<Condition> {
    // SAFETY: the caller's contract.
    unsafe {
        let arguments: Vec<*mut Node> = items((*operator).args).collect();
        let [left, right] = arguments[..] else {
            return None;
        };
        let (var, other, number) = match (column(left), column(right)) {
            (Some(var), None) => (var, right, (*operator).opno),
            (None, Some(var)) => (var, left, pg_sys::get_commutator((*operator).opno)),
            _ => return None,
        };
        if pg_sys::contain_var_clause(other) {
            return None;
        }
        let (comparison, typ) = meaning(number, (*var).vartype, (*operator).inputcollid)?;
        let argument = Argument {
            expression: other,
            state: core::ptr::null_mut(),
            typ,
        };
        Some(Condition::on(var, Test::Compare(comparison, argument)))
    }
}

/// `column = ANY (array)`.
unsafe fn membership(list: *mut pg_sys::ScalarArrayOpExpr) -> Option<Condition> {
    // SAFETY: the caller's contract.
    unsafe {
        let arguments: Vec<*mut Node> = items((*list).args).collect();
        let [left, right] = arguments[..] else {
            return None;
        };
        let var = column(left)?;
        if !(*list).useOr || pg_sys::contain_var_clause(right) {
            return None;
        }
        let (comparison, typ) = meaning((*list).opno, (*var).vartype, (*list).inputcollid)?;
        let argument = Argument {
            expression: right,
            state: core::ptr::null_mut(),
            typ,
        };
        (comparison == Comparison::Equal).then(|| Condition::on(var, Test::Any(argument)))
    }
}

/// The column of table `table`, from 1, and the one of another relation of which a clause says that they are equal, if the node can
/// choose rows by that.
///
/// # Safety
/// `operator` must be a condition of a query.
pub unsafe fn joinable(
    operator: *mut pg_sys::OpExpr,
    table: u32,
) -> Option<(i16, *mut pg_sys::Var)> {
    // SAFETY: by contract.
    unsafe {
        let arguments: Vec<*mut Node> = items((*operator).args).collect();
        let [left, right] = arguments[..] else {
            return None;
        };
        let (left, right) = (column(left)?, column(right)?);
        let (own, other, number) = match (
            (*left).varno as u32 == table,
            (*right).varno as u32 == table,
        ) {
            (true, false) => (left, right, (*operator).opno),
            (false, true) => {
                let commutator = pg_sys::get_commutator((*operator).opno);
                (right, left, commutator)
            }
            _ => return None,
        };
        let collation = (*operator).inputcollid;
        let (comparison, _) = meaning(number, (*own).vartype, collation)?;
        let is_plain = (*own).varattno > 0
            && comparison == Comparison::Equal
            && matches!(class_of((*own).vartype), Class::Int | Class::Other);
        is_plain.then_some(((*own).varattno, other))
    }
}

/// What an operator of core's families asks of a column of a type on its left, and the type on its right.
unsafe fn meaning(operator: Oid, column: Oid, collation: Oid) -> Option<(Comparison, Oid)> {
    // SAFETY: a catalog look-up.
    unsafe {
        if operator == pg_sys::InvalidOid || operator.to_u32() >= pg_sys::FirstNormalObjectId {
            return None;
        }
        let all = pg_sys::get_op_btree_interpretation(operator);
        for found in items::<pg_sys::OpBtreeInterpretation>(all) {
            let (left, right) = ((*found).oplefttype, (*found).oprighttype);
            let same_column = left == column || left == pg_sys::TEXTOID;
            let comparison = match (*found).strategy {
                1 => Comparison::Less,
                2 => Comparison::LessOrEqual,
                3 => Comparison::Equal,
                4 => Comparison::GreaterOrEqual,
                5 => Comparison::Greater,
                6 => Comparison::NotEqual,
                _ => continue,
            };
            let taken = same_column
                && match (*found).opfamily_id.to_u32() {
                    INTEGER_FAMILY | FLOAT_FAMILY => true,
                    BOOL_FAMILY | DATETIME_FAMILY => left == right,
                    TEXT_FAMILY => {
                        left == pg_sys::TEXTOID
                            && right == pg_sys::TEXTOID
                            && [pg_sys::TEXTOID, pg_sys::VARCHAROID].contains(&column)
                            && comparison == Comparison::Equal
                            && collation != pg_sys::InvalidOid
                            && pg_sys::get_collation_isdeterministic(collation)
                    }
                    _ => false,
                };
            if taken {
                return Some((comparison, right));
            }
        }
        None
    }
}

/// Elements of an array that are not null.
unsafe fn elements_of(array: pg_sys::Datum) -> Vec<pg_sys::Datum> {
    // SAFETY: the caller's contract; the copies live in the current memory context.
    unsafe {
        let array: *mut pg_sys::ArrayType = pg_sys::pg_detoast_datum(array.cast_mut_ptr()).cast();
        let (mut length, mut by_value, mut align) = (0i16, false, 0);
        let element = (*array).elemtype;
        pg_sys::get_typlenbyvalalign(element, &mut length, &mut by_value, &mut align);
        let (mut values, mut nulls, mut count) = (core::ptr::null_mut(), core::ptr::null_mut(), 0);
        pg_sys::deconstruct_array(
            array,
            element,
            i32::from(length),
            by_value,
            align,
            &mut values,
            &mut nulls,
            &mut count,
        );
        (0..count as usize)
            .filter(|&at| !*nulls.add(at))
            .map(|at| *values.add(at))
            .collect()
    }
}

impl Bounded {
    /// What bounds of values, of which `nulls` of `rows` are null, say.
    pub fn judge(&self, min: &Bound, max: &Bound, nulls: u32, rows: u32) -> Verdict {
        match self {
            Bounded::Never => return Verdict::None,
            Bounded::Null(wanted) => {
                return match (nulls, *wanted) {
                    (0, wanted) => {
                        if wanted {
                            Verdict::None
                        } else {
                            Verdict::All
                        }
                    }
                    (nulls, wanted) if nulls == rows => {
                        if wanted {
                            Verdict::All
                        } else {
                            Verdict::None
                        }
                    }
                    _ => Verdict::Some,
                };
            }
            _ if nulls == rows => return Verdict::None,
            _ => {}
        }
        let verdict = match (self, min, max) {
            (Bounded::Int(comparison, value), &Bound::Int(min), &Bound::Int(max)) => {
                judge_order(*comparison, min.cmp(value), max.cmp(value))
            }
            (Bounded::Float(comparison, value), &Bound::Float(min), &Bound::Float(max)) => {
                let (low, high) = (compare_floats(min, *value), compare_floats(max, *value));
                judge_order(*comparison, low, high)
            }
            (Bounded::Ints(values), &Bound::Int(min), &Bound::Int(max)) => {
                let at = values.partition_point(|value| *value < min);
                match values.get(at) {
                    Some(value) if *value <= max => match min == max {
                        true => Verdict::All,
                        false => Verdict::Some,
                    },
                    _ => Verdict::None,
                }
            }
            (Bounded::Bytes(values), min, max) => {
                match values.iter().all(|value| prefix_excludes(min, max, value)) {
                    true => Verdict::None,
                    false => Verdict::Some,
                }
            }
            _ => Verdict::Some,
        };
        match verdict {
            Verdict::All if nulls > 0 => Verdict::Some,
            verdict => verdict,
        }
    }

    /// Is a value, of so many bytes where it is an integer, one of a list?
    ///
    /// # Safety
    /// The value must be of the condition's column.
    pub unsafe fn lists(&self, (value, isnull): (pg_sys::Datum, bool), length: i16) -> bool {
        match self {
            _ if isnull => false,
            Bounded::Ints(wanted) => wanted.binary_search(&int_of(value, length)).is_ok(),
            // SAFETY: by contract: a text.
            Bounded::Bytes(wanted) => unsafe {
                crate::pg::varlena::with_body(value, -1, |body| has(wanted, body))
            },
            other => panic!("BUG: {other:?} is no list"),
        }
    }

    /// Does the condition hold for a value, of so many bytes where it is no text? None of a text that is not stored as it is.
    ///
    /// # Safety
    /// As `lists`.
    pub unsafe fn holds(
        &self,
        (value, isnull): (pg_sys::Datum, bool),
        length: i16,
    ) -> Option<bool> {
        let width = match length {
            4 => Width::Single,
            _ => Width::Double,
        };
        Some(match self {
            Bounded::Never => false,
            Bounded::Null(wanted) => isnull == *wanted,
            _ if isnull => false,
            Bounded::Int(comparison, other) => {
                satisfies(*comparison, int_of(value, length).cmp(other))
            }
            Bounded::Float(comparison, other) => {
                satisfies(*comparison, compare_floats(float_of(value, width), *other))
            }
            Bounded::Ints(wanted) => wanted.binary_search(&int_of(value, length)).is_ok(),
            Bounded::Floats(wanted) => {
                let value = float_of(value, width);
                wanted
                    .iter()
                    .any(|other| compare_floats(value, *other).is_eq())
            }
            // SAFETY: by contract: a text.
            Bounded::Bytes(wanted) => has(wanted, unsafe { body_in_place(value) }?),
        })
    }

    /// The rows, of so many that rise by equal steps, that satisfy it; None where they do not lie side by side.
    pub fn rows_of(&self, line: Line, count: usize) -> Option<Range<usize>> {
        let Bounded::Int(comparison, value) = self else {
            return None;
        };
        let not_below = || line.partition(0..count, |time| time >= *value);
        let above = || line.partition(0..count, |time| time > *value);
        Some(match comparison {
            Comparison::Less => 0..not_below(),
            Comparison::LessOrEqual => 0..above(),
            Comparison::Equal => not_below()..above(),
            Comparison::GreaterOrEqual => not_below()..count,
            Comparison::Greater => above()..count,
            Comparison::NotEqual => return None,
        })
    }

    /// Keeps the rows of a window for which the condition holds.
    pub fn keep(&self, lane: &Lane, window: &Range<u32>, rows: &mut Bitmap) {
        let valid = lane.valid(window);
        match (self, lane.slice(window)) {
            (Bounded::Never, _) => return *rows = Bitmap::none(window.len()),
            (Bounded::Null(wanted), _) => {
                let mut nulls = valid.unwrap_or_else(|| Bitmap::all(window.len()));
                if *wanted {
                    nulls.invert();
                }
                return rows.intersect(&nulls);
            }
            (Bounded::Int(comparison, value), Slice::Ints(values)) => {
                filter::compare_ints(values, *comparison, *value, rows);
            }
            (Bounded::Float(comparison, value), Slice::Floats(values)) => {
                filter::compare_f64(values, *comparison, *value, rows);
            }
            (Bounded::Ints(wanted), Slice::Ints(values)) => {
                filter::among_ints(values, wanted, rows);
            }
            (Bounded::Floats(wanted), Slice::Floats(values)) => rows.retain(|row| {
                let is_value = |value: &f64| compare_floats(values[row], *value).is_eq();
                wanted.iter().any(is_value)
            }),
            (Bounded::Bytes(wanted), _) => {
                if lane.is_constant() {
                    if !lane
                        .bytes(window, 0)
                        .is_some_and(|value| has(wanted, value))
                    {
                        *rows = Bitmap::none(window.len());
                    }
                } else {
                    rows.retain(|row| {
                        lane.bytes(window, row)
                            .is_some_and(|value| has(wanted, value))
                    });
                }
            }
            (condition, _) => panic!("BUG: {condition:?} of values of another kind"),
        }
        if let Some(valid) = valid {
            rows.intersect(&valid);
        }
    }
}

fn satisfies(comparison: Comparison, order: std::cmp::Ordering) -> bool {
    match comparison {
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::GreaterOrEqual => order.is_ge(),
        Comparison::Greater => order.is_gt(),
    }
}

fn has(wanted: &[Vec<u8>], value: &[u8]) -> bool {
    wanted
        .binary_search_by(|one| one.as_slice().cmp(value))
        .is_ok()
}

/// What the order of the least and of the greatest value, each against the constant, says.
fn judge_order(
    comparison: Comparison,
    min: std::cmp::Ordering,
    max: std::cmp::Ordering,
) -> Verdict {
    let (none, all) = match comparison {
        Comparison::Less => (min.is_ge(), max.is_lt()),
        Comparison::LessOrEqual => (min.is_gt(), max.is_le()),
        Comparison::Equal => (min.is_gt() || max.is_lt(), min.is_eq() && max.is_eq()),
        Comparison::NotEqual => (min.is_eq() && max.is_eq(), min.is_gt() || max.is_lt()),
        Comparison::GreaterOrEqual => (max.is_lt(), min.is_ge()),
        Comparison::Greater => (max.is_le(), min.is_gt()),
    };
    match (none, all) {
        (true, _) => Verdict::None,
        (_, true) => Verdict::All,
        _ => Verdict::Some,
    }
}
