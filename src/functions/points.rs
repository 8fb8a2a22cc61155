//! Aggregate states that keep (time, number) pairs until all of them are there: what counters, time-weighted averages and
//! downsampling have in common, because their rows come in any order, and in parallel plans in several heaps.
//!
//! 16 bytes a pair, in the aggregate's context. Pairs are ordered by time, then by number, so that an answer does not depend on
//! the order of arrival. Rows with a NULL time, a NULL number or NaN do not count; infinite times are refused.
use super::aggregate::{context, place, Reader, Writer};
use super::errors::{invalid, raise, Code};
use crate::pg::fcinfo::{arg, arg_opt, guarded, raw_arg, sql_function, Fcinfo};
use crate::pg::memory::{self, Context};
use crate::pg::Datum;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Microseconds since 2000.
    pub time: i64,
    pub value: f64,
}

impl Point {
    /// Seconds from `self` to `later`.
    pub fn seconds_to(self, later: Point) -> f64 {
        seconds(self.time, later.time)
    }
}

pub fn seconds(from: i64, to: i64) -> f64 {
    (i128::from(to) - i128::from(from)) as f64 / 1e6
}

/// The further arguments of an aggregate, the same in every row of a group.
#[derive(Clone, Copy, PartialEq)]
pub enum Parameters {
    None,
    /// A range of time.
    Range(i64, i64),
    /// A small number: a method, a count.
    Number(i64),
}

pub struct Points {
    pub parameters: Parameters,
    points: *mut Point,
    len: usize,
    capacity: usize,
    sorted: bool,
}

impl Points {
    /// # Safety
    /// `context` is valid; must run inside a guarded entry point.
    unsafe fn new(context: Context, parameters: Parameters, capacity: usize) -> Points {
        // SAFETY: the caller's promise.
        let points = unsafe { context.alloc_huge(capacity * size_of::<Point>()).cast() };
        Points {
            parameters,
            points,
            len: 0,
            capacity,
            sorted: true,
        }
    }

    /// # Safety
    /// Must run inside a guarded entry point.
    unsafe fn reserve(&mut self, more: usize) {
        if self.capacity - self.len < more {
            self.capacity = (self.capacity * 2).max(self.len + more);
            // SAFETY: allocated by `new` or by this.
            self.points =
                unsafe { memory::resize_huge(self.points, self.capacity * size_of::<Point>()) };
        }
    }

    #[inline(always)]
    fn has_room(&self) -> bool {
        self.len < self.capacity
    }

    /// # Safety
    /// There is room.
    #[inline(always)]
    unsafe fn push(&mut self, point: Point) {
        // SAFETY: the caller's promise.
        unsafe {
            self.sorted &= self.len == 0 || (*self.points.add(self.len - 1)).time < point.time;
            self.points.add(self.len).write(point);
        }
        self.len += 1;
    }

    fn as_slice(&self) -> &[Point] {
        // SAFETY: `len` points have been written.
        unsafe { std::slice::from_raw_parts(self.points, self.len) }
    }

    /// The points by time, then by value.
    pub fn sorted(&mut self) -> &[Point] {
        if !self.sorted {
            // SAFETY: `len` points have been written.
            let points = unsafe { std::slice::from_raw_parts_mut(self.points, self.len) };
            points.sort_unstable_by(|a, b| a.time.cmp(&b.time).then(a.value.total_cmp(&b.value)));
            self.sorted = true;
        }
        self.as_slice()
    }
}

/// Adds the row of a call to its state. `time` and `value` say which arguments they are.
///
/// # Safety
/// `fcinfo` is a transition call whose first argument is our state or NULL; the others are as said, `parameters` reads the rest
/// and may raise.
#[inline(always)]
pub unsafe fn transition(
    fcinfo: Fcinfo,
    time: usize,
    value: usize,
    parameters: impl Fn() -> Parameters,
    unchanged: impl Fn(Parameters) -> bool,
) -> Datum {
    // SAFETY: the caller's promise.
    unsafe {
        let (state, time, value) = (
            raw_arg(fcinfo, 0),
            raw_arg(fcinfo, time),
            raw_arg(fcinfo, value),
        );
        let point = Point {
            time: time.value.value() as i64,
            value: f64::from_bits(value.value.value() as u64),
        };
        if time.isnull || value.isnull || point.value.is_nan() {
            fcinfo.set_null(state.isnull);
            return state.value;
        }
        if !state.isnull && !super::bucket::is_infinite(point.time) {
            let points = &mut *state.value.cast_mut_ptr::<Points>();
            if points.has_room() && unchanged(points.parameters) {
                points.push(point);
                return state.value;
            }
        }
        guarded(|| {
            if super::bucket::is_infinite(point.time) {
                invalid(
                    "the times of this aggregate must be finite",
                    "Leave infinite times out.",
                );
            }
            let parameters = parameters();
            if state.isnull {
                let context = context(fcinfo);
                let mut points = Points::new(context, parameters, 8);
                points.push(point);
                return Datum::from(place(context, points));
            }
            let points = &mut *state.value.cast_mut_ptr::<Points>();
            check_same(points.parameters, parameters);
            points.reserve(1);
            points.push(point);
            state.value
        })
    }
}

fn check_same(known: Parameters, given: Parameters) {
    if known != given {
        invalid(
            "the further arguments of this aggregate must be the same in all rows of a group",
            "Group by what they depend on.",
        );
    }
}

/// A range given by arguments `first` and `first + 1`.
///
/// # Safety
/// The arguments are times; must run inside a guarded entry point.
pub unsafe fn range_arguments(fcinfo: Fcinfo, first: usize) -> Parameters {
    // SAFETY: the caller's promise.
    let (start, end) = unsafe { (arg_opt(fcinfo, first), arg_opt(fcinfo, first + 1)) };
    let (Some(start), Some(end)) = (start, end) else {
        raise(
            Code::ERRCODE_NULL_VALUE_NOT_ALLOWED,
            "the range of this aggregate must not be null",
            "",
            "",
        )
    };
    let (start, end) = (start.value() as i64, end.value() as i64);
    if super::bucket::is_infinite(start) || super::bucket::is_infinite(end) || start >= end {
        invalid(
            "the range of this aggregate must be finite and not empty",
            "Give its start, then its end.",
        );
    }
    Parameters::Range(start, end)
}

/// Whether the arguments `first` and `first + 1` are this range.
///
/// # Safety
/// The arguments are times.
#[inline(always)]
pub unsafe fn is_range(fcinfo: Fcinfo, first: usize, known: Parameters) -> bool {
    // SAFETY: the caller's promise.
    let (start, end) = unsafe { (raw_arg(fcinfo, first), raw_arg(fcinfo, first + 1)) };
    !start.isnull
        && !end.isnull
        && known == Parameters::Range(start.value.value() as i64, end.value.value() as i64)
}

/// The state of a final function, None for no rows.
///
/// # Safety
/// The first argument of `fcinfo` is our state or NULL.
pub unsafe fn state<'a>(fcinfo: Fcinfo) -> Option<&'a mut Points> {
    // SAFETY: the caller's promise.
    unsafe { arg_opt(fcinfo, 0).map(|state| &mut *state.cast_mut_ptr::<Points>()) }
}

sql_function! {
    /// Transition function of aggregates over (value double precision, time) without further arguments.
    fn varve_points_transition(fcinfo) {
        // SAFETY: declared (internal, float8, timestamptz | timestamp) for an aggregate.
        unsafe { transition(fcinfo, 2, 1, || Parameters::None, |_| true) }
    }
}

sql_function! {
    /// Transition function of aggregates over (value double precision, time, range_start, range_end).
    fn varve_points_range_transition(fcinfo) {
        // SAFETY: declared (internal, float8, and three times of one type) for an aggregate.
        unsafe { transition(fcinfo, 2, 1, || range_arguments(fcinfo, 3), |known| is_range(fcinfo, 3, known)) }
    }
}

sql_function! {
    /// Combine function.
    fn varve_points_combine(fcinfo) {
        // SAFETY: declared (internal, internal) for an aggregate.
        unsafe {
            let Some(other) = arg_opt(fcinfo, 1) else {
                fcinfo.set_null(raw_arg(fcinfo, 0).isnull);
                return raw_arg(fcinfo, 0).value;
            };
            guarded(|| {
                let other = &*other.cast_mut_ptr::<Points>();
                let state = match arg_opt(fcinfo, 0) {
                    Some(state) => state.cast_mut_ptr::<Points>(),
                    None => {
                        let context = context(fcinfo);
                        place(context, Points::new(context, other.parameters, other.len.max(1)))
                    }
                };
                let points = &mut *state;
                check_same(points.parameters, other.parameters);
                points.reserve(other.len);
                other.as_slice().iter().for_each(|point| points.push(*point));
                Datum::from(state)
            })
        }
    }
}

sql_function! {
    /// Serialization function. Strict.
    fn varve_points_serialize(fcinfo) {
        guarded(|| {
            // SAFETY: the argument is our state.
            unsafe {
                let state = &*arg(fcinfo, 0).cast_mut_ptr::<Points>();
                let mut out = Writer::default();
                match state.parameters {
                    Parameters::None => out.u32(0).i64(0).i64(0),
                    Parameters::Range(start, end) => out.u32(1).i64(start).i64(end),
                    Parameters::Number(number) => out.u32(2).i64(number).i64(0),
                };
                for point in state.as_slice() {
                    out.i64(point.time).f64(point.value);
                }
                out.finish()
            }
        })
    }
}

sql_function! {
    /// Deserialization function. Strict.
    fn varve_points_deserialize(fcinfo) {
        guarded(|| {
            // SAFETY: the argument is what the serialization function wrote.
            unsafe {
                let mut input = Reader::new(arg(fcinfo, 0));
                let parameters = match (input.u32(), input.i64(), input.i64()) {
                    (0, ..) => Parameters::None,
                    (1, start, end) => Parameters::Range(start, end),
                    (_, number, _) => Parameters::Number(number),
                };
                let context = memory::current();
                let len = input.rest().len() / size_of::<Point>();
                let mut points = Points::new(context, parameters, len.max(1));
                for _ in 0..len {
                    points.push(Point { time: input.i64(), value: input.f64() });
                }
                Datum::from(place(context, points))
            }
        })
    }
}
