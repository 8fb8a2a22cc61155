//! What the node returns, row by row: gaps, input rows, filled columns.
//!
//! The input is sorted by group and bucket. Before each input row come the buckets of its group that are missing before it;
//! after the last row of a group, the rest of the range.
use super::bounds::raise_missing_bound;
use super::buckets::{Buckets, TimeType};
use super::fill::{neighbour, NumberType, Point};
use crate::functions::bucket::{BucketError, Width, DAY_US};
use crate::functions::errors::invalid;
use crate::functions::time_bucket::raise_bucket_error;
use crate::functions::timezone::Zone;
use crate::pg::custom_scan::Child;
use crate::pg::equality::Equality;
use crate::pg::expression_context::{guarded, ExpressionContext, Prepared};
use crate::pg::fcinfo::text_bytes;
use crate::pg::memory::Context;
use crate::pg::row_slot::RowSlot;
use crate::pg::value_layout::Layout;
use crate::pg::{Datum, Interval, NullableDatum, Oid};

const NULL: NullableDatum = NullableDatum {
    value: Datum::null(),
    isnull: true,
};

/// What a column of the node is. The numbers travel in the plan.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(i32)]
pub enum ColumnKind {
    Bucket = 0,
    /// A group column, or a column that is constant within a group.
    Group = 1,
    Aggregate = 2,
    Locf = 3,
    Interpolate = 4,
}

impl ColumnKind {
    pub fn of(number: i32) -> ColumnKind {
        match number {
            0 => ColumnKind::Bucket,
            1 => ColumnKind::Group,
            2 => ColumnKind::Aggregate,
            3 => ColumnKind::Locf,
            4 => ColumnKind::Interpolate,
            _ => panic!("BUG: unknown column kind {number} in a plan"),
        }
    }
}

/// What a column of the row that is returned is made of.
pub struct Column {
    pub kind: ColumnKind,
    pub typ: Oid,
    pub layout: Layout,
    /// Tells groups apart.
    pub equality: Option<Equality>,
    /// locf: the value before the range, and whether NULL counts as missing. interpolate: the points before and after.
    pub arguments: [Prepared; 2],
    /// The group's value, or what locf carries forward: a copy of ours.
    pub kept: Option<NullableDatum>,
    /// interpolate: the neighbours, where known; an inner None is a neighbour without a value.
    pub before: Option<Option<Point>>,
    pub after: Option<Option<Point>>,
}

/// A limit from WHERE.
pub struct Limit {
    pub lower: bool,
    pub successor: bool,
    pub date_from_timestamp: bool,
    pub time_type: TimeType,
    pub value: Prepared,
}

/// The range to fill, as of the last (re)start.
pub struct Range {
    pub buckets: Buckets,
    pub first: i64,
    /// The first time beyond.
    pub end: i64,
}

pub struct Gapfill {
    pub input: Child,
    pub columns: Vec<Column>,
    pub bucket: usize,
    pub time_type: TimeType,
    pub zoned: bool,
    /// Width, zone, start, finish.
    pub arguments: [Prepared; 4],
    pub limits: Vec<Limit>,
    /// Where kept values live.
    pub context: Context,
    pub range: Option<Range>,
    /// An input row that is not returned yet.
    pub pending: Option<RowSlot>,
    pub input_ended: bool,
    /// The next bucket to fill in the current group.
    pub next: Option<i64>,
    pub in_group: bool,
}

/// # Safety
/// `expression` is none (then the value is NULL) or was initialized for the node; must run inside a guarded entry point.
unsafe fn evaluate(expression: Prepared, context: ExpressionContext) -> NullableDatum {
    if expression.is_none() {
        return NULL;
    }
    // SAFETY: the caller's promise.
    let (value, isnull) = unsafe { guarded(|| context.value(expression)) };
    NullableDatum { value, isnull }
}

impl Column {
    /// # Safety
    /// `value` is of the column's type; must run inside a guarded entry point.
    unsafe fn keep(&mut self, value: NullableDatum, context: Context) {
        // SAFETY: the caller's promise; the copy is made before the old one is freed.
        unsafe {
            let copy = match value.isnull {
                true => NULL,
                false => NullableDatum {
                    value: self.layout.copy(value.value, context),
                    isnull: false,
                },
            };
            self.forget();
            self.kept = Some(copy);
        }
    }

    /// # Safety
    /// Must run inside a guarded entry point.
    unsafe fn forget(&mut self) {
        if let Some(old) = self.kept.take().filter(|old| !old.isnull) {
            // SAFETY: a copy that `keep` made.
            unsafe { self.layout.free(old.value) };
        }
    }

    /// # Safety
    /// `value` is of the column's type, a number.
    unsafe fn point(&self, x: i64, value: NullableDatum) -> Option<Point> {
        let number_type =
            NumberType::of(self.typ).expect("BUG: interpolate of a type that is no number");
        (!value.isnull).then(|| Point {
            x,
            y: number_type.number(value.value),
        })
    }
}

impl Gapfill {
    /// # Safety
    /// `context` is the node's; must run inside a guarded entry point.
    pub unsafe fn evaluate_range(&mut self, context: ExpressionContext) -> Range {
        // SAFETY: the caller's promise; the arguments are declared with these types.
        unsafe {
            let [width, zone, start, finish] =
                self.arguments.map(|argument| evaluate(argument, context));
            if width.isnull {
                invalid("bucket width must not be null", "");
            }
            if self.zoned && zone.isnull {
                invalid("the time zone of time_bucket_gapfill must not be null", "");
            }
            let mut buckets = self.buckets(width.value, zone);
            let start = self
                .limit(start, true, context)
                .unwrap_or_else(|| raise_missing_bound("start"));
            let mut end = self
                .limit(finish, false, context)
                .unwrap_or_else(|| raise_missing_bound("finish"));
            let first = buckets
                .containing(start)
                .unwrap_or_else(|error| raise_bucket_error(error));
            // Limits may be of a longer type. The last bucket is the last of the column's.
            if let Some((least, greatest)) = self.time_type.ends() {
                if first < least {
                    raise_bucket_error(BucketError::OutOfRange);
                }
                end = end.min(greatest + 1);
            }
            Range {
                buckets,
                first,
                end,
            }
        }
    }

    /// # Safety
    /// The values are those of the arguments; must run inside a guarded entry point.
    unsafe fn buckets(&self, width: Datum, zone: NullableDatum) -> Buckets {
        // SAFETY: the caller's promise: the width is an integer or an interval by the type of the time.
        let interval = || unsafe { &*width.cast_mut_ptr::<Interval>() };
        let checked = |width| match width {
            Ok(width) => width,
            Err(error) => raise_bucket_error(error),
        };
        match self.time_type {
            TimeType::Date => Buckets::Date(checked(Width::of_days(interval()))),
            TimeType::Timestamp if zone.isnull => Buckets::Clock(checked(Width::of(interval()))),
            TimeType::Timestamp => {
                let width = checked(Width::of(interval()));
                // SAFETY: a non-null text.
                Buckets::Zone(
                    Box::new(Zone::find(unsafe { text_bytes(zone.value) })),
                    width,
                )
            }
            integer => match integer.number(width) {
                width if width > 0 => Buckets::Integer(width),
                _ => raise_bucket_error(BucketError::NotPositive),
            },
        }
    }

    /// The start of the range (`lower`) or its end: the argument if there is one, else the tightest limit of WHERE.
    ///
    /// # Safety
    /// `context` is the node's; must run inside a guarded entry point.
    unsafe fn limit(
        &self,
        argument: NullableDatum,
        lower: bool,
        context: ExpressionContext,
    ) -> Option<i64> {
        let checked = |time_type: TimeType, number: i64| {
            if time_type.is_infinite(number) {
                invalid(
                    "the bounds of time_bucket_gapfill must be finite",
                    "Give start and finish, or limit the time in WHERE.",
                );
            }
            number
        };
        if !argument.isnull {
            return Some(checked(
                self.time_type,
                self.time_type.number(argument.value),
            ));
        }
        let values = self
            .limits
            .iter()
            .filter(|limit| limit.lower == lower)
            .filter_map(|limit| {
                // SAFETY: the caller's promise.
                let value = unsafe { evaluate(limit.value, context) };
                if value.isnull {
                    return None;
                }
                let mut number = checked(limit.time_type, limit.time_type.number(value.value));
                let mut successor = limit.successor;
                if limit.date_from_timestamp {
                    // The limit falls inside a day: from then on, or up to then, counts from or up to the next midnight.
                    successor |= number.rem_euclid(DAY_US) != 0;
                    number = number.div_euclid(DAY_US);
                }
                number.checked_add(successor.into())
            });
        if lower {
            values.max()
        } else {
            values.min()
        }
    }

    /// Puts the next row into `slot`, or returns false.
    ///
    /// # Safety
    /// `slot` and `context` are the node's; must run inside a guarded entry point.
    pub unsafe fn next_row(&mut self, slot: RowSlot, context: ExpressionContext) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            loop {
                if self.pending.is_none() && !self.input_ended {
                    self.fetch();
                }
                let has_row = self.pending.is_some();
                if self.in_group && !(has_row && self.same_group()) {
                    // The rest of the group's range.
                    if self.gap_before(None).is_some() {
                        self.return_gap(slot, context, None);
                        return true;
                    }
                    self.leave_group();
                }
                if !has_row {
                    let other_groups = self.columns.iter().any(|c| c.kind == ColumnKind::Group);
                    if self.next.is_none() && !other_groups {
                        self.enter_group();
                        continue;
                    }
                    return false;
                }
                if !self.in_group {
                    self.enter_group();
                }
                let row = self.pending_value(self.bucket);
                let bucket = self.time_type.number(row.value);
                if self.gap_before(Some(bucket)).is_some() {
                    self.return_gap(slot, context, Some(bucket));
                } else {
                    self.return_pending(slot, context, bucket);
                }
                return true;
            }
        }
    }

    /// # Safety
    /// Must run inside a guarded entry point.
    unsafe fn fetch(&mut self) {
        self.pending = self.input.next_row();
        if self.pending.is_none() {
            self.input_ended = true;
            return;
        }
        // SAFETY: the bucket is one of the input's columns.
        if unsafe { self.pending_value(self.bucket) }.isnull {
            invalid(
                "time_bucket_gapfill met a NULL time",
                "Leave such rows out: WHERE time IS NOT NULL.",
            );
        }
    }

    /// # Safety
    /// There is a pending row, and `column` is one of its columns.
    unsafe fn pending_value(&self, column: usize) -> NullableDatum {
        let pending = self.pending.expect("BUG: no row is pending");
        // SAFETY: the caller's promise; the row is there until the next one is asked for.
        unsafe {
            let (values, nulls) = pending.attributes(self.columns.len());
            NullableDatum {
                value: values[column],
                isnull: nulls[column],
            }
        }
    }

    /// # Safety
    /// There is a pending row and a current group; must run inside a guarded entry point.
    unsafe fn same_group(&mut self) -> bool {
        (0..self.columns.len()).all(|n| {
            // SAFETY: the caller's promise; both values are of the column's type.
            unsafe {
                let value = self.pending_value(n);
                let column = &mut self.columns[n];
                let (Some(equality), Some(kept)) = (&mut column.equality, &column.kept) else {
                    return true;
                };
                match (kept.isnull, value.isnull) {
                    (true, true) => true,
                    (false, false) => equality.holds(kept.value, value.value),
                    _ => false,
                }
            }
        })
    }

    /// Begins the group of the pending row, or the only group if there is none.
    ///
    /// # Safety
    /// Must run inside a guarded entry point.
    unsafe fn enter_group(&mut self) {
        self.in_group = true;
        self.next = self.range.as_ref().map(|range| range.first);
        for n in 0..self.columns.len() {
            if self.columns[n].kind == ColumnKind::Group && self.pending.is_some() {
                // SAFETY: there is a pending row.
                unsafe {
                    let value = self.pending_value(n);
                    self.columns[n].keep(value, self.context);
                }
            }
        }
    }

    /// # Safety
    /// Must run inside a guarded entry point.
    pub unsafe fn leave_group(&mut self) {
        self.in_group = false;
        for column in &mut self.columns {
            // SAFETY: the caller's promise.
            unsafe { column.forget() };
            (column.before, column.after) = (None, None);
        }
    }

    /// The next bucket of the range that lies before `bucket` (or at all).
    fn gap_before(&self, bucket: Option<i64>) -> Option<i64> {
        let end = self.range.as_ref()?.end;
        self.next
            .filter(|next| *next < end && bucket.is_none_or(|bucket| *next < bucket))
    }

    fn advance(&mut self, from: i64) {
        // Past the last bucket that the type can hold there is nothing to fill.
        self.next = self
            .range
            .as_mut()
            .and_then(|range| range.buckets.after(from))
            .or(Some(i64::MAX));
    }

    /// Puts a row for the next bucket of the range into `slot`. The pending row, if it is of this group, comes after it.
    ///
    /// # Safety
    /// As `next_row`.
    unsafe fn return_gap(&mut self, slot: RowSlot, context: ExpressionContext, after: Option<i64>) {
        let bucket = self.next.expect("BUG: a gap without a bucket");
        // SAFETY: the caller's promise; the slot has a place for every column.
        unsafe {
            for (n, column) in self.columns.iter().enumerate() {
                let value = match column.kind {
                    ColumnKind::Bucket => NullableDatum {
                        value: self.time_type.datum(bucket),
                        isnull: false,
                    },
                    ColumnKind::Group => column.kept.unwrap_or(NULL),
                    _ => NULL,
                };
                set(slot, n, value);
            }
            slot.show();
            for n in 0..self.columns.len() {
                match self.columns[n].kind {
                    ColumnKind::Locf => set(slot, n, self.carried(n, context)),
                    ColumnKind::Interpolate => {
                        set(slot, n, self.interpolated(n, bucket, after, context))
                    }
                    _ => {}
                }
            }
        }
        self.advance(bucket);
    }

    /// Puts the pending row into `slot`.
    ///
    /// # Safety
    /// As `next_row`.
    unsafe fn return_pending(&mut self, slot: RowSlot, context: ExpressionContext, bucket: i64) {
        // SAFETY: the caller's promise; the slot has a place for every column.
        unsafe {
            for n in 0..self.columns.len() {
                set(slot, n, self.pending_value(n));
            }
            slot.show();
            for n in 0..self.columns.len() {
                let value = self.pending_value(n);
                match self.columns[n].kind {
                    ColumnKind::Locf if value.isnull && self.null_is_missing(n, context) => {
                        set(slot, n, self.carried(n, context))
                    }
                    ColumnKind::Locf => self.columns[n].keep(value, self.context),
                    ColumnKind::Interpolate => {
                        let column = &mut self.columns[n];
                        column.before = Some(column.point(bucket, value));
                    }
                    _ => {}
                }
            }
        }
        self.pending = None;
        if self.next == Some(bucket) {
            self.advance(bucket);
        }
    }

    /// # Safety
    /// `n` is a column of locf; `context` is the node's; must run inside a guarded entry point.
    unsafe fn null_is_missing(&self, n: usize, context: ExpressionContext) -> bool {
        // SAFETY: the caller's promise.
        let treat = unsafe { evaluate(self.columns[n].arguments[1], context) };
        !treat.isnull && treat.value.value() as u8 != 0
    }

    /// What locf carries forward: the last value of the group, or else the given one.
    ///
    /// # Safety
    /// As `null_is_missing`, and the slot of `context` has the group's values.
    unsafe fn carried(&mut self, n: usize, context: ExpressionContext) -> NullableDatum {
        let column = &mut self.columns[n];
        // SAFETY: the caller's promise.
        unsafe {
            if column.kept.is_none() {
                let value = evaluate(column.arguments[0], context);
                column.keep(value, self.context);
            }
        }
        column.kept.unwrap_or(NULL)
    }

    /// The value between the neighbours: rows of the group, or else the given ones.
    ///
    /// # Safety
    /// `n` is a column of interpolate, the slot of `context` has the group's values; must run inside a guarded entry point.
    unsafe fn interpolated(
        &mut self,
        n: usize,
        bucket: i64,
        after: Option<i64>,
        context: ExpressionContext,
    ) -> NullableDatum {
        let (time_type, bucket_type) = (self.time_type, self.columns[self.bucket].typ);
        // SAFETY: the caller's promise.
        unsafe {
            let given = |argument| {
                let record = evaluate(argument, context);
                (!record.isnull)
                    .then(|| neighbour(record.value, bucket_type, |time| time_type.number(time)))
                    .flatten()
            };
            let following = after.map(|x| {
                let value = self.pending_value(n);
                self.columns[n].point(x, value)
            });
            let column = &mut self.columns[n];
            let arguments = column.arguments;
            let before = *column.before.get_or_insert_with(|| given(arguments[0]));
            let after = following
                .unwrap_or_else(|| *column.after.get_or_insert_with(|| given(arguments[1])));
            match (before, after, NumberType::of(column.typ)) {
                (Some(before), Some(after), Some(number_type)) => NullableDatum {
                    value: number_type.between(bucket, before, after),
                    isnull: false,
                },
                _ => NULL,
            }
        }
    }
}

/// # Safety
/// `slot` is a virtual slot with a column `n`.
unsafe fn set(slot: RowSlot, n: usize, value: NullableDatum) {
    // SAFETY: the caller's promise.
    unsafe { slot.set(n, (value.value, value.isnull)) }
}
