//! Stretches of time that chunks of several series are kept to, so that old rows go with whole chunks. Windows are aligned, and of each
//! length the next longer one is a multiple: parts of a day and powers of two of days for a calendar column, powers of two for integers.

use super::expire::{Span, Unit};
use crate::catalog::layout::{is_calendar_type, Layout};
use crate::pg::error;
use crate::pg::relation::Table;
use crate::pg::types;
use crate::pg::Oid;
use rustc_hash::FxHashMap;
use std::sync::OnceLock;

const SECOND_US: i64 = 1_000_000;
const MINUTE_US: i64 = 60 * SECOND_US;
const HOUR_US: i64 = 60 * MINUTE_US;
const DAY_US: i64 = 24 * HOUR_US;
/// Lengths below a day, in microseconds.
const PARTS_OF_A_DAY_US: [i64; 15] = [
    1_000,
    10_000,
    100_000,
    500_000,
    SECOND_US,
    5 * SECOND_US,
    15 * SECOND_US,
    30 * SECOND_US,
    MINUTE_US,
    5 * MINUTE_US,
    15 * MINUTE_US,
    HOUR_US,
    3 * HOUR_US,
    6 * HOUR_US,
    12 * HOUR_US,
];
/// The length of the one window that has all times.
pub const ALL_TIMES: i64 = 0;
/// So many windows at least share what retention keeps: of one of them rows go before all of it does.
const WINDOWS_KEPT: i64 = 8;

/// What a retention rule keeps, and what integers of its time column count.
pub type Kept = (Span, Option<Unit>);

/// Windows may be longer than retention wants them where they would have fewer rows.
pub const FEW_ROWS: u64 = 1024;
/// Of a round of few rows those go apart that are so many windows away.
const FAR: u64 = 4;
/// Windows that divide few rows are so many times as long as the time that half of them are from, or more.
const WIDE: u64 = 8;
/// Fewer rows are not divided at all.
const LEAST_ROWS: u64 = 256;
/// Of a round of few rows those are divided off that are outside of the window that has so large a part of them.
const USUAL: (u64, u64) = (3, 4);
/// Lengths of windows that are tried.
const MOST_CHOICES: usize = 3;
/// Windows that a round is divided into, about; and one of few rows.
const MOST_WINDOWS: usize = 128;
const MOST_WINDOWS_OF_FEW: usize = 12;
/// Series with so many rows in a window are not cut to pieces by it.
const RUN_ROWS: u64 = 512;
/// The same where rows are going to expire.
const KEPT_RUN_ROWS: u64 = 16;

static RETENTION: OnceLock<fn(Oid) -> Vec<Kept>> = OnceLock::new();

/// Says once who knows the retention rules of a table.
pub fn ask_for_retention(source: fn(Oid) -> Vec<Kept>) {
    let _ = RETENTION.set(source);
}

/// The lengths that a table's windows can have, ascending.
pub struct Windows {
    lengths: Vec<i64>,
    /// Longer ones are for few rows only.
    longest: i64,
}

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Window {
    pub length: i64,
    pub number: i64,
}

/// Lengths of windows to try, ascending.
#[derive(Default)]
pub struct Choices {
    pub lengths: Vec<i64>,
    /// There are fewer rows than fill a window.
    pub is_few: bool,
}

impl Window {
    pub fn of(time: i64, length: i64) -> Window {
        Window {
            length,
            number: match length {
                ALL_TIMES => 0,
                _ => time.div_euclid(length),
            },
        }
    }
}

impl Windows {
    pub fn of(table: Table<'_>, layout: &Layout) -> Windows {
        let Some(time) = layout.time else {
            return Windows::new(Vec::new(), &[]);
        };
        let (base, kept) = {
            let attribute = &table.attributes()[usize::from(time) - 1];
            let base = types::base(attribute.atttypid);
            (base, RETENTION.get().map(|ask| ask(table.oid())))
        };
        let kept = kept.unwrap_or_default();
        if base == types::DATEOID {
            let days: Vec<i64> = kept
                .iter()
                .map(|(keep, _)| about_us(keep) / DAY_US)
                .collect();
            Windows::new(powers_of_two(1), &days)
        } else if is_calendar_type(base) {
            let lengths = PARTS_OF_A_DAY_US.into_iter().chain(powers_of_two(DAY_US));
            let kept: Vec<i64> = kept.iter().map(|(keep, _)| about_us(keep)).collect();
            Windows::new(lengths.collect(), &kept)
        } else {
            let in_units = |(keep, unit): &Kept| match unit.unwrap_or(Unit::Seconds) {
                Unit::Seconds => about_us(keep) / SECOND_US,
                Unit::Milliseconds => about_us(keep) / 1_000,
                Unit::Microseconds => about_us(keep),
                Unit::Nanoseconds => about_us(keep).saturating_mul(1_000),
            };
            let kept: Vec<i64> = kept.iter().map(in_units).collect();
            Windows::new(powers_of_two(1), &kept)
        }
    }

    fn new(lengths: Vec<i64>, kept: &[i64]) -> Windows {
        let shortest = kept.iter().map(|keep| (keep / WINDOWS_KEPT).max(1)).min();
        Windows {
            lengths,
            longest: shortest.unwrap_or(i64::MAX),
        }
    }

    pub fn lengths(&self) -> &[i64] {
        &self.lengths
    }

    /// Lengths of windows to divide the rows of short series by: from the shortest on whose windows have `full_rows`, or most of them
    /// where there are fewer. `samples` are times, each of so many rows.
    pub fn choices(&self, samples: &[(i64, u64)], full_rows: u64) -> Choices {
        let mut choices = Choices::default();
        let ends = samples.iter().map(|sample| sample.0);
        let Some((first, last)) = ends.clone().min().zip(ends.max()) else {
            return choices;
        };
        let rows = samples.iter().map(|sample| sample.1).sum::<u64>();
        if rows < LEAST_ROWS {
            return choices;
        }
        let divides = |length: i64| Window::of(first, length) != Window::of(last, length);
        // Of few rows only those are divided off that are far from the others, not what lies behind the end of a window.
        let core = middle_half(samples);
        let is_far = |length: i64| {
            let length = length.unsigned_abs();
            last.abs_diff(first) / FAR >= length && core <= length / WIDE
        };
        let usual = rows * USUAL.0 / USUAL.1;
        choices.is_few = usual < full_rows;
        let most_windows = match choices.is_few {
            true => MOST_WINDOWS_OF_FEW,
            false => MOST_WINDOWS,
        };
        let has_rows = |least: u64| {
            let mut lengths = self.lengths.iter();
            lengths.position(|&length| !divides(length) || usual_rows(samples, length).0 >= least)
        };
        let (Some(full), Some(few)) = (has_rows(full_rows.min(usual)), has_rows(FEW_ROWS)) else {
            return choices;
        };
        let kept = self.lengths.partition_point(|&length| self.is_kept(length));
        let shortest = full.min(few.max(kept.saturating_sub(1)));
        let lengths = self.lengths[shortest..].iter().copied();
        let is_few = choices.is_few;
        choices.lengths = lengths
            .take_while(|&length| divides(length))
            .filter(|&length| !is_few || is_far(length))
            .filter(|&length| usual_rows(samples, length).1 <= most_windows)
            .take(MOST_CHOICES)
            .collect();
        choices
    }

    /// Rows of so many series may be divided into so many runs of one series and one window.
    pub fn most_runs(&self, series: u64, rows: u64, is_few: bool) -> u64 {
        let run_rows = match self.longest {
            i64::MAX => RUN_ROWS,
            _ => KEPT_RUN_ROWS,
        };
        let divided_off = match is_few {
            true => rows - rows * USUAL.0 / USUAL.1,
            false => series / 4,
        };
        (rows / run_rows).max(series + divided_off)
    }

    /// Into how many chunks rows of one series are divided for the table's retention, so that they expire as a whole.
    pub fn parts_kept(&self, extent: i64, rows: u64) -> u64 {
        // What is kept as one chunk is not divided: it would be merged again.
        let wanted = u64::try_from(extent.max(1) - 1).unwrap_or(0) / self.longest.unsigned_abs();
        (wanted + 1).min(rows / FEW_ROWS)
    }

    /// Are windows of a length short enough for the table's retention?
    pub fn is_kept(&self, length: i64) -> bool {
        length <= self.longest
    }
}

/// The rows of the window that the middle one of all rows is in, by the rows of windows; and how many windows there are.
fn usual_rows(samples: &[(i64, u64)], length: i64) -> (u64, usize) {
    error::check_interrupts();
    let mut windows: FxHashMap<i64, u64> = FxHashMap::default();
    for &(time, rows) in samples {
        *windows.entry(Window::of(time, length).number).or_default() += rows;
    }
    let mut rows: Vec<u64> = windows.into_values().collect();
    rows.sort_unstable();
    let half = rows.iter().sum::<u64>() / 2;
    let mut below = 0;
    let middle = rows.iter().find(|&&rows| {
        below += rows;
        below > half
    });
    (middle.copied().unwrap_or(0), rows.len())
}

/// The time between the first and the third quartile.
fn middle_half(samples: &[(i64, u64)]) -> u64 {
    let mut times: Vec<i64> = samples.iter().map(|sample| sample.0).collect();
    times.sort_unstable();
    let (first, third) = (times.len() / 4, times.len() * 3 / 4);
    let pair = times.get(first).zip(times.get(third));
    pair.map_or(0, |(first, third)| third.abs_diff(*first))
}

fn about_us(keep: &Span) -> i64 {
    (i64::from(keep.months) * 30 + i64::from(keep.days))
        .saturating_mul(DAY_US)
        .saturating_add(keep.us)
}

fn powers_of_two(least: i64) -> Vec<i64> {
    core::iter::successors(Some(least), |length| length.checked_mul(2)).collect()
}
