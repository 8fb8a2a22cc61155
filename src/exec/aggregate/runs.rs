//! Runs: neighbouring rows of a window with the same group columns. Columns are compared row by row; expressions that rise with
//! a column that rises are evaluated at the ends of runs, found by galloping; others are evaluated for each row. Nothing is
//! evaluated for rows that are not selected.

use super::compile::{GroupColumn, Way};
use super::evaluate::{guarded, Evaluation};
use super::lanes::Lane;
use super::slice::Slice;
use super::zoned::Zoned;
use crate::pg::error;
use crate::pg::Datum;
use smallvec::SmallVec;
use std::ops::Range;
use varve_columns::vector::Bitmap;

type Value = (Datum, bool);

/// Rows of a window that are in one group, and its columns, in the order in which they were looked at.
pub struct Run {
    pub rows: Range<usize>,
    pub values: SmallVec<[Value; 2]>,
}

/// A window of a chunk, decoded, and the rows of it that are wanted; `None`: all.
pub struct Window<'a> {
    pub rows: &'a Range<u32>,
    pub selected: Option<&'a Bitmap>,
    pub lanes: &'a [Lane],
    pub evaluation: &'a Evaluation,
}

impl Window<'_> {
    /// The first selected row of a range, and the last.
    fn ends(&self, range: &Range<usize>) -> Option<(usize, usize)> {
        match self.selected {
            None => Some((range.start, range.end - 1)),
            Some(rows) => {
                let mut at = range.start;
                while at < range.end && !rows.contains(at) {
                    at += 1;
                }
                if at == range.end {
                    return None;
                }
                let mut last = range.end - 1;
                while !rows.contains(last) {
                    last -= 1;
                }
                Some((at, last))
            }
        }
    }

    /// The first selected row at or behind `row`; there is one.
    fn at_or_behind(&self, row: usize) -> usize {
        match self.selected {
            None => row,
            Some(rows) => (row..).find(|&row| rows.contains(row)).unwrap_or(row),
        }
    }

    /// # Safety
    /// The row must be selected; inside a guarded entry point.
    unsafe fn evaluate(&self, column: &GroupColumn, row: usize) -> Value {
        // SAFETY: by contract; the expression's columns are set.
        unsafe {
            for &lane in &column.lanes {
                let lane = &self.lanes[lane];
                self.evaluation.set(lane.at, lane.datum(self.rows, row));
            }
            guarded(|| self.evaluation.value(column.state))
        }
    }
}

/// Runs that there is room for before any is found.
const SOME_RUNS: usize = 64;

/// The runs of a window. Its memory serves the next one.
#[derive(Default)]
pub struct Runs {
    pub found: Vec<Run>,
    next: Vec<Run>,
}

impl Runs {
    /// Finds those of a window, with the columns in the order `order`.
    ///
    /// # Safety
    /// Lanes of group columns must be decoded, with datums. Values live until the evaluation forgets them, or lanes decode again. Inside a
    /// guarded entry point.
    pub unsafe fn split(&mut self, window: &Window, columns: &[GroupColumn], order: &[usize]) {
        let (found, next) = (&mut self.found, &mut self.next);
        found.clear();
        found.push(Run {
            rows: 0..window.rows.len(),
            values: SmallVec::new(),
        });
        for &at in order {
            let column = &columns[at];
            next.clear();
            next.reserve(found.len().max(window.rows.len().min(SOME_RUNS)));
            for run in found.drain(..) {
                // SAFETY: by contract.
                unsafe {
                    match column.way {
                        Way::Same => split_same(window, column, run, next),
                        Way::Column(lane) => split_column(window, &window.lanes[lane], run, next),
                        Way::Rising(lane) => split_rising(window, column, lane, run, next),
                        Way::Zoned(lane, zoned) => {
                            let lane = &window.lanes[lane];
                            split_zoned(window, column, (lane, zoned), run, next);
                        }
                        Way::Each => split_each(window, column, run.rows, &run.values, next),
                    }
                }
            }
            core::mem::swap(found, next);
        }
    }
}

fn push(out: &mut Vec<Run>, rows: Range<usize>, before: &[Value], value: Value) {
    let mut values = SmallVec::from_slice(before);
    values.push(value);
    out.push(Run { rows, values });
}

/// # Safety
/// As `Runs::split`; the run must be of the window.
unsafe fn split_same(window: &Window, column: &GroupColumn, run: Run, out: &mut Vec<Run>) {
    if let Some((first, _)) = window.ends(&run.rows) {
        // SAFETY: the caller's contract.
        let value = unsafe { window.evaluate(column, first) };
        push(out, run.rows, &run.values, value);
    }
}

fn split_column(window: &Window, lane: &Lane, run: Run, out: &mut Vec<Run>) {
    let mut start = run.rows.start;
    while start < run.rows.end {
        let rest = start + 1..run.rows.end;
        let end = match lane.is_constant() {
            true => run.rows.end,
            false => rest
                .clone()
                .find(|&row| !lane.same_as_before(window.rows, row))
                .unwrap_or(run.rows.end),
        };
        push(out, start..end, &run.values, lane.datum(window.rows, start));
        start = end;
    }
}

/// # Safety
/// As `split_same`.
unsafe fn split_rising(
    window: &Window,
    column: &GroupColumn,
    lane: usize,
    run: Run,
    out: &mut Vec<Run>,
) {
    let lane = &window.lanes[lane];
    let mut start = run.rows.start;
    while start < run.rows.end {
        let end = rising_end(window, lane, start..run.rows.end);
        // SAFETY: the caller's contract.
        unsafe {
            match column.width {
                Some(width) => {
                    let way = (lane, width);
                    measure(window, column, way, start..end, &run.values, out);
                }
                None => gallop(window, column, start..end, &run.values, out),
            }
        }
        start = end;
    }
}

/// Splits rows along which times rise, by an expression whose values are `width` apart: one of them tells all later ones, and where each ends.
///
/// # Safety
/// As `gallop`; the column's values must be 8-byte integers.
unsafe fn measure(
    window: &Window,
    column: &GroupColumn,
    (lane, width): (&Lane, i64),
    rows: Range<usize>,
    before: &[Value],
    out: &mut Vec<Run>,
) {
    let Some((mut start, last)) = window.ends(&rows) else {
        return;
    };
    let mut known = column.least.get();
    loop {
        let at = lane
            .int(window.rows, start)
            .filter(|&time| time != i64::MAX);
        let value = match known.zip(at).filter(|(bucket, time)| bucket <= time) {
            // It lies between a value and a time, so nothing overflows, and evaluating it would raise nothing.
            Some((bucket, time)) => {
                let steps = time.wrapping_sub(bucket) as u64 / width as u64;
                let value = bucket.wrapping_add((steps * width as u64) as i64);
                (Datum::from(value as usize), false)
            }
            // SAFETY: the caller's contract.
            None => unsafe { window.evaluate(column, start) },
        };
        let (bucket, isnull) = (value.0.value() as i64, value.1);
        let next = match isnull || bucket == i64::MIN {
            true => None,
            false => bucket.checked_add(width),
        };
        let Some(next) = next else {
            // SAFETY: as above.
            return unsafe { gallop(window, column, start..rows.end, before, out) };
        };
        known = Some(bucket);
        if column.least.get().is_none_or(|least| bucket < least) {
            column.least.set(known);
        }
        let end = match (lane.line(window.rows), lane.is_constant()) {
            (_, true) => rows.end,
            (Some(line), _) => line.first_from(start..rows.end, next),
            (None, _) => match lane.slice(window.rows) {
                Slice::Ints(times) => {
                    start + times[start..rows.end].partition_point(|&time| time < next)
                }
                _ => panic!("BUG: times that are no integers"),
            },
        };
        push(out, start..end, before, value);
        if end > last {
            return;
        }
        start = window.at_or_behind(end);
    }
}

/// Where the values of a lane stop rising, or change between null and not null.
fn rising_end(window: &Window, lane: &Lane, rows: Range<usize>) -> usize {
    if lane.line(window.rows).is_some() {
        return rows.end;
    }
    let (Slice::Ints(values), false) = (lane.slice(window.rows), lane.is_constant()) else {
        return rows.end;
    };
    if lane.valid(window.rows).is_some() {
        let null = lane.is_null(window.rows, rows.start);
        let falls = |&row: &usize| {
            lane.is_null(window.rows, row) != null || !null && values[row] < values[row - 1]
        };
        return (rows.start + 1..rows.end).find(falls).unwrap_or(rows.end);
    }
    // Piece by piece, without a branch for each pair.
    let (values, mut at) = (&values[rows.clone()], 1);
    while at < values.len() {
        let end = values.len().min(at + 256);
        let pairs = || values[at - 1..end].windows(2);
        if pairs().fold(false, |falls, pair| falls | (pair[1] < pair[0])) {
            let first = pairs().position(|pair| pair[1] < pair[0]);
            return rows.start + at + first.unwrap_or(0);
        }
        at = end;
    }
    rows.end
}

/// Splits rows along which an expression never falls.
///
/// # Safety
/// As `Runs::split`; the rows must be of the window.
unsafe fn gallop(
    window: &Window,
    column: &GroupColumn,
    rows: Range<usize>,
    before: &[Value],
    out: &mut Vec<Run>,
) {
    let Some((mut start, last)) = window.ends(&rows) else {
        return;
    };
    // SAFETY: the caller's contract.
    unsafe {
        let at_end = window.evaluate(column, last);
        // The length of the run before: neighbouring runs of regular times are as long.
        let mut length = 0;
        loop {
            let value = window.evaluate(column, start);
            if column.typ.same_or_null(value, at_end) {
                return push(out, start..rows.end, before, value);
            }
            // `low` has the value, `high` has not.
            let (mut low, mut high, mut step) = (start, last, 1);
            if window.selected.is_none() && length > 1 && start + length < last {
                let same = |row: usize| {
                    let other = window.evaluate(column, row);
                    column.typ.same_or_null(other, value)
                };
                match same(start + length - 1) {
                    false => high = start + length - 1,
                    true if same(start + length) => low = start + length,
                    true => (low, high) = (start + length - 1, start + length),
                }
            }
            while low + step < high {
                let probe = window.at_or_behind(low + step);
                if probe >= high {
                    break;
                }
                if column
                    .typ
                    .same_or_null(window.evaluate(column, probe), value)
                {
                    low = probe;
                    step *= 2;
                } else {
                    high = probe;
                    break;
                }
            }
            while high - low > 1 {
                let middle = window.at_or_behind(low + (high - low) / 2);
                if middle >= high {
                    high = low + (high - low) / 2;
                    continue;
                }
                if column
                    .typ
                    .same_or_null(window.evaluate(column, middle), value)
                {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            push(out, start..high, before, value);
            length = high - start;
            start = window.at_or_behind(high);
        }
    }
}

/// Splits rows by a bucket of a zone's clock: along rising times between its changes.
///
/// # Safety
/// As `split_same`.
unsafe fn split_zoned(
    window: &Window,
    column: &GroupColumn,
    (lane, zoned): (&Lane, Zoned),
    run: Run,
    out: &mut Vec<Run>,
) {
    let mut start = run.rows.start;
    while start < run.rows.end {
        let mut end = rising_end(window, lane, start..run.rows.end);
        let mut rises = true;
        if let (Slice::Ints(times), false) =
            (lane.slice(window.rows), lane.is_null(window.rows, start))
        {
            let (rows, all) = zoned.piece(&times[start..end]);
            (end, rises) = (start + rows, all);
        }
        // SAFETY: the caller's contract.
        unsafe {
            match rises {
                true => gallop(window, column, start..end, &run.values, out),
                false => split_each(window, column, start..end, &run.values, out),
            }
        }
        start = end;
    }
}

/// # Safety
/// As `gallop`.
unsafe fn split_each(
    window: &Window,
    column: &GroupColumn,
    rows: Range<usize>,
    before: &[Value],
    out: &mut Vec<Run>,
) {
    let mut current: Option<(usize, Value)> = None;
    for row in rows.clone() {
        if window.selected.is_some_and(|rows| !rows.contains(row)) {
            continue;
        }
        if row % 1024 == 0 {
            error::check_interrupts();
        }
        // SAFETY: the caller's contract.
        unsafe {
            let value = window.evaluate(column, row);
            match current {
                Some((_, kept)) if column.typ.same_or_null(kept, value) => {}
                Some((start, kept)) => {
                    push(out, start..row, before, kept);
                    current = Some((row, value));
                }
                None => current = Some((row, value)),
            }
        }
    }
    if let Some((start, kept)) = current {
        push(out, start..rows.end, before, kept);
    }
}
