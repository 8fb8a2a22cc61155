//! Conditions of WHERE that are decided over vectors: comparisons of a column with what is the same for all rows, lists of values
//! and null tests. Only operators of core's own families are taken, which raise no errors, so their order is of no concern; bounds
//! of blocks decide about whole ones.

use super::evaluate::{guarded, Evaluation};
use super::fold::{float_of, int_of, Width};
use super::lanes::{class_of, Class, Lane, Line};
use super::slice::Slice;
use crate::pg::array;
use crate::pg::expression::Expression;
use crate::pg::expression_context::Prepared;
use crate::pg::expression_kinds::{ArrayOperator, Column, Connective, Kind, Operator};
use crate::pg::memory;
use crate::pg::operator::{self, Strategy};
use crate::pg::types;
use crate::pg::varlena::{body_in_place, with_body};
use crate::pg::{Datum, InvalidOid, Oid};
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
pub struct Condition<'a> {
    /// The column, from 0.
    pub at: usize,
    class: Class,
    test: Test<'a>,
}

enum Test<'a> {
    Null(bool),
    /// The column is true, or false.
    Is(bool),
    Compare(Comparison, Argument<'a>),
    /// The column equals an element of an array.
    Any(Argument<'a>),
}

/// What the column is compared with: an expression without columns, and its type, or that of its elements.
struct Argument<'a> {
    expression: Expression<'a>,
    prepared: Prepared,
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

impl<'a> Condition<'a> {
    /// The condition that a clause is, if it is of this kind. Within a guarded entry point.
    pub fn of(clause: Expression<'a>) -> Option<Condition<'a>> {
        match clause.kind() {
            Kind::Column(_) | Kind::Relabel(_) => Condition::of_boolean(clause, true),
            Kind::NullTest(test) => {
                let column = column(test.argument())?;
                let is_null = Test::Null(test.is_null());
                (!test.is_of_row()).then(|| Condition::on(column, is_null))
            }
            Kind::Boolean(not) if not.connective() == Connective::Not => {
                Condition::of_boolean(not.arguments().get(0)?, false)
            }
            Kind::Operator(operator) => comparison(operator),
            Kind::ArrayOperator(list) => membership(list),
            _ => None,
        }
    }

    /// A column of truth values, which is asked for one of them.
    fn of_boolean(expression: Expression<'a>, value: bool) -> Option<Condition<'a>> {
        let column = column(expression)?;
        (column.typ() == types::BOOLOID).then(|| Condition::on(column, Test::Is(value)))
    }

    fn on(column: Column<'_>, test: Test<'a>) -> Condition<'a> {
        Condition {
            at: column.number() as usize - 1,
            class: class_of(column.typ()),
            test,
        }
    }

    /// Prepares the argument by what gets an expression ready for the node that begins.
    pub fn begin(&mut self, prepare: impl FnOnce(Expression<'a>) -> Prepared) {
        if let Test::Compare(_, argument) | Test::Any(argument) = &mut self.test {
            argument.prepared = prepare(argument.expression);
        }
    }

    /// Evaluates the argument, once for an execution.
    ///
    /// # Safety
    /// After `begin`; inside a guarded entry point.
    pub unsafe fn bind(&self, evaluation: &Evaluation) -> Bounded {
        let value_of = |argument: &Argument<'_>| {
            // SAFETY: by contract.
            let (value, isnull) =
                unsafe { guarded(|| evaluation.value(argument.prepared.as_ptr())) };
            (!isnull).then_some(value)
        };
        // What is unpacked goes with what is evaluated for a row: a node may begin again for each row of another.
        let memory = evaluation.context.memory();
        match &self.test {
            Test::Null(is_null) => Bounded::Null(*is_null),
            Test::Is(value) => Bounded::Int(Comparison::Equal, i64::from(*value)),
            Test::Compare(comparison, argument) => match value_of(argument) {
                None => Bounded::Never,
                // SAFETY: a value of that type; the context is live.
                Some(value) => unsafe {
                    memory::within(memory, || {
                        self.bind_comparison(*comparison, argument.typ, value)
                    })
                },
            },
            Test::Any(argument) => match value_of(argument) {
                None => Bounded::Never,
                // SAFETY: an array of that type; the context is live.
                Some(array) => unsafe {
                    memory::within(memory, || self.bind_list(argument.typ, array))
                },
            },
        }
    }

    /// # Safety
    /// `value` must be a non-null value of type `typ`, that of the condition's argument; inside a guarded entry point.
    unsafe fn bind_comparison(&self, comparison: Comparison, typ: Oid, value: Datum) -> Bounded {
        match self.class {
            Class::Int => Bounded::Int(comparison, int_of(value, types::length_of(typ))),
            Class::Single | Class::Double => Bounded::Float(comparison, double_of(typ, value)),
            // SAFETY: the caller's contract: a text.
            Class::Other => Bounded::Bytes(vec![unsafe { with_body(value, -1, <[u8]>::to_vec) }]),
        }
    }

    /// # Safety
    /// `array` must be a non-null array of elements of type `typ`, that of the condition's argument; inside a guarded entry point.
    unsafe fn bind_list(&self, typ: Oid, array: Datum) -> Bounded {
        // SAFETY: the caller's contract: an array. The copies live in the current memory context.
        let elements = unsafe { array::elements(array) };
        match self.class {
            Class::Int => {
                let length = types::length_of(typ);
                let mut ints: Vec<i64> = elements.iter().map(|&e| int_of(e, length)).collect();
                ints.sort_unstable();
                ints.dedup();
                Bounded::Ints(ints)
            }
            Class::Single | Class::Double => {
                Bounded::Floats(elements.iter().map(|&e| double_of(typ, e)).collect())
            }
            Class::Other => {
                let body = |&element: &Datum| {
                    // SAFETY: as above; texts.
                    unsafe { with_body(element, -1, <[u8]>::to_vec) }
                };
                let mut values: Vec<Vec<u8>> = elements.iter().map(body).collect();
                values.sort_unstable();
                Bounded::Bytes(values)
            }
        }
    }
}

fn double_of(typ: Oid, value: Datum) -> f64 {
    match typ {
        types::FLOAT4OID => float_of(value, Width::Single),
        _ => float_of(value, Width::Double),
    }
}

/// The column that an expression is, seen through changes of type that change nothing.
fn column(expression: Expression<'_>) -> Option<Column<'_>> {
    match expression.kind() {
        Kind::Column(column) => Some(column),
        Kind::Relabel(relabel) => match relabel.argument().kind() {
            Kind::Column(column) => {
                let is_text = column.typ() == types::VARCHAROID && relabel.typ() == types::TEXTOID;
                is_text.then_some(column)
            }
            _ => None,
        },
        _ => None,
    }
}

/// `column operator value` or the other way round.
fn comparison(operator: Operator<'_>) -> Option<Condition<'_>> {
    let [left, right] = operator.arguments().array()?;
    let (column, other, number) = match (column(left), column(right)) {
        (Some(column), None) => (column, right, operator.number()),
        (None, Some(column)) => (column, left, operator::commutator(operator.number())),
        _ => return None,
    };
    if other.has_columns() {
        return None;
    }
    let (comparison, typ) = meaning(number, column.typ(), operator.collation())?;
    let argument = Argument {
        expression: other,
        prepared: Prepared::NONE,
        typ,
    };
    Some(Condition::on(column, Test::Compare(comparison, argument)))
}

/// `column = ANY (array)`.
fn membership(list: ArrayOperator<'_>) -> Option<Condition<'_>> {
    let [left, right] = list.arguments().array()?;
    let column = column(left)?;
    if !list.is_any() || right.has_columns() {
        return None;
    }
    let (comparison, typ) = meaning(list.number(), column.typ(), list.collation())?;
    let argument = Argument {
        expression: right,
        prepared: Prepared::NONE,
        typ,
    };
    (comparison == Comparison::Equal).then(|| Condition::on(column, Test::Any(argument)))
}

/// The column of table `table`, from 1, and the one of another relation of which a clause says that they are equal, if the node can
/// choose rows by that.
pub fn joinable(operator: Operator<'_>, table: u32) -> Option<(i16, Column<'_>)> {
    let [left, right] = operator.arguments().array()?;
    let (left, right) = (column(left)?, column(right)?);
    let (own, other, number) = match (left.table() == table, right.table() == table) {
        (true, false) => (left, right, operator.number()),
        (false, true) => (right, left, operator::commutator(operator.number())),
        _ => return None,
    };
    let (comparison, _) = meaning(number, own.typ(), operator.collation())?;
    let is_plain = own.number() > 0
        && comparison == Comparison::Equal
        && matches!(class_of(own.typ()), Class::Int | Class::Other);
    is_plain.then_some((own.number(), other))
}

/// What an operator of core's families asks of a column of a type on its left, and the type on its right.
fn meaning(operator: Oid, column: Oid, collation: Oid) -> Option<(Comparison, Oid)> {
    if !operator::is_of_server(operator) {
        return None;
    }
    for found in operator::meanings(operator) {
        let (left, right) = (found.left, found.right);
        let same_column = left == column || left == types::TEXTOID;
        let comparison = match found.strategy {
            Strategy::Less => Comparison::Less,
            Strategy::LessOrEqual => Comparison::LessOrEqual,
            Strategy::Equal => Comparison::Equal,
            Strategy::GreaterOrEqual => Comparison::GreaterOrEqual,
            Strategy::Greater => Comparison::Greater,
            Strategy::NotEqual => Comparison::NotEqual,
        };
        let taken = same_column
            && match found.family.to_u32() {
                INTEGER_FAMILY | FLOAT_FAMILY => true,
                BOOL_FAMILY | DATETIME_FAMILY => left == right,
                TEXT_FAMILY => {
                    left == types::TEXTOID
                        && right == types::TEXTOID
                        && [types::TEXTOID, types::VARCHAROID].contains(&column)
                        && comparison == Comparison::Equal
                        && collation != InvalidOid
                        && types::is_deterministic(collation)
                }
                _ => false,
            };
        if taken {
            return Some((comparison, right));
        }
    }
    None
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
    pub unsafe fn lists(&self, (value, isnull): (Datum, bool), length: i16) -> bool {
        match self {
            _ if isnull => false,
            Bounded::Ints(wanted) => wanted.binary_search(&int_of(value, length)).is_ok(),
            // SAFETY: by contract: a text.
            Bounded::Bytes(wanted) => unsafe { with_body(value, -1, |body| has(wanted, body)) },
            other => panic!("BUG: {other:?} is no list"),
        }
    }

    /// Does the condition hold for a value, of so many bytes where it is no text? None of a text that is not stored as it is.
    ///
    /// # Safety
    /// As `lists`.
    #[inline]
    pub unsafe fn holds(&self, (value, isnull): (Datum, bool), length: i16) -> Option<bool> {
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

    /// The integers that satisfy it, ascending, where they are listed.
    pub fn integers(&self) -> Option<&[i64]> {
        match self {
            Bounded::Int(Comparison::Equal, value) => Some(core::slice::from_ref(value)),
            Bounded::Ints(values) => Some(values),
            _ => None,
        }
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

/// So many values are looked at one by one.
const FEW: usize = 16;

/// May one of those that are wanted be the value? A look at each tells, where they are few: names that begin alike differ where they end.
#[inline]
pub fn may_have(wanted: &[Vec<u8>], value: &[u8]) -> bool {
    wanted.len() > FEW || wanted.iter().any(|one| is_like(one, value))
}

#[inline]
fn is_like(one: &[u8], value: &[u8]) -> bool {
    one.len() == value.len() && one.last() == value.last()
}

#[inline]
fn has(wanted: &[Vec<u8>], value: &[u8]) -> bool {
    if wanted.len() > FEW {
        let order = |one: &Vec<u8>| one.as_slice().cmp(value);
        return wanted.binary_search_by(order).is_ok();
    }
    wanted.iter().any(|one| is_like(one, value) && one == value)
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
