//! Buckets on the clock of a time zone: `time_bucket` with a zone, `date_trunc` and dates of the session's. Between two changes of the clock, and
//! further from both than a bucket reaches, they rise with time; near a change each row is evaluated.

use crate::functions;
use crate::pg::expression::Expression;
use crate::pg::expression_kinds::{Constant, Kind};
use crate::pg::functions::{
    F_DATE_TIMESTAMPTZ, F_DATE_TRUNC_TEXT_TIMESTAMPTZ, F_DATE_TRUNC_TEXT_TIMESTAMPTZ_TEXT,
};
use crate::pg::time_zone::TimeZone;
use crate::pg::types;

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
    /// The column, from 1, whose bucket an expression is, and where it rises. Within a guarded entry point.
    pub fn of(expression: Expression<'_>) -> Option<(i16, Zoned)> {
        let Kind::Call(call) = expression.kind() else {
            return None;
        };
        let (arguments, session) = (call.arguments(), TimeZone::of_session()?);
        let argument = |at: usize| arguments.get(at);
        let (time, zone, width_us) = match call.function().to_u32() {
            F_DATE_TRUNC_TEXT_TIMESTAMPTZ => (1, session, unit_us(argument(0)?)?),
            F_DATE_TRUNC_TEXT_TIMESTAMPTZ_TEXT => {
                (1, zone_of(argument(2)?)?, unit_us(argument(0)?)?)
            }
            F_DATE_TIMESTAMPTZ => (0, session, DAY_US),
            _ if functions::is_zoned_bucket(call.function()) => {
                (1, zone_of(argument(2)?)?, interval_us(argument(0)?)?)
            }
            _ => return None,
        };
        let Kind::Column(column) = argument(time)?.kind() else {
            return None;
        };
        let mut others = arguments.iter().enumerate().filter(|&(at, _)| at != time);
        let fits = column.typ() == types::TIMESTAMPTZOID
            && others.all(|(_, argument)| !argument.has_columns())
            && !arguments.iter().skip(3).any(moves);
        let reach_us = width_us.checked_add(SLACK_US)?;
        fits.then_some((column.number(), Zoned { zone, reach_us }))
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
fn moves(argument: Expression<'_>) -> bool {
    argument.typ() == types::INTERVALOID && !argument.is_null()
}

fn constant(expression: Expression<'_>) -> Option<Constant<'_>> {
    match expression.kind() {
        Kind::Constant(constant) => Some(constant),
        _ => None,
    }
}

fn zone_of(name: Expression<'_>) -> Option<TimeZone> {
    let name = constant(name)?.with_text(<[u8]>::to_vec)?;
    TimeZone::find(&name)
}

fn unit_us(unit: Expression<'_>) -> Option<i64> {
    let unit = constant(unit)?.with_text(<[u8]>::to_ascii_lowercase)?;
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

fn interval_us(width: Expression<'_>) -> Option<i64> {
    let width = constant(width)?.interval()?;
    let days = i64::from(width.month) * 31 + i64::from(width.day);
    days.checked_mul(DAY_US)?.checked_add(width.time)
}
