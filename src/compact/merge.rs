//! Merging: one round, in one transaction, rewrites chunks sorted by (key, time). Rows are read and
//! written in slices of that order, so memory is bounded by `varve.batch_memory` however many go in.
//!
//! A series of 1,024 rows or more in a round gets chunks of its own; shorter ones share chunks, in the
//! order of keys. Chunks are entered under the keys of their series where they can be: the times that
//! keyed chunks have of one series never overlap. Own chunks that the new rows of a long series overlap
//! are pulled into the round. Where that would rewrite far more than is new, or one of them is locked,
//! and where short series overlap older rows, the new chunk stays without a key until a later round.

use super::long_key;
use super::plan::GROWTH;
use super::source::{Source, Span};
use super::survey::{self, Seen, Survey};
use crate::catalog::layout::Layout;
use crate::chunk::encode::{self, Encoded, Plan, CHUNK_BYTES, OWN_CHUNK_ROWS};
use crate::chunk::index_entries::SeriesIndexes;
use crate::chunk::notes;
use crate::chunk::read::{Chunk, Damage};
use crate::chunk::row_set::{integer_at, RowSet};
use crate::chunk::write::{self, Target};
use crate::guc;
use crate::pg::error;
use crate::pg::tid::Tid;
use crate::table::locks;
use crate::table::next_version;
use pgrx::pg_sys;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::ops::Bound::Included;
use varve_columns::chunk::Tier;

/// Late rows pull in keyed chunks of up to so many times their number.
const PULL: u64 = 16;

/// What a round did.
#[derive(Default, Clone, Copy)]
pub struct Done {
    pub chunks: usize,
    /// Storage tuples or rows that were deleted.
    pub freed: u64,
}

/// A chunk that cannot be decoded. The round that came upon it must be rolled back; the chunk stays as it is.
pub struct Broken {
    pub header: Tid,
    pub damage: Damage,
}

/// The rows of one series in a round.
struct Series {
    span: Span,
    /// Gets chunks of its own.
    own: bool,
    /// Its chunks may be entered under its key.
    keyed: bool,
}

struct Round<'a> {
    target: Target,
    layout: &'a Layout,
    survey: &'a Survey,
    snapshot: pg_sys::Snapshot,
    sources: Vec<Source>,
    /// The survey's numbers of the sources. An input that somebody is at is not among them: it stays
    /// where it is, and what is written must not overlap it.
    claimed: FxHashSet<usize>,
    series: FxHashMap<Vec<u8>, Series>,
    level: u8,
    /// Last keys of keyed chunks of several series that stay.
    ends: FxHashSet<&'a [u8]>,
}

/// Merges the chunks `inputs` of a survey.
///
/// # Safety
/// `table` must be open with the lock of compact, `snapshot` active.
pub unsafe fn round(
    table: pg_sys::Relation,
    layout: &Layout,
    survey: &Survey,
    inputs: &[usize],
    snapshot: pg_sys::Snapshot,
) -> Result<Done, Broken> {
    // SAFETY: by contract.
    unsafe {
        let mut round = Round {
            target: Target::current(table),
            layout,
            survey,
            snapshot,
            sources: Vec::new(),
            claimed: FxHashSet::default(),
            series: FxHashMap::default(),
            level: 1,
            ends: FxHashSet::default(),
        };
        let mut inputs = inputs.to_vec();
        inputs.sort_by_key(|&at| survey.chunks[at].tid);
        for at in inputs {
            if round.claim(at)? {
                round.level = round.level.max(survey.chunks[at].level.saturating_add(1));
            }
        }
        round.count_series()?;
        round.decide()?;
        round.note_ends();
        round.write()?;
        Ok(round.finish())
    }
}

/// Deletes the header of a chunk, as one whose rows move on; false when somebody has locked or changed it or a row since it was opened.
pub unsafe fn delete_header(
    table: pg_sys::Relation,
    chunk: &Chunk,
    command: pg_sys::CommandId,
) -> bool {
    // SAFETY: the caller has just seen the header under its snapshot.
    unsafe {
        locks::with_whole_chunk(table, chunk.header.chunk, || {
            !notes::has_others(chunk, None)
                && write::try_delete(table, chunk.tid, command, false, true)
                    == pg_sys::TM_Result::TM_Ok
        })
    }
}

impl Round<'_> {
    /// Takes a chunk into the round, unless somebody is at it.
    unsafe fn claim(&mut self, at: usize) -> Result<bool, Broken> {
        error::check_interrupts();
        let seen = &self.survey.chunks[at];
        if seen.damaged {
            return Ok(false);
        }
        // SAFETY: the table is open, the snapshot active.
        unsafe {
            let table = self.target.table;
            let source = match survey::open(table, self.layout, self.snapshot, seen) {
                None => return Ok(false),
                Some(opened) => opened.map_err(|damage| Broken {
                    header: seen.tid,
                    damage,
                })?,
            };
            let claimed = delete_header(table, &source.reader.chunk, self.target.command);
            if claimed {
                self.sources.push(source);
                self.claimed.insert(at);
            }
            Ok(claimed)
        }
    }

    /// Names the source that is damaged.
    fn check<R>(
        &mut self,
        at: usize,
        body: impl FnOnce(&mut Self, usize) -> Result<R, Damage>,
    ) -> Result<R, Broken> {
        body(self, at).map_err(|damage| Broken {
            header: self.sources[at].reader.chunk.tid,
            damage,
        })
    }

    fn own_rows(&self) -> u64 {
        if self.layout.keys.is_empty() {
            1
        } else {
            OWN_CHUNK_ROWS.min(guc::chunk_rows()) as u64
        }
    }

    /// Counts rows and notes the time range of each series.
    fn count_series(&mut self) -> Result<(), Broken> {
        let own_rows = self.own_rows();
        for at in 0..self.sources.len() {
            let spans = self.check(at, |round, at| round.sources[at].spans(round.layout))?;
            for (key, span) in spans {
                match self.series.get_mut(&key) {
                    Some(series) => series.span.extend(span),
                    None => {
                        self.series.insert(
                            key,
                            Series {
                                span,
                                own: false,
                                keyed: false,
                            },
                        );
                    }
                }
            }
        }
        for series in self.series.values_mut() {
            series.own = series.span.rows >= own_rows;
        }
        Ok(())
    }

    /// Decides which series are entered under their keys, and claims what has to be merged for that.
    unsafe fn decide(&mut self) -> Result<(), Broken> {
        // SAFETY: by the contract of `round`.
        let shared = unsafe { self.shared_spans() };
        let mut all = core::mem::take(&mut self.series);
        let mut work: Vec<_> = all.iter_mut().collect();
        work.sort_by(|a, b| a.0.cmp(b.0));
        for (key, series) in work {
            let own: Vec<usize> = self
                .survey
                .keyed
                .get(key)
                .into_iter()
                .flatten()
                .copied()
                .filter(|at| !self.claimed.contains(at))
                .collect();
            let apart = |span: &Span| {
                shared
                    .get(key)
                    .is_none_or(|spans| !spans.iter().any(|other| other.overlaps(span)))
            };
            if series.own {
                // SAFETY: as above.
                unsafe { self.pull(series, &own, apart) }?;
            } else {
                series.keyed = apart(&series.span)
                    && !own.iter().any(|&at| self.span(at).overlaps(&series.span));
            }
            series.keyed &= !long_key::is_short_for(key);
        }
        self.series = all;
        Ok(())
    }

    /// Chunks that end at keys where others end are merged with those alone: a merge of large ones falls into as many rounds.
    fn note_ends(&mut self) {
        let claimed = &self.claimed;
        let others = self.survey.chunks.iter().enumerate();
        self.ends = others
            .filter(|(at, seen)| {
                seen.keyed && !seen.one_series && seen.level >= self.level && !claimed.contains(at)
            })
            .map(|(_, seen)| seen.last_key.as_slice())
            .collect();
    }

    fn span(&self, at: usize) -> Span {
        let seen = &self.survey.chunks[at];
        Span {
            rows: u64::from(seen.live),
            min: seen.min_time,
            max: seen.max_time,
        }
    }

    /// The times that new rows of a series may be written with: those of its own chunks that may be pulled into the round, too.
    fn reach(&self, key: &[u8], new: Span) -> Span {
        let own = self.survey.keyed.get(key).map_or(&[][..], Vec::as_slice);
        let start = own.partition_point(|&at| self.span(at).max <= new.min);
        let inside = own[start..]
            .iter()
            .take_while(|&&at| self.span(at).overlaps(&new));
        let end = start + inside.count();
        let is_small = |at: &&usize| self.survey.chunks[**at].small;
        let before = own[..start].iter().rev().take_while(is_small);
        let behind = own[end..].iter().take_while(is_small);
        let pulled = own[start..end].iter().chain(before).chain(behind);
        pulled.fold(new, |all, &at| all.union(self.span(at)))
    }

    /// What keyed chunks of several series, which are not in the round, hold of its series.
    unsafe fn shared_spans(&self) -> FxHashMap<Vec<u8>, Vec<Span>> {
        let mut out: FxHashMap<Vec<u8>, Vec<Span>> = FxHashMap::default();
        let reach = self.series.iter();
        let reach: BTreeMap<&[u8], Span> = reach
            .map(|(key, series)| (key.as_slice(), self.reach(key, series.span)))
            .collect();
        let Some(all) = reach.values().copied().reduce(Span::union) else {
            return out;
        };
        let may_share = |seen: &Seen, span: &Span| {
            let keys = (seen.first_key.as_slice(), seen.last_key.as_slice());
            let mut reach = reach.range::<[u8], _>((Included(keys.0), Included(keys.1)));
            span.overlaps(&all) && reach.any(|(_, reach)| span.overlaps(reach))
        };
        for (at, seen) in self.survey.chunks.iter().enumerate() {
            let other = seen.keyed && !seen.one_series && !self.claimed.contains(&at);
            error::check_interrupts();
            if !other || !may_share(seen, &self.span(at)) {
                continue;
            }
            // SAFETY: the table is open, the snapshot active.
            let source =
                unsafe { survey::open(self.target.table, self.layout, self.snapshot, seen) };
            match source.map(|source| source?.stored_spans(self.layout)) {
                Some(Ok(spans)) => spans
                    .into_iter()
                    .filter(|(key, _)| self.series.contains_key(key))
                    .for_each(|(key, span)| out.entry(key).or_default().push(span)),
                // It has got another header since, or is damaged: any of its series can have any of its
                // times.
                Some(Err(_)) | None => self
                    .series
                    .keys()
                    .filter(|key| (&seen.first_key..=&seen.last_key).contains(key))
                    .for_each(|key| out.entry(key.clone()).or_default().push(self.span(at))),
            }
        }
        out
    }

    /// Claims the own chunks, sorted by time, that a long series overlaps, and small neighbours.
    unsafe fn pull(
        &mut self,
        series: &mut Series,
        own: &[usize],
        apart: impl Fn(&Span) -> bool,
    ) -> Result<(), Broken> {
        let new = series.span;
        let start = own.partition_point(|&at| self.span(at).max <= new.min);
        let count = own[start..]
            .iter()
            .take_while(|&&at| self.span(at).overlaps(&new))
            .count();
        let inside = &own[start..start + count];
        let all = inside.iter().fold(new, |all, &at| all.union(self.span(at)));
        series.keyed = all.rows - new.rows <= new.rows * PULL
            && apart(&all)
            && inside.iter().all(|&at| self.survey.chunks[at].settled);
        for &at in inside {
            // SAFETY: by the contract of `round`.
            series.keyed = series.keyed && unsafe { self.claim(at) }?;
        }
        series.span = all;
        if !series.keyed {
            return Ok(());
        }
        let mut absorb = |at: usize| -> Result<bool, Broken> {
            let span = self.span(at);
            let all = series.span.union(span);
            let taken = self.survey.chunks[at].small
                && span.rows <= series.span.rows * GROWTH
                && self.survey.chunks[at].settled
                && apart(&all)
                // SAFETY: as above.
                && unsafe { self.claim(at) }?;
            if taken {
                series.span = all;
            }
            Ok(taken)
        };
        for &at in own[..start].iter().rev() {
            if !absorb(at)? {
                break;
            }
        }
        for &at in &own[start + count..] {
            if !absorb(at)? {
                break;
            }
        }
        Ok(())
    }

    /// Reads all rows in order, slice by slice, and writes the new chunks.
    unsafe fn write(&mut self) -> Result<(), Broken> {
        let bounds = self.slice_bounds()?;
        // SAFETY: the table is open.
        let (indexes, mut set) = unsafe {
            (
                SeriesIndexes::open(self.target.table),
                RowSet::new((*self.target.table).rd_att),
            )
        };
        let slices = bounds.len() + 1;
        for slice in 0..slices {
            let from = slice.checked_sub(1).map(|at| bounds[at].as_slice());
            let to = bounds.get(slice).map(Vec::as_slice);
            for at in 0..self.sources.len() {
                self.check(at, |round, at| {
                    let source = &round.sources[at];
                    let rows = source.rows_between(round.layout, from, to)?;
                    if !rows.is_empty() {
                        source.append(&mut set, &rows)?;
                    }
                    Ok(())
                })?;
            }
            set = self.write_slice(set, &indexes, slice + 1 == slices);
        }
        Ok(())
    }

    /// Sort keys at which to cut the rows into slices that fit into memory.
    fn slice_bounds(&mut self) -> Result<Vec<Vec<u8>>, Broken> {
        let (mut rows, mut bytes) = (0usize, 0usize);
        for source in &self.sources {
            rows += source.live_count() as usize;
            bytes += source.live_count() as usize * source.row_bytes;
        }
        let slices = bytes.div_ceil(guc::batch_memory_bytes()).max(1);
        if slices == 1 || self.layout.time.is_none() {
            return Ok(Vec::new());
        }
        let step = (rows / (slices * 32)).max(1);
        let mut samples = Vec::new();
        for at in 0..self.sources.len() {
            self.check(at, |round, at| {
                let live = round.sources[at].live_rows();
                let rows: Vec<u32> = live.into_iter().skip(step / 2).step_by(step).collect();
                let columns = round.sources[at].sort_columns(round.layout, &rows)?;
                for row in 0..rows.len() {
                    let mut key = Vec::new();
                    columns.put(row as u32, &mut key);
                    key.shrink_to_fit();
                    samples.push(key);
                }
                Ok(())
            })?;
        }
        samples.sort();
        let mut bounds: Vec<Vec<u8>> = (1..slices)
            .filter_map(|slice| samples.get(slice * samples.len() / slices).cloned())
            .collect();
        bounds.dedup();
        Ok(bounds)
    }

    /// Writes the chunks of a slice that are complete; returns the rows that wait for the next slice.
    fn write_slice(&mut self, set: RowSet, indexes: &SeriesIndexes, last: bool) -> RowSet {
        let order = set.order(self.layout);
        // Rows with large values do not wait for others: they are chunks by themselves.
        let is_full = set.bytes >= guc::batch_memory_bytes();
        let mut writer = Writer {
            round: self,
            set: &set,
            indexes,
            rows: &order.rows,
            shared: 0..0,
            shared_keyed: true,
        };
        let mut waiting = 0..0;
        for (at, series) in order.series.iter().enumerate() {
            let open = !last && at + 1 == order.series.len();
            waiting = writer.series(series.clone(), open, is_full);
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

    /// Deletes the pieces of what was merged.
    fn finish(self) -> Done {
        let mut done = Done::default();
        for source in &self.sources {
            error::check_interrupts();
            let chunk = &source.reader.chunk;
            next_version::delete_pieces(self.target.table, chunk, self.target.command);
            done.chunks += 1;
            done.freed += chunk.statics.payload.tids.len() as u64 + 1;
        }
        done
    }
}

/// Cuts ordered rows into chunks.
struct Writer<'a, 'b> {
    round: &'a Round<'b>,
    set: &'a RowSet,
    indexes: &'a SeriesIndexes,
    /// Row numbers in order.
    rows: &'a [u32],
    /// Rows of short series that wait for their chunk to fill.
    shared: core::ops::Range<usize>,
    /// All of them may be entered under their keys.
    shared_keyed: bool,
}

impl Writer<'_, '_> {
    fn limit(&self) -> usize {
        let per_row = (self.set.bytes / self.set.rows.max(1)).max(1);
        guc::chunk_rows().min((CHUNK_BYTES / per_row).max(1))
    }

    /// Takes one series; returns the rows of it that are not written yet. `open`: more may follow, and rows of a short series wait for them
    /// unless memory `is_full`.
    fn series(
        &mut self,
        range: core::ops::Range<usize>,
        open: bool,
        is_full: bool,
    ) -> core::ops::Range<usize> {
        let timed = self.timed_end(&range);
        let keys = self.round.layout.keys.iter();
        let keys = keys.map(|&key| &self.set.columns[usize::from(key) - 1]);
        let mut key = Vec::new();
        long_key::put_known(&mut key, keys, self.rows[range.start] as usize);
        let own = self
            .round
            .series
            .get(&key)
            .filter(|series| series.own && timed > range.start);
        let Some(series) = own else {
            if open && !is_full {
                return range;
            }
            let keyed =
                !open && timed == range.end && self.round.series.get(&key).is_some_and(|s| s.keyed);
            self.share(range.clone(), keyed);
            if self.shared.len() * 2 >= self.limit() && self.round.ends.contains(key.as_slice()) {
                self.close();
            }
            return range.end..range.end;
        };
        self.close();
        let rows = series.span.rows as usize;
        let parts = rows.div_ceil(self.limit()).max(1);
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
    fn timed_end(&self, range: &core::ops::Range<usize>) -> usize {
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
    fn share(&mut self, mut range: core::ops::Range<usize>, keyed: bool) {
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

    fn write(&self, range: core::ops::Range<usize>, one_series: bool, keyed: bool) {
        error::check_interrupts();
        let columns = self.set.gather(&self.rows[range]);
        let plan = Plan {
            level: self.round.level,
            one_series,
            keyed,
            tier: Tier::Merged(guc::merge_point()),
        };
        let target = &self.round.target;
        let at = Encoded::new(&columns, self.round.layout, &plan).write(target);
        encode::enter(target.table, self.indexes, at);
    }
}
