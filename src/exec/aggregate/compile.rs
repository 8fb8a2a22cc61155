//! From the plan's expressions to what the node does with them: which columns it decodes, which aggregates it folds itself, and how it
//! tells groups apart.

use super::fold::{Fold, SumOf, Width};
use super::joined::JoinPart;
use super::key_type::KeyType;
use super::lanes::{class_of, Class};
use super::monotone::{rises_with, width_of};
use super::selection::Lanes;
use super::slices::SlicePart;
use super::sort_key::SortKey;
use super::transition::Transition;
use super::zoned::Zoned;
use crate::pg::aggregation::{Aggregating, Definition};
use crate::pg::custom_scan::{CustomPlan, NodeState};
use crate::pg::expression::Expression;
use crate::pg::expression_context::Prepared;
use crate::pg::expression_kinds::{self, Kind};
use crate::pg::functions;
use crate::pg::rights;
use crate::pg::time_zone::TimeZone;
use crate::pg::{types, InvalidOid, Oid};
use std::cell::Cell;

/// What the node computes, ready to run.
pub struct Compiled {
    pub groups: Vec<GroupColumn>,
    pub aggregates: Vec<Aggregate>,
    /// Groups go up once, with results in place of states.
    pub is_whole: bool,
    /// How many ranges of keys processes share then.
    pub ranges: u64,
    /// The lane of the column whose values a join names.
    pub joined: Option<usize>,
    /// That of the time column, where groups go up in the order of time.
    pub sliced: Option<usize>,
    /// The session's, by whose clock it was told how groups rise.
    zone: Option<TimeZone>,
}

/// A column that tells groups apart.
pub struct GroupColumn {
    pub state: Prepared,
    pub typ: KeyType,
    pub way: Way,
    /// What its expression needs.
    pub lanes: Vec<usize>,
    /// How far a value reaches, of an expression of a column whose values are as far apart as that.
    pub width: Option<i64>,
    /// The least of such values that has been met: it tells those of later times.
    pub least: Cell<Option<i64>>,
}

/// How rows of a window are told apart by a group column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// They are not.
    Same,
    /// By a column's values.
    Column(usize),
    /// By an expression that never falls where a column rises.
    Rising(usize),
    /// By a bucket of a zone's clock, of a column.
    Zoned(usize, Zoned),
    /// By an expression's value for each row.
    Each,
}

/// In place of the lane of an aggregate that counts rows.
pub const ROWS: usize = usize::MAX;

/// An aggregate.
pub struct Aggregate {
    pub keep: Keep,
    /// None where there is no filter.
    pub filter: Prepared,
    /// Its argument is this column (`ROWS`: it has none), and there is no filter: vectors are folded.
    pub vector: Option<usize>,
    /// Of its state nothing but a mean of doubles is wanted.
    pub mean_only: bool,
    /// What makes the result of a state, if anything has to.
    pub finish: Oid,
    /// What its expressions need.
    pub lanes: Vec<usize>,
}

/// Who keeps the states.
pub enum Keep {
    Fold {
        fold: Fold,
        /// None for `count(*)`.
        argument: Prepared,
        /// Length of its type.
        length: i16,
    },
    Core(Transition),
}

/// Does the node keep the states of an aggregate itself?
pub fn is_folded(aggregate: expression_kinds::Aggregate<'_>) -> bool {
    fold_of(aggregate, &aggregate.definition()).is_some()
}

/// Does the node know what core makes of the states that it keeps of an aggregate?
pub fn is_finished(aggregate: expression_kinds::Aggregate<'_>) -> bool {
    let definition = aggregate.definition();
    let is_known = match definition.finish.to_u32() {
        // The state is the result.
        0 => true,
        functions::F_INT8_AVG
        | functions::F_NUMERIC_POLY_SUM
        | functions::F_NUMERIC_POLY_AVG
        | functions::F_FLOAT8_AVG
        | functions::F_FLOAT8_VAR_POP
        | functions::F_FLOAT8_VAR_SAMP
        | functions::F_FLOAT8_STDDEV_POP
        | functions::F_FLOAT8_STDDEV_SAMP => true,
        _ => false,
    };
    is_known && fold_of(aggregate, &definition).is_some()
}

fn fold_of(aggregate: expression_kinds::Aggregate<'_>, definition: &Definition) -> Option<Fold> {
    let inputs = aggregate.argument_types();
    let class = inputs.first().map(|&typ| class_of(typ));
    let (fold, wanted, initial) = match definition.transition.to_u32() {
        functions::F_INT8INC if inputs.is_empty() => (Fold::Rows, None, Some("0")),
        functions::F_INT8INC_ANY => (Fold::Values, class, Some("0")),
        functions::F_INT2_SUM | functions::F_INT4_SUM => {
            (Fold::SumInt(SumOf::Int8), Some(Class::Int), None)
        }
        functions::F_INT2_AVG_ACCUM | functions::F_INT4_AVG_ACCUM => {
            (Fold::SumInt(SumOf::Pair), Some(Class::Int), Some("{0,0}"))
        }
        functions::F_INT8_AVG_ACCUM if definition.serialize != InvalidOid => {
            (Fold::SumInt(SumOf::Poly), Some(Class::Int), None)
        }
        functions::F_INT2SMALLER
        | functions::F_INT4SMALLER
        | functions::F_INT8SMALLER
        | functions::F_DATE_SMALLER
        | functions::F_TIMESTAMP_SMALLER
        | functions::F_TIMESTAMPTZ_SMALLER
        | functions::F_BOOLAND_STATEFUNC => (Fold::LeastInt, Some(Class::Int), None),
        functions::F_INT2LARGER
        | functions::F_INT4LARGER
        | functions::F_INT8LARGER
        | functions::F_DATE_LARGER
        | functions::F_TIMESTAMP_LARGER
        | functions::F_TIMESTAMPTZ_LARGER
        | functions::F_BOOLOR_STATEFUNC => (Fold::GreatestInt, Some(Class::Int), None),
        functions::F_FLOAT8SMALLER => (Fold::LeastFloat(Width::Double), Some(Class::Double), None),
        functions::F_FLOAT8LARGER => (
            Fold::GreatestFloat(Width::Double),
            Some(Class::Double),
            None,
        ),
        functions::F_FLOAT4SMALLER => (Fold::LeastFloat(Width::Single), Some(Class::Single), None),
        functions::F_FLOAT4LARGER => (
            Fold::GreatestFloat(Width::Single),
            Some(Class::Single),
            None,
        ),
        functions::F_FLOAT8PL => (Fold::SumFloat(Width::Double), Some(Class::Double), None),
        functions::F_FLOAT4PL => (Fold::SumFloat(Width::Single), Some(Class::Single), None),
        functions::F_FLOAT8_ACCUM => (Fold::Moments, Some(Class::Double), Some("{0,0,0}")),
        functions::F_FLOAT4_ACCUM => (Fold::Moments, Some(Class::Single), Some("{0,0,0}")),
        _ => return None,
    };
    let one_argument = inputs.len() == usize::from(fold != Fold::Rows);
    let fits = one_argument && class == wanted && definition.initial.as_deref() == initial;
    fits.then_some(fold)
}

/// What a plan of ours says: group columns, aggregates and conditions, in this order.
pub struct Parts {
    pub groups: Vec<Expression<'static>>,
    pub aggregates: Vec<expression_kinds::Aggregate<'static>>,
    pub conditions: Vec<Expression<'static>>,
    pub is_whole: bool,
    pub join: Option<JoinPart>,
    pub slices: Option<SlicePart>,
    /// The order in which groups go up; empty: any.
    pub order: Vec<SortKey>,
    pub ranges: u64,
}

impl Parts {
    /// `plan` must be one of `VarveAggregate`.
    pub fn of(plan: CustomPlan) -> Parts {
        let [numbers, slices, order, ranges] = [0, 1, 2, 3].map(|list| plan.private_integers(list));
        let (groups, aggregates) = (numbers[0] as usize, numbers[1] as usize);
        let above = plan.columns();
        assert!(
            above.len() == groups + aggregates,
            "BUG: a plan of other columns"
        );
        let aggregate = |&column: &Expression<'static>| match column.kind() {
            Kind::Aggregate(aggregate) => aggregate,
            _ => panic!("BUG: a plan's aggregate is something else"),
        };
        Parts {
            groups: above[..groups].to_vec(),
            aggregates: above[groups..].iter().map(aggregate).collect(),
            conditions: plan.kept(),
            is_whole: numbers[2] != 0,
            join: JoinPart::of(&numbers[3..]),
            slices: SlicePart::of(&slices),
            order: SortKey::of(&order),
            ranges: ranges.first().map_or(1, |&ranges| ranges as u64),
        }
    }
}

impl Compiled {
    /// # Safety
    /// `node` must begin, and `parts` and `lanes` be its; `executor` outlives it.
    pub unsafe fn new(
        node: NodeState,
        parts: &Parts,
        executor: Aggregating,
        lanes: &mut Lanes,
    ) -> Compiled {
        // SAFETY: by contract.
        unsafe {
            let groups = parts.groups.iter();
            let groups = groups.map(|&group| group_column(group, node, lanes));
            let groups = groups.collect();
            let aggregates = parts.aggregates.iter();
            for &aggregate in aggregates.clone() {
                check_rights(aggregate, parts.is_whole);
            }
            let mut aggregates: Vec<Aggregate> = aggregates
                .map(|&aggregate| compile_aggregate(aggregate, node, executor, lanes))
                .collect();
            for at in 0..aggregates.len() {
                aggregates[at].mean_only = is_mean_only(&parts.aggregates, &aggregates, at);
            }
            Compiled {
                groups,
                aggregates,
                is_whole: parts.is_whole,
                ranges: parts.ranges,
                joined: parts.join.map(|join| lanes.at(join.at)),
                sliced: parts.slices.map(|slices| lanes.at(slices.at)),
                zone: TimeZone::of_session(),
            }
        }
    }

    /// Asks expressions for each row where the session has got another clock since they were looked at.
    pub fn look_at_clock(&mut self) {
        if TimeZone::of_session() == self.zone {
            return;
        }
        for group in &mut self.groups {
            if matches!(group.way, Way::Rising(_) | Way::Zoned(..)) {
                (group.way, group.width) = (Way::Each, None);
            }
        }
    }

    /// Does the only group column rise with time? A plan that says so may be older than the session's clock.
    pub fn rises(&self) -> bool {
        let [group] = &self.groups[..] else {
            return false;
        };
        matches!(group.way, Way::Column(_) | Way::Rising(_))
    }
}

/// # Safety
/// `node` must begin, and `group` be an expression of its plan.
unsafe fn group_column(
    group: Expression<'static>,
    node: NodeState,
    lanes: &mut Lanes,
) -> GroupColumn {
    let needed = lanes.of([group]);
    let rising = rises_with(group).map(|column| lanes.at(column as usize - 1));
    let zoned = Zoned::of(group).map(|(column, zoned)| (lanes.at(column as usize - 1), zoned));
    let way = match (&needed[..], rising) {
        ([], _) => Way::Same,
        ([lane], _) if matches!(group.kind(), Kind::Column(_)) => Way::Column(*lane),
        ([lane], Some(rising)) if *lane == rising => Way::Rising(rising),
        _ => match zoned {
            Some((lane, zoned)) => Way::Zoned(lane, zoned),
            None => Way::Each,
        },
    };
    GroupColumn {
        // SAFETY: an expression of the node's plan.
        state: unsafe { node.prepared(Some(group)) },
        typ: KeyType::of(group.typ()),
        way,
        lanes: needed,
        width: width_of(group),
        least: Cell::new(None),
    }
}

/// Checks what core checks where it begins the same step of an aggregate of a plan. Within a guarded entry point.
fn check_rights(aggregate: expression_kinds::Aggregate<'_>, is_whole: bool) {
    let definition = aggregate.definition();
    let last = match is_whole {
        true => definition.finish,
        false => definition.serialize,
    };
    let functions = [last, definition.transition].into_iter();
    let functions = functions.filter(|&function| function != InvalidOid);
    // SAFETY: what a plan calls exists.
    unsafe { rights::check_aggregate(aggregate.function(), functions) };
}

/// # Safety
/// `node` must begin, and `aggregate` be one of its plan; `executor` outlives it.
unsafe fn compile_aggregate(
    aggregate: expression_kinds::Aggregate<'static>,
    node: NodeState,
    executor: Aggregating,
    lanes: &mut Lanes,
) -> Aggregate {
    // SAFETY: expressions of the node's plan, and the aggregate that they belong to.
    unsafe {
        let definition = aggregate.definition();
        let arguments: Vec<Expression<'_>> = aggregate.arguments().collect();
        let filter = aggregate.filter();
        let needed = lanes.of(arguments.iter().copied().chain(filter));
        let states = arguments
            .iter()
            .map(|&argument| node.prepared(Some(argument)));
        let states: Vec<Prepared> = states.collect();
        let fold = fold_of(aggregate, &definition);
        let vector = match (fold, filter.is_none()) {
            (Some(Fold::Rows), true) => Some(ROWS),
            (Some(_), true) => match arguments[0].kind() {
                Kind::Column(column) => Some(lanes.at(column.number() as usize - 1)),
                _ => None,
            },
            _ => None,
        };
        let keep = match fold {
            Some(fold) => Keep::Fold {
                fold,
                argument: states.first().copied().unwrap_or(Prepared::NONE),
                length: arguments
                    .first()
                    .map_or(0, |argument| types::length_of(argument.typ())),
            },
            None => {
                let signature = aggregate.signature();
                Keep::Core(Transition::new(&signature, &definition, states, executor))
            }
        };
        Aggregate {
            keep,
            filter: node.prepared(filter),
            vector,
            mean_only: false,
            finish: definition.finish,
            lanes: needed,
        }
    }
}

/// Is the state of an aggregate read by `avg(float8)` alone? Aggregates of the same argument share theirs.
fn is_mean_only(
    aggregates: &[expression_kinds::Aggregate<'_>],
    compiled: &[Aggregate],
    at: usize,
) -> bool {
    let state = aggregates[at].state_number();
    let mut all = aggregates.iter().zip(compiled);
    state >= 0
        && all.all(|(other, own)| {
            other.state_number() != state || own.finish.to_u32() == functions::F_FLOAT8_AVG
        })
}
