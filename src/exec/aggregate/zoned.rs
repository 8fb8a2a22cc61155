//! Buckets on the clock of a time zone: `time_bucket` with a zone, `date_trunc` and dates of the session's. Between two changes of the clock, and
//! further from both than a bucket reaches, they rise with time; near a change each row is evaluated.

use crate::functions;
use crate::pg::node::{cast, items};
use crate::pg::time_zone::TimeZone;
use crate::pg::varlena::with_body;
use pgrx::pg_sys::{self, Node, NodeTag};

const SECOND_US: i64 = 1_000_000;
const HOUR_US: i64 = 3_600 * SECOND_US;
const DAY_US: i64 = 24 * HOUR_US;
/// Seconds from 1970 to 2000.
const EPOCH_SHIFT_S: i64 = 946_684_800;
/// Further than any clock is changed at once.
const SLACK_US: i64 = 2 * DAY_US;

/// What tells where a bucket rises.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zoned {
    zone: TimeZone,
    /// How far from a time its bucket can begin or end, with `SLACK_US`.
    reach_us: i64,
}

impl Zoned {
    /// The column, from 1, whose bucket an expression is, and where it rises.
    ///
    /// # Safety
    /// `expression` must be an expression of a plan; inside a guarded entry point.
    pub unsafe fn of(expression: *mut Node) -> Option<(i16, Zoned)> {
        // SAFETY: by contract; a node's tag says what it is.
        unsafe {
            let call = cast::<pg_sys::FuncExpr>(expression, NodeTag::T_FuncExpr)?;
            let arguments: Vec<*mut Node> = items((*call).args).collect();
            let session = TimeZone::of_session()?;
            let (time, zone, width_us) = match (*call).funcid.to_u32() {
                pg_sys::F_DATE_TRUNC_TEXT_TIMESTAMPTZ => (1, session, unit_us(arguments[0])?),
                pg_sys::F_DATE_TRUNC_TEXT_TIMESTAMPTZ_TEXT => {
                    (1, zone_of(arguments[2])?, unit_us(arguments[0])?)
                }
                pg_sys::F_DATE_TIMESTAMPTZ => (0, session, DAY_US),
                _ if functions::is_zoned_bucket((*call).funcid) => {
                    (1, zone_of(arguments[2])?, interval_us(arguments[0])?)
                }
                _ => return None,
            };
            let is_fixed = |at: usize| at == time || !pg_sys::contain_var_clause(arguments[at]);
            let var = cast::<pg_sys::Var>(arguments[time], NodeTag::T_Var)?;
            let fits = (*var).vartype == pg_sys::TIMESTAMPTZOID
                && (0..arguments.len()).all(is_fixed)
                && !arguments.iter().skip(3).any(|&argument| moves(argument));
            let reach_us = width_us.checked_add(SLACK_US)?;
            fits.then_some(((*var).varattno, Zoned { zone, reach_us }))
        }
    }

    /// Of rising times, how many from the first one on are alike, and whether their buckets rise.
    pub fn piece(&self, times: &[i64]) -> (usize, bool) {
        let first = times[0];
        if first == i64::MIN || first == i64::MAX {
            return (times.partition_point(|&time| time <= first), true);
        }
        let change = self.change_after(first.saturating_sub(self.reach_us));
        let near = change.map_or(i64::MAX, |change| change.saturating_sub(self.reach_us));
        if first < near {
            return (times.partition_point(|&time| time < near), true);
        }
        let far = change.map_or(i64::MAX, |change| change.saturating_add(self.reach_us));
        (times.partition_point(|&time| time <= far), false)
    }

    /// When the clock is changed next.
    fn change_after(&self, us: i64) -> Option<i64> {
        let at = us.div_euclid(SECOND_US) + EPOCH_SHIFT_S;
        let (_, change) = self.zone.offset_at(at);
        change.map(|change| (change - EPOCH_SHIFT_S).saturating_mul(SECOND_US))
    }
}

/// Is it an offset of buckets? With one the clock is read at another time than the row's.
unsafe fn moves(argument: *mut Node) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        let is_none = cast::<pg_sys::Const>(argument, NodeTag::T_Const)
            .is_some_and(|constant| (*constant).constisnull);
        pg_sys::exprType(argument) == pg_sys::INTERVALOID && !is_none
    }
}

unsafe fn constant(node: *mut Node, typ: pg_sys::Oid) -> Option<pg_sys::Datum> {
    // SAFETY: the caller's contract.
    unsafe {
        let constant = cast::<pg_sys::Const>(node, NodeTag::T_Const)?;
        let fits = !(*constant).constisnull && (*constant).consttype == typ;
        fits.then_some((*constant).constvalue)
    }
}

unsafe fn zone_of(node: *mut Node) -> Option<TimeZone> {
    // SAFETY: the caller's contract.
    unsafe {
        let name = with_body(constant(node, pg_sys::TEXTOID)?, -1, <[u8]>::to_vec);
        TimeZone::find(&name)
    }
}

unsafe fn unit_us(node: *mut Node) -> Option<i64> {
    // SAFETY: the caller's contract.
    unsafe {
        let unit = with_body(
            constant(node, pg_sys::TEXTOID)?,
            -1,
            <[u8]>::to_ascii_lowercase,
        );
        Some(match &unit[..] {
            b"second" | b"minute" | b"hour" => HOUR_US,
            b"day" => DAY_US,
            b"week" => 7 * DAY_US,
            b"month" => 31 * DAY_US,
            b"quarter" => 92 * DAY_US,
            b"year" => 366 * DAY_US,
            _ => return None,
        })
    }
}

unsafe fn interval_us(node: *mut Node) -> Option<i64> {
    // SAFETY: the caller's contract.
    unsafe {
        let interval: *const pg_sys::Interval = constant(node, pg_sys::INTERVALOID)?.cast_mut_ptr();
        let days = i64::from((*interval).month) * 31 + i64::from((*interval).day);
        days.checked_mul(DAY_US)?.checked_add((*interval).time)
    }
}
