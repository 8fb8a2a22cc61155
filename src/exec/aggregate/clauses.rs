//! Conditions joined by AND and OR. A row is wanted where its clause is true; there is no NOT above a condition, so what is unknown
//! counts as false.

use super::conditions::{Bounded, Condition, Verdict};
use super::evaluate::Evaluation;
use super::lanes::Lane;
use super::row_ranges::{intersect, united};
use crate::chunk::read::Chunk;
use crate::pg::expression::Expression;
use crate::pg::expression_kinds::{Connective, Kind};
use std::ops::Range;
use varve_columns::vector::filter::Comparison;
use varve_columns::vector::Bitmap;

/// A clause over conditions.
pub enum Clause<C> {
    One(C),
    All(Vec<Clause<C>>),
    Any(Vec<Clause<C>>),
}

/// One whose arguments are known, each condition with its lane.
pub type Bound = Clause<(Bounded, usize)>;

impl<'a> Clause<Condition<'a>> {
    /// The clause that an expression is, if it is one of conditions that are decided over vectors. Within a guarded entry point.
    pub fn of(expression: Expression<'a>) -> Option<Clause<Condition<'a>>> {
        if let Some(condition) = Condition::of(expression) {
            return Some(Clause::One(condition));
        }
        let Kind::Boolean(boolean) = expression.kind() else {
            return None;
        };
        let parts = boolean.arguments().iter().map(Clause::of);
        match boolean.connective() {
            Connective::And => Some(Clause::All(parts.collect::<Option<_>>()?)),
            Connective::Or => Some(Clause::Any(parts.collect::<Option<_>>()?)),
            Connective::Not => None,
        }
    }
}

/// The conditions that values are not before `from`, and before `before`.
pub fn between(from: Option<i64>, before: Option<i64>, lane: usize) -> impl Iterator<Item = Bound> {
    let from = from.map(|value| Bounded::Int(Comparison::GreaterOrEqual, value));
    let before = before.map(|value| Bounded::Int(Comparison::Less, value));
    let both = from.into_iter().chain(before);
    both.map(move |bounded| Clause::One((bounded, lane)))
}

/// Is a condition decided over vectors?
pub fn is_decided(expression: Expression<'_>) -> bool {
    Clause::of(expression).is_some()
}

impl<C> Clause<C> {
    /// The same clause over what `change` makes of its conditions.
    pub fn map<D>(self, change: &mut impl FnMut(C) -> D) -> Clause<D> {
        let mut all =
            |parts: Vec<Clause<C>>| parts.into_iter().map(|part| part.map(change)).collect();
        match self {
            Clause::All(parts) => Clause::All(all(parts)),
            Clause::Any(parts) => Clause::Any(all(parts)),
            Clause::One(condition) => Clause::One(change(condition)),
        }
    }

    pub fn visit<'a>(&'a self, see: &mut impl FnMut(&'a C)) {
        match self {
            Clause::One(condition) => see(condition),
            Clause::All(parts) | Clause::Any(parts) => {
                parts.iter().for_each(|part| part.visit(see));
            }
        }
    }
}

impl Clause<(Condition<'_>, usize)> {
    /// Evaluates the arguments, once for an execution.
    ///
    /// # Safety
    /// As `Condition::bind`.
    pub unsafe fn bind(&self, evaluation: &Evaluation) -> Bound {
        // SAFETY: by contract.
        unsafe {
            let all = |parts: &[Self]| parts.iter().map(|part| part.bind(evaluation)).collect();
            match self {
                Clause::All(parts) => Clause::All(all(parts)),
                Clause::Any(parts) => Clause::Any(all(parts)),
                Clause::One((condition, lane)) => Clause::One((condition.bind(evaluation), *lane)),
            }
        }
    }
}

impl Bound {
    /// Does the clause hold for a row, of which `holds` says whether a condition on a column does?
    #[inline]
    pub fn holds(&self, holds: &impl Fn(&Bounded, usize) -> Option<bool>) -> Option<bool> {
        match self {
            Clause::One((condition, column)) => holds(condition, *column),
            Clause::All(parts) => first_that(parts, false, holds),
            Clause::Any(parts) => first_that(parts, true, holds),
        }
    }

    /// What bounds of a chunk say of its rows, and the rows of blocks that they do not exclude.
    pub fn candidates(&self, lanes: &mut [Lane], chunk: &Chunk) -> (Verdict, Vec<Range<u32>>) {
        let rows = chunk.header.rows;
        match self {
            Clause::One((condition, lane)) => one(condition, &mut lanes[*lane], chunk),
            Clause::All(parts) => {
                let (mut verdict, mut ranges) = (Verdict::All, whole(rows));
                for part in parts {
                    let (of_part, left) = part.candidates(lanes, chunk);
                    if of_part == Verdict::None {
                        return (Verdict::None, Vec::new());
                    }
                    if of_part == Verdict::Some {
                        verdict = Verdict::Some;
                    }
                    ranges = intersect(&ranges, &left);
                }
                (verdict, ranges)
            }
            Clause::Any(parts) => {
                let (mut verdict, mut ranges) = (Verdict::None, Vec::new());
                for part in parts {
                    let (of_part, left) = part.candidates(lanes, chunk);
                    match of_part {
                        Verdict::All => return (Verdict::All, whole(rows)),
                        Verdict::Some => verdict = Verdict::Some,
                        Verdict::None => {}
                    }
                    ranges.extend(left);
                }
                (verdict, united(ranges))
            }
        }
    }

    /// The rows of a window, which lie side by side, for which the clause is true, where bounds or a line tell; counts the blocks that had
    /// to be decoded.
    pub fn range_of(
        &self,
        lanes: &mut [Lane],
        chunk: &Chunk,
        rows: &Range<u32>,
        decoded: &mut u64,
    ) -> Option<Range<usize>> {
        let Clause::One((condition, lane)) = self else {
            return None;
        };
        let lane = &mut lanes[*lane];
        let block = lane.block(chunk, rows.start)?;
        let length = block.rows.len() as u32;
        match condition.judge(&block.min, &block.max, block.nulls, length) {
            Verdict::None => Some(0..0),
            Verdict::All => Some(0..rows.len()),
            Verdict::Some => {
                *decoded += u64::from(lane.decode_line(chunk, rows));
                condition.rows_of(lane.line(rows)?, rows.len())
            }
        }
    }

    /// Keeps the selected rows of a window for which the clause is true, and counts the blocks that had to be decoded.
    pub fn keep(
        &self,
        lanes: &mut [Lane],
        chunk: &Chunk,
        rows: &Range<u32>,
        selected: &mut Bitmap,
        decoded: &mut u64,
    ) {
        match self {
            Clause::One((condition, lane)) => {
                let lane = &mut lanes[*lane];
                let verdict = match lane.block(chunk, rows.start) {
                    Some(block) => {
                        let length = block.rows.len() as u32;
                        condition.judge(&block.min, &block.max, block.nulls, length)
                    }
                    None => Verdict::Some,
                };
                match verdict {
                    Verdict::None => *selected = Bitmap::none(rows.len()),
                    Verdict::All => {}
                    Verdict::Some => {
                        *decoded += u64::from(lane.decode_line(chunk, rows));
                        let kept = lane
                            .line(rows)
                            .and_then(|line| condition.rows_of(line, rows.len()));
                        match kept {
                            Some(kept) => selected.keep_range(kept),
                            None => {
                                lane.decode(chunk, rows);
                                condition.keep(lane, rows, selected);
                            }
                        }
                    }
                }
            }
            Clause::All(parts) => {
                for part in parts {
                    part.keep(lanes, chunk, rows, selected, decoded);
                    if selected.is_none() {
                        return;
                    }
                }
            }
            Clause::Any(parts) => {
                let mut kept = Bitmap::none(rows.len());
                for part in parts {
                    // Those that are kept already need no other reason.
                    let mut rest = selected.clone();
                    rest.subtract(&kept);
                    if rest.is_none() {
                        break;
                    }
                    part.keep(lanes, chunk, rows, &mut rest, decoded);
                    kept.unite(&rest);
                }
                *selected = kept;
            }
        }
    }
}

/// Is there a part that holds, or does not, as `decides` says? If so that is what the clause does.
fn first_that(
    parts: &[Bound],
    decides: bool,
    holds: &impl Fn(&Bounded, usize) -> Option<bool>,
) -> Option<bool> {
    for part in parts {
        if part.holds(holds)? == decides {
            return Some(decides);
        }
    }
    Some(!decides)
}

fn one(condition: &Bounded, lane: &mut Lane, chunk: &Chunk) -> (Verdict, Vec<Range<u32>>) {
    let rows = chunk.header.rows;
    let Some(head) = chunk.columns.columns().get(lane.at) else {
        return (Verdict::Some, whole(rows));
    };
    let summary = &head.summary;
    let verdict = condition.judge(&summary.min, &summary.max, head.nulls, rows);
    match verdict {
        Verdict::None => return (verdict, Vec::new()),
        Verdict::Some if !lane.is_constant() => {}
        _ => return (verdict, whole(rows)),
    }
    let mut left: Vec<Range<u32>> = Vec::new();
    for block in lane.directory(chunk).blocks() {
        let length = block.rows.len() as u32;
        if condition.judge(&block.min, &block.max, block.nulls, length) == Verdict::None {
            continue;
        }
        match left.last_mut().filter(|last| last.end == block.rows.start) {
            Some(last) => last.end = block.rows.end,
            None => left.push(block.rows.clone()),
        }
    }
    match left.is_empty() {
        true => (Verdict::None, left),
        false => (Verdict::Some, left),
    }
}

/// All rows, as ranges.
fn whole(rows: u32) -> Vec<Range<u32>> {
    core::iter::once(0..rows).collect()
}
