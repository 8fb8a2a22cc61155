//! Which rows of a merge are written together: those of long series, those of each window of time, and those that lie among older ones.

use super::cut::chunk_limit;
use super::merge::{Broken, Round};
use super::plan::GROWTH;
use super::series_map::{Run, Series};
use super::windows::{Choices, Window, ALL_TIMES, FEW_ROWS};
use crate::chunk::read::Damage;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use varve_columns::tuple::header::{FLAG_ONE_SERIES, FLAG_SORTED};

/// A window has rows for so many full chunks where rows of several windows are divided.
const FULL_CHUNKS: u64 = 4;
/// Times of each source that tell how long windows should be, besides its ends.
const SAMPLES: usize = 32;

/// Rows that are written one after the other, in the order of (key, time).
#[derive(Clone, Copy, PartialEq)]
pub enum Part {
    All,
    /// Those of series with chunks of their own, and those without a time.
    Own,
    /// Those of other series in one window, except late ones.
    Window(i64),
    /// Those of other series that lie among older ones.
    Late,
}

impl Series {
    pub fn run(&self, number: i64) -> Option<&Run> {
        self.windows.iter().find(|run| run.number == number)
    }

    fn part(&self, time: i64, length: i64, parts_late: bool) -> Part {
        if self.own {
            return Part::Own;
        }
        let number = Window::of(time, length).number;
        let end = self.run(number).and_then(|run| run.late_until);
        match parts_late && end.is_some_and(|end| time <= end) {
            true => Part::Late,
            false => Part::Window(number),
        }
    }

    fn has_late(&self) -> bool {
        self.windows.iter().any(|run| run.late_until.is_some())
    }
}

impl Round<'_> {
    /// Counts rows and notes the time range of each series, and the windows of short ones.
    pub fn count_series(&mut self) -> Result<(), Broken> {
        self.count_spans()?;
        let choices = match self.merge.window {
            Some(window) => Choices {
                lengths: vec![window.length],
                is_few: false,
            },
            None => self.choices()?,
        };
        for length in choices.lengths {
            let short = || self.series.values().filter(|series| !series.own);
            let number = |time| Window::of(time, length).number;
            let first = short().map(|series| number(series.span.min)).min();
            let last = short().map(|series| number(series.span.max)).max();
            if first == last {
                break;
            }
            let rows = short().map(|series| series.span.rows).sum();
            let most_runs = match self.merge.window {
                Some(_) => u64::MAX,
                None => self
                    .windows
                    .most_runs(short().count() as u64, rows, choices.is_few),
            };
            if self.count_windows(length, most_runs)? {
                self.length = length;
                return Ok(());
            }
        }
        for series in self.series.values_mut() {
            series.windows.clear();
            series.windows.push(Run {
                number: 0,
                span: series.span,
                late_until: None,
            });
        }
        Ok(())
    }

    fn count_spans(&mut self) -> Result<(), Broken> {
        let own_rows = self.own_rows();
        for at in 0..self.sources.len() {
            let spans = self.check(at, |round, at| {
                round.sources[at].spans(round.layout, ALL_TIMES, own_rows)
            })?;
            for ((key, _), span) in spans {
                match self.series.get_mut(&key) {
                    Some(series) => series.span.extend(span),
                    None => {
                        let series = Series {
                            span,
                            windows: SmallVec::new(),
                            own: false,
                            keyed: false,
                        };
                        self.series.insert(&key, series);
                    }
                }
            }
        }
        for series in self.series.values_mut() {
            series.own = series.span.rows >= own_rows;
        }
        Ok(())
    }

    /// Notes the windows of each short series; false when there are more than `most` in all.
    fn count_windows(&mut self, length: i64, most: u64) -> Result<bool, Broken> {
        let own_rows = self.own_rows();
        for series in self.series.values_mut() {
            series.windows.clear();
        }
        let mut count = 0;
        for at in 0..self.sources.len() {
            let spans = self.check(at, |round, at| {
                round.sources[at].spans(round.layout, length, own_rows)
            })?;
            for ((key, number), span) in spans {
                let series = self.series.get_mut(&key);
                let Some(series) = series.filter(|series| !series.own) else {
                    continue;
                };
                match series.windows.iter_mut().find(|run| run.number == number) {
                    Some(run) => run.span.extend(span),
                    None => {
                        count += 1;
                        series.windows.push(Run {
                            number,
                            span,
                            late_until: None,
                        });
                    }
                }
            }
            if count > most {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Lengths of windows to try for rows of whatever times.
    fn choices(&mut self) -> Result<Choices, Broken> {
        let mut samples = Vec::new();
        let (mut rows, mut bytes) = (0usize, 0usize);
        for at in 0..self.sources.len() {
            let some = self.check(at, |round, at| {
                round.sources[at].sample_times(round.layout, SAMPLES)
            })?;
            samples.extend(some);
            let source = &self.sources[at];
            let header = &source.reader.chunk.header;
            if !source.may_lack_times(self.layout) && header.has(FLAG_SORTED) {
                samples.extend([(header.min_time, 1), (header.max_time, 1)]);
            }
            let live = source.live_count() as usize;
            rows += live;
            bytes += live * source.row_bytes;
        }
        let full_rows = FULL_CHUNKS * chunk_limit(rows, bytes) as u64;
        Ok(self.windows.choices(&samples, full_rows))
    }

    /// Parts the rows of short series that lie among older ones from the others, if these are worth a chunk.
    pub fn part_late(&mut self) -> Result<(), Broken> {
        self.parts_late = self.series.values().any(Series::has_late);
        if !self.parts_late {
            return Ok(());
        }
        let short = self.series.values().filter(|series| !series.own);
        let rows: u64 = short.map(|series| series.span.rows).sum();
        let mut late = 0;
        for at in 0..self.sources.len() {
            late += self
                .check(at, |round, at| round.rows_of(at, Part::Late))?
                .len() as u64;
        }
        self.parts_late = late * 2 <= rows || rows - late >= FEW_ROWS;
        Ok(())
    }

    fn has_own(&self) -> bool {
        self.series.values().any(|series| series.own)
    }

    pub fn parts(&self) -> Vec<Part> {
        if self.length == ALL_TIMES && !self.parts_late {
            return vec![Part::All];
        }
        let short = self.series.values().filter(|series| !series.own);
        let numbers = short.flat_map(|series| series.windows.iter().map(|run| run.number));
        let numbers: BTreeSet<i64> = numbers.collect();
        let mut sources = self.sources.iter();
        let has_others = self.has_own() || sources.any(|source| source.may_lack_times(self.layout));
        let own = has_others.then_some(Part::Own);
        let windows = numbers.into_iter().map(Part::Window);
        let late = self.parts_late.then_some(Part::Late);
        own.into_iter().chain(windows).chain(late).collect()
    }

    /// The rows of a source that belong to a part.
    pub fn rows_of(&self, at: usize, part: Part) -> Result<Vec<u32>, Damage> {
        let source = &self.sources[at];
        let length = self.length;
        if let Part::Window(window) = part {
            let chunk = &source.reader.chunk;
            let number = |time| Window::of(time, length).number;
            let times = number(chunk.header.min_time)..=number(chunk.header.max_time);
            let is_known = chunk.header.has(FLAG_SORTED) && chunk.statics.time == self.layout.time;
            if is_known && !times.contains(&window) {
                return Ok(Vec::new());
            }
        }
        if part == Part::All {
            return Ok(source.live_rows());
        }
        // Without long series and late rows the time says all.
        let has_keys = self.has_own() || self.parts_late;
        // Most rows of a series follow each other.
        let mut last: (Vec<u8>, Option<&Series>) = (Vec::new(), None);
        source.rows_where(self.layout, has_keys, |key, time| {
            let Some(time) = time else {
                return part == Part::Own;
            };
            if !has_keys {
                return part == Part::Window(Window::of(time, length).number);
            }
            if last.0 != key || last.1.is_none() {
                last = (key.to_vec(), self.series.get(key));
            }
            last.1
                .is_some_and(|series| series.part(time, length, self.parts_late) == part)
        })
    }

    pub fn live_counts(&self) -> Vec<usize> {
        let sources = self.sources.iter();
        sources.map(|source| source.live_count() as usize).collect()
    }

    /// The level of the shared chunks of a part to which each source gives so many rows: of what comes from higher levels only as much
    /// counts as is a fair part of it, and it rises for as much that is new. What is left over of a window beyond its end is merged again with
    /// the next.
    pub fn level_of(&self, part: Part, counts: &[usize]) -> u8 {
        let mut rows: BTreeMap<u8, u64> = BTreeMap::new();
        for (source, &count) in self.sources.iter().zip(counts) {
            let header = &source.reader.chunk.header;
            if header.level == 0 || !header.has(FLAG_ONE_SERIES) {
                *rows.entry(header.level).or_default() += count as u64;
            }
        }
        let all: u64 = rows.values().sum();
        let mut from_above = 0;
        let level = rows.iter().rev().find(|(_, &rows)| {
            from_above += rows;
            from_above > 0 && from_above * GROWTH >= all
        });
        let level = level.map_or(0, |(&level, _)| level);
        let rises = match (part, self.merge.window) {
            (Part::Window(number), Some(window)) if self.length != ALL_TIMES => {
                window.number == number
            }
            (_, Some(_)) => true,
            _ => self.merge.rises && (all - from_above) * GROWTH >= all,
        };
        level.saturating_add(u8::from(rises)).max(1)
    }
}
