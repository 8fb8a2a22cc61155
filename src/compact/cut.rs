//! Cutting the ordered rows of a merge into chunks: long series get their own, short ones share them.

use super::long_key;
use super::merge::Round;
use super::parts::Part;
use crate::chunk::encode::{self, Encoded, Plan, CHUNK_BYTES};
use crate::chunk::index_entries::SeriesIndexes;
use crate::chunk::row_set::{integer_at, RowSet};
use crate::guc;
use crate::pg::error;
use core::ops::Range;
use varve_columns::chunk::Tier;

/// Rows that a chunk has at most, of rows that take so many bytes.
pub fn chunk_limit(rows: usize, bytes: usize) -> usize {
    let per_row = (bytes / rows.max(1)).max(1);
    guc::chunk_rows().min((CHUNK_BYTES / per_row).max(1))
}

/// Writes the chunks of a slice of a part that are complete, of a level; returns the rows that wait for the next slice.
pub fn write_slice(
    round: &Round,
    set: RowSet,
    (part, level): (Part, u8),
    indexes: &SeriesIndexes,
    last: bool,
) -> RowSet {
    let order = set.order(round.layout);
    // Rows with large values do not wait for others: they are chunks by themselves.
    let is_full = set.bytes >= guc::batch_memory_bytes();
    let mut writer = Writer {
        round,
        set: &set,
        part,
        level,
        indexes,
        rows: &order.rows,
        shared: 0..0,
        shared_keyed: true,
    };
    let mut waiting = 0..0;
    for (at, series) in order.all_series().enumerate() {
        let open = !last && at + 1 == order.series();
        waiting = writer.series(series, open, is_full);
    }
    if is_full {
        writer.close();
    }
    let start = if last {
        writer.close();
        set.rows
    } else if writer.shared.is_empty() {
        waiting.start
    } else {
        writer.shared.start
    };
    set.pick(&order.rows[start.min(set.rows)..])
}

/// Cuts ordered rows into chunks.
struct Writer<'a, 'b> {
    round: &'a Round<'b>,
    set: &'a RowSet,
    part: Part,
    /// Of chunks of several series.
    level: u8,
    indexes: &'a SeriesIndexes<'b>,
    /// Row numbers in order.
    rows: &'a [u32],
    /// Rows of short series that wait for their chunk to fill.
    shared: Range<usize>,
    /// All of them may be entered under their keys.
    shared_keyed: bool,
}

impl Writer<'_, '_> {
    fn limit(&self) -> usize {
        chunk_limit(self.set.rows, self.set.bytes)
    }

    /// What the series of a row is known by.
    fn known_key(&self, row: u32) -> Vec<u8> {
        let keys = self.round.layout.keys.iter();
        let keys = keys.map(|&key| &self.set.columns[usize::from(key) - 1]);
        let mut key = Vec::new();
        long_key::put_known(&mut key, keys, row as usize);
        key
    }

    /// May the rows of a short series in this part be entered under its key?
    fn is_keyed(&self, key: &[u8]) -> bool {
        let series = self.round.series.get(key);
        series.is_some_and(|series| match self.part {
            Part::Late => false,
            Part::Window(number) if !series.own => {
                let is_parted = self.round.parts_late
                    || series
                        .run(number)
                        .is_some_and(|run| run.late_until.is_none());
                !long_key::is_short_for(key) && is_parted
            }
            _ => series.keyed,
        })
    }

    /// Takes one series; returns the rows of it that are not written yet. `open`: more may follow, and rows of a short series wait for them
    /// unless memory `is_full`.
    fn series(&mut self, range: Range<usize>, open: bool, is_full: bool) -> Range<usize> {
        let timed = self.timed_end(&range);
        let key = self.known_key(self.rows[range.start]);
        let own = self
            .round
            .series
            .get(&key)
            .filter(|series| series.own && timed > range.start);
        let Some(series) = own else {
            if open && !is_full {
                return range;
            }
            let keyed = !open && timed == range.end && self.is_keyed(&key);
            self.share(range.clone(), keyed);
            if self.shared.len() * 2 >= self.limit() && self.round.ends.contains(key.as_slice()) {
                self.close();
            }
            return range.end..range.end;
        };
        self.close();
        let rows = series.span.rows as usize;
        let extent = series.span.max.saturating_sub(series.span.min);
        let kept = self.round.windows.parts_kept(extent, rows as u64) as usize;
        let parts = rows.div_ceil(self.limit()).max(kept).max(1);
        let size = rows.div_ceil(parts).clamp(1, self.limit());
        let mut start = range.start;
        while timed - start >= size {
            self.write(start..start + size, true, series.keyed);
            start += size;
        }
        if open {
            return start..range.end;
        }
        if start < timed {
            self.write(start..timed, true, series.keyed);
        }
        if timed < range.end {
            self.share(timed..range.end, false);
        }
        range.end..range.end
    }

    /// Where the rows without a time start, which sort last.
    fn timed_end(&self, range: &Range<usize>) -> usize {
        match self.round.layout.time {
            None => range.start,
            Some(time) => {
                let column = &self.set.columns[usize::from(time) - 1];
                range.start
                    + self.rows[range.clone()]
                        .partition_point(|&row| !integer_at(column, row as usize).0)
            }
        }
    }

    /// Lets rows of one series share a chunk with their neighbours.
    fn share(&mut self, mut range: Range<usize>, keyed: bool) {
        let limit = self.limit();
        let first = self.rows[range.start] as usize;
        let null = self.round.layout.keys.iter().any(|&number| {
            let validity = &self.set.columns[usize::from(number) - 1].validity;
            validity.as_ref().is_some_and(|valid| !valid[first])
        });
        if self.shared.len() + range.len() > limit || null && self.shared_keyed {
            self.close();
        }
        while range.len() > limit {
            self.write(range.start..range.start + limit, false, false);
            range.start += limit;
        }
        if self.shared.is_empty() {
            self.shared = range;
            self.shared_keyed = keyed && !null;
        } else {
            self.shared.end = range.end;
            self.shared_keyed &= keyed;
        }
    }

    fn close(&mut self) {
        let shared = core::mem::replace(&mut self.shared, 0..0);
        if !shared.is_empty() {
            self.write(shared, false, self.shared_keyed);
        }
        self.shared_keyed = true;
    }

    fn write(&self, range: Range<usize>, one_series: bool, keyed: bool) {
        error::check_interrupts();
        let level = match one_series {
            true => {
                let key = self.known_key(self.rows[range.start]);
                let level = self.round.own_levels.get(key.as_slice());
                level.copied().unwrap_or(1)
            }
            false => self.level,
        };
        let columns = self.set.gather(&self.rows[range]);
        let plan = Plan {
            level,
            one_series,
            keyed,
            tier: Tier::Merged(guc::merge_point()),
        };
        let target = &self.round.target;
        let at = Encoded::new(&columns, self.round.layout, &plan).write(target);
        encode::enter(target.table, self.indexes, at);
    }
}
