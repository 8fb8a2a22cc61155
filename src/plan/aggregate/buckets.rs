//! How many buckets of time there are: no more than there is room for between the first and the last time that conditions and statistics
//! leave, nor, where times are far apart, than there are times. Core takes an expression of a time for as fine as the time itself.

use crate::exec::aggregate::{class_of, int_of, is_epoch, number_of, Class};
use crate::functions;
use crate::pg::node::{cast, items};
use crate::pg::varlena::with_body;
use pgrx::pg_sys::{self, Node, NodeTag, Oid};

const SECOND_US: f64 = 1e6;
const DAY_S: f64 = 86_400.0;
const DAY_US: f64 = DAY_S * SECOND_US;
/// As core reckons where it has to.
const MONTH_US: f64 = 30.0 * DAY_US;
const YEAR_US: f64 = 365.25 * DAY_US;

/// What groups are by that are by buckets.
pub struct Buckets {
    /// How many there are at most, of all combinations.
    pub count: f64,
    /// The other columns of the groups.
    pub others: Vec<*mut Node>,
}

impl Buckets {
    /// None where groups are by no bucket of which width and bounds are known.
    ///
    /// # Safety
    /// Called by the planner's hook; `groups` are expressions over rows of `table`.
    pub unsafe fn of(
        root: *mut pg_sys::PlannerInfo,
        table: *mut pg_sys::RelOptInfo,
        groups: &[*mut Node],
    ) -> Option<Buckets> {
        let (mut counts, mut others) = (Vec::<(i16, f64)>::new(), Vec::new());
        for &group in groups {
            // SAFETY: by contract.
            unsafe {
                let rising = Rising::of(root, group).filter(|rising| rising.step > 0.0);
                let count = rising.and_then(|rising| rising.count(root, table));
                let Some((column, count)) = count else {
                    others.push(group);
                    continue;
                };
                // Buckets of an hour lie in those of a day.
                match counts.iter_mut().find(|known| known.0 == column) {
                    Some(known) => known.1 = known.1.max(count),
                    None => counts.push((column, count)),
                }
            }
        }
        (!counts.is_empty()).then(|| Buckets {
            count: counts.iter().map(|&(_, count)| count).product(),
            others,
        })
    }
}

/// An expression that rises with a column, but for what clocks of time zones do.
#[derive(Clone, Copy)]
struct Rising {
    column: *mut pg_sys::Var,
    /// How far the column rises where the expression rises by 1: one microsecond of a timestamp, one day of a date.
    unit: f64,
    /// How far it rises from one value of the expression to the next; 0: no further than its own values lie apart.
    step: f64,
}

impl Rising {
    /// # Safety
    /// `expression` must be an expression of the query that is planned.
    unsafe fn of(root: *mut pg_sys::PlannerInfo, expression: *mut Node) -> Option<Rising> {
        // SAFETY: by contract; a node's tag says what it is.
        unsafe {
            if let Some(column) = cast::<pg_sys::Var>(expression, NodeTag::T_Var) {
                let typ = (*column).vartype;
                let is_integer = class_of(typ) == Class::Int && typ != pg_sys::BOOLOID;
                return is_integer.then_some(Rising {
                    column,
                    unit: 1.0,
                    step: 0.0,
                });
            }
            if let Some(relabel) = cast::<pg_sys::RelabelType>(expression, NodeTag::T_RelabelType) {
                return Rising::of(root, (*relabel).arg.cast());
            }
            if let Some(call) = cast::<pg_sys::FuncExpr>(expression, NodeTag::T_FuncExpr) {
                let arguments: Vec<*mut Node> = items((*call).args).collect();
                return Rising::of_call(root, (*call).funcid, &arguments);
            }
            let operator = cast::<pg_sys::OpExpr>(expression, NodeTag::T_OpExpr)?;
            let arguments: Vec<*mut Node> = items((*operator).args).collect();
            let [left, right] = arguments[..] else {
                return None;
            };
            Rising::of_operator(root, pg_sys::get_opcode((*operator).opno), left, right)
        }
    }

    /// Its column, and how many values it has.
    unsafe fn count(
        self,
        root: *mut pg_sys::PlannerInfo,
        table: *mut pg_sys::RelOptInfo,
    ) -> Option<(i16, f64)> {
        // SAFETY: the caller's contract.
        let count = unsafe { steps(root, table, self.column, self.step) }?;
        // SAFETY: a column of the query.
        Some((unsafe { (*self.column).varattno }, count))
    }

    unsafe fn of_call(
        root: *mut pg_sys::PlannerInfo,
        function: Oid,
        arguments: &[*mut Node],
    ) -> Option<Rising> {
        // SAFETY: the caller's contract.
        unsafe {
            let argument = |at: usize| Rising::of(root, *arguments.get(at)?);
            if functions::is_monotone_bucket(function) || functions::is_zoned_bucket(function) {
                return argument(1)?.in_buckets(root, arguments);
            }
            match function.to_u32() {
                pg_sys::F_DATE_BIN_INTERVAL_TIMESTAMP_TIMESTAMP
                | pg_sys::F_DATE_BIN_INTERVAL_TIMESTAMPTZ_TIMESTAMPTZ => {
                    argument(1)?.in_buckets(root, arguments)
                }
                pg_sys::F_DATE_TRUNC_TEXT_TIMESTAMP
                | pg_sys::F_DATE_TRUNC_TEXT_TIMESTAMPTZ
                | pg_sys::F_DATE_TRUNC_TEXT_TIMESTAMPTZ_TEXT => {
                    Some(argument(1)?.apart(unit_us(arguments[0])?))
                }
                pg_sys::F_EXTRACT_TEXT_TIMESTAMP
                | pg_sys::F_EXTRACT_TEXT_TIMESTAMPTZ
                | pg_sys::F_DATE_PART_TEXT_TIMESTAMP
                | pg_sys::F_DATE_PART_TEXT_TIMESTAMPTZ => {
                    is_epoch(arguments[0]).then(|| Some(argument(1)?.by(SECOND_US)))?
                }
                pg_sys::F_EXTRACT_TEXT_DATE => {
                    is_epoch(arguments[0]).then(|| Some(argument(1)?.by(1.0 / DAY_S)))?
                }
                pg_sys::F_DATE_TIMESTAMP | pg_sys::F_DATE_TIMESTAMPTZ => {
                    Some(argument(0)?.by(DAY_US).apart(1.0))
                }
                pg_sys::F_TIMESTAMP_DATE | pg_sys::F_TIMESTAMPTZ_DATE => {
                    Some(argument(0)?.by(1.0 / DAY_US))
                }
                pg_sys::F_TO_TIMESTAMP_FLOAT8 => Some(argument(0)?.by(1.0 / SECOND_US)),
                pg_sys::F_TIMEZONE_TEXT_TIMESTAMP | pg_sys::F_TIMEZONE_TEXT_TIMESTAMPTZ => {
                    argument(1)
                }
                pg_sys::F_INT8_NUMERIC
                | pg_sys::F_INT4_NUMERIC
                | pg_sys::F_INT8_FLOAT8
                | pg_sys::F_INT4_FLOAT8
                | pg_sys::F_FLOOR_NUMERIC
                | pg_sys::F_FLOOR_FLOAT8
                | pg_sys::F_CEIL_NUMERIC
                | pg_sys::F_CEIL_FLOAT8
                | pg_sys::F_TRUNC_NUMERIC
                | pg_sys::F_TRUNC_FLOAT8
                | pg_sys::F_ROUND_NUMERIC
                | pg_sys::F_ROUND_FLOAT8 => Some(argument(0)?.apart(1.0)),
                pg_sys::F_TIMESTAMP_TIMESTAMPTZ
                | pg_sys::F_TIMESTAMPTZ_TIMESTAMP
                | pg_sys::F_FLOAT8_NUMERIC
                | pg_sys::F_NUMERIC_INT8
                | pg_sys::F_NUMERIC_INT4
                | pg_sys::F_INT8_INT4
                | pg_sys::F_INT8_INT2
                | pg_sys::F_INT4_INT2
                | pg_sys::F_FLOAT8_INT8
                | pg_sys::F_FLOAT8_INT4 => argument(0),
                _ => None,
            }
        }
    }

    unsafe fn of_operator(
        root: *mut pg_sys::PlannerInfo,
        function: Oid,
        left: *mut Node,
        right: *mut Node,
    ) -> Option<Rising> {
        // SAFETY: the caller's contract.
        unsafe {
            let positive = |node| number(root, node).filter(|&number| number > 0.0);
            match function.to_u32() {
                pg_sys::F_INT4DIV | pg_sys::F_INT8DIV | pg_sys::F_INT84DIV => {
                    Some(Rising::of(root, left)?.by(positive(right)?).apart(1.0))
                }
                pg_sys::F_FLOAT8DIV | pg_sys::F_NUMERIC_DIV => {
                    Some(Rising::of(root, left)?.by(positive(right)?))
                }
                pg_sys::F_INT4MUL
                | pg_sys::F_INT8MUL
                | pg_sys::F_INT84MUL
                | pg_sys::F_INT48MUL
                | pg_sys::F_FLOAT8MUL
                | pg_sys::F_NUMERIC_MUL => match positive(right) {
                    Some(factor) => Some(Rising::of(root, left)?.by(1.0 / factor)),
                    None => Some(Rising::of(root, right)?.by(1.0 / positive(left)?)),
                },
                pg_sys::F_INT4PL
                | pg_sys::F_INT8PL
                | pg_sys::F_INT84PL
                | pg_sys::F_FLOAT8PL
                | pg_sys::F_NUMERIC_ADD
                | pg_sys::F_INT4MI
                | pg_sys::F_INT8MI
                | pg_sys::F_INT84MI
                | pg_sys::F_FLOAT8MI
                | pg_sys::F_NUMERIC_SUB => {
                    number(root, right)?;
                    Rising::of(root, left)
                }
                _ => None,
            }
        }
    }

    /// An expression whose 1 is so much of this one.
    fn by(self, factor: f64) -> Rising {
        Rising {
            unit: self.unit * factor,
            ..self
        }
    }

    /// An expression whose values are so far apart at least.
    fn apart(self, width: f64) -> Rising {
        Rising {
            step: self.step.max(width * self.unit),
            ..self
        }
    }

    /// The bucket that a function of a width, a time, and what is of no concern puts this time into.
    unsafe fn in_buckets(
        self,
        root: *mut pg_sys::PlannerInfo,
        arguments: &[*mut Node],
    ) -> Option<Rising> {
        // SAFETY: the caller's contract: expressions.
        unsafe {
            let width = number(root, arguments[0]).filter(|&width| width > 0.0)?;
            Some(self.apart(match pg_sys::exprType(arguments[1]) {
                pg_sys::DATEOID => width / DAY_US,
                _ => width,
            }))
        }
    }
}

/// A number as far as it is known now; of an interval, its microseconds.
unsafe fn number(root: *mut pg_sys::PlannerInfo, expression: *mut Node) -> Option<f64> {
    // SAFETY: the caller's contract; a constant of that type is an interval.
    unsafe {
        let node = pg_sys::estimate_expression_value(root, expression);
        let constant = cast::<pg_sys::Const>(node, NodeTag::T_Const)?;
        if (*constant).constisnull || (*constant).consttype != pg_sys::INTERVALOID {
            return number_of(node);
        }
        let interval: *const pg_sys::Interval = (*constant).constvalue.cast_mut_ptr();
        let days = f64::from((*interval).day) * DAY_US;
        Some(f64::from((*interval).month) * MONTH_US + days + (*interval).time as f64)
    }
}

/// How far values of `date_trunc` of a field are apart.
unsafe fn unit_us(field: *mut Node) -> Option<f64> {
    // SAFETY: the caller's contract: a text where it is a constant.
    unsafe {
        let field = cast::<pg_sys::Const>(field, NodeTag::T_Const)?;
        if (*field).constisnull {
            return None;
        }
        with_body((*field).constvalue, -1, |field| {
            let field = field.to_ascii_lowercase();
            Some(match field.strip_suffix(b"s").unwrap_or(&field) {
                b"microsecond" => 1.0,
                b"millisecond" => SECOND_US / 1e3,
                b"second" => SECOND_US,
                b"minute" => 60.0 * SECOND_US,
                b"hour" => 3_600.0 * SECOND_US,
                b"day" => DAY_US,
                b"week" => 7.0 * DAY_US,
                b"month" => MONTH_US,
                b"quarter" => 3.0 * MONTH_US,
                b"year" => YEAR_US,
                b"decade" => 10.0 * YEAR_US,
                b"century" => 100.0 * YEAR_US,
                b"millennium" => 1_000.0 * YEAR_US,
                _ => return None,
            })
        })
    }
}

/// How many steps of such a width the values of a column lie in that conditions leave.
unsafe fn steps(
    root: *mut pg_sys::PlannerInfo,
    table: *mut pg_sys::RelOptInfo,
    column: *mut pg_sys::Var,
    width: f64,
) -> Option<f64> {
    // SAFETY: the caller's contract.
    let ((first, last), known) =
        unsafe { (asked(root, table, column), Known::of(root, table, column)) };
    let between = |first: f64, last: f64| (last / width).floor() - (first / width).floor() + 1.0;
    if let Some(known) = known {
        let (first, last) = (first.max(known.first()), last.min(known.last()));
        if first <= last {
            return Some(between(first, last).min(known.steps(first, last, width)));
        }
    }
    // What was loaded since ANALYZE is not in the statistics.
    (first.is_finite() && last.is_finite() && first <= last).then(|| between(first, last))
}

/// First and last value that conditions want; infinite where they do not say.
unsafe fn asked(
    root: *mut pg_sys::PlannerInfo,
    table: *mut pg_sys::RelOptInfo,
    column: *mut pg_sys::Var,
) -> (f64, f64) {
    let (mut first, mut last) = (f64::NEG_INFINITY, f64::INFINITY);
    // SAFETY: the caller's contract.
    unsafe {
        for info in items::<pg_sys::RestrictInfo>((*table).baserestrictinfo) {
            let Some((strategy, value)) = limit(root, (*info).clause.cast(), column) else {
                continue;
            };
            match strategy {
                pg_sys::BTLessStrategyNumber => last = last.min(value - 1.0),
                pg_sys::BTLessEqualStrategyNumber => last = last.min(value),
                pg_sys::BTEqualStrategyNumber => {
                    first = first.max(value);
                    last = last.min(value);
                }
                pg_sys::BTGreaterEqualStrategyNumber => first = first.max(value),
                pg_sys::BTGreaterStrategyNumber => first = first.max(value + 1.0),
                _ => {}
            }
        }
    }
    (first, last)
}

/// How a condition compares a column, and with which value, as far as that is known now.
unsafe fn limit(
    root: *mut pg_sys::PlannerInfo,
    condition: *mut Node,
    column: *mut pg_sys::Var,
) -> Option<(u32, f64)> {
    // SAFETY: the caller's contract; a node's tag says what it is.
    unsafe {
        let operator = cast::<pg_sys::OpExpr>(condition, NodeTag::T_OpExpr)?;
        let arguments: Vec<*mut Node> = items((*operator).args).collect();
        let [left, right] = arguments[..] else {
            return None;
        };
        let is_column = |node: *mut Node| pg_sys::equal(node.cast(), column.cast());
        let (other, is_commuted) = match (is_column(left), is_column(right)) {
            (true, false) => (right, false),
            (false, true) => (left, true),
            _ => return None,
        };
        let other = pg_sys::estimate_expression_value(root, other);
        let other = cast::<pg_sys::Const>(other, NodeTag::T_Const)?;
        if (*other).constisnull || (*other).consttype != (*column).vartype {
            return None;
        }
        let meanings = pg_sys::get_op_btree_interpretation((*operator).opno);
        let meaning = items::<pg_sys::OpBtreeInterpretation>(meanings).next()?;
        let strategy = (*meaning).strategy as u32;
        let value = int_of((*other).constvalue, pg_sys::get_typlen((*other).consttype));
        Some(match is_commuted {
            true => (
                (pg_sys::BTGreaterStrategyNumber + 1).checked_sub(strategy)?,
                value as f64,
            ),
            false => (strategy, value as f64),
        })
    }
}

/// What statistics say of a column.
struct Known {
    /// As many values are between each two of them.
    bounds: Vec<f64>,
    /// Different values between two of them.
    distinct: f64,
}

impl Known {
    unsafe fn of(
        root: *mut pg_sys::PlannerInfo,
        table: *mut pg_sys::RelOptInfo,
        column: *mut pg_sys::Var,
    ) -> Option<Known> {
        // SAFETY: the caller's contract; the values are read before they are released.
        unsafe {
            let entry = *(*root).simple_rte_array.add((*table).relid as usize);
            let row = pg_sys::SearchSysCache3(
                pg_sys::SysCacheIdentifier::STATRELATTINH as i32,
                (*entry).relid.into(),
                (*column).varattno.into(),
                (*entry).inh.into(),
            );
            if row.is_null() {
                return None;
            }
            let statistics: pg_sys::Form_pg_statistic = pg_sys::GETSTRUCT(row).cast();
            let distinct = match f64::from((*statistics).stadistinct) {
                share if share < 0.0 => -share * (*table).tuples.max((*table).rows),
                count => count,
            };
            let mut slot = pg_sys::AttStatsSlot::default();
            let kind = pg_sys::STATISTIC_KIND_HISTOGRAM as i32;
            let values = pg_sys::ATTSTATSSLOT_VALUES as i32;
            let mut bounds = Vec::new();
            if pg_sys::get_attstatsslot(&mut slot, row, kind, pg_sys::InvalidOid, values) {
                if slot.nvalues > 1 && slot.valuetype == (*column).vartype {
                    let length = pg_sys::get_typlen(slot.valuetype);
                    let all = core::slice::from_raw_parts(slot.values, slot.nvalues as usize);
                    bounds.extend(all.iter().map(|&bound| int_of(bound, length) as f64));
                }
                pg_sys::free_attstatsslot(&mut slot);
            }
            pg_sys::ReleaseSysCache(row);
            let distinct = distinct / bounds.len() as f64;
            (!bounds.is_empty()).then_some(Known { bounds, distinct })
        }
    }

    fn first(&self) -> f64 {
        self.bounds[0]
    }

    fn last(&self) -> f64 {
        self.bounds[self.bounds.len() - 1]
    }

    /// How many steps of a width values from one to another lie in: far apart, each has one of its own.
    fn steps(&self, first: f64, last: f64, width: f64) -> f64 {
        let of_pair = |pair: &[f64]| {
            let part = last.min(pair[1]) - first.max(pair[0]);
            (part / width).clamp(0.0, self.distinct.max(1.0))
        };
        let steps: f64 = self.bounds.windows(2).map(of_pair).sum();
        steps.ceil() + 1.0
    }
}
