//! Merging: one round, in one transaction, rewrites chunks sorted by (key, time). Rows are read and
//! written in slices of that order, so memory is bounded by `varve.batch_memory` however many go in.
//!
//! A series of 1,024 rows or more in a round gets chunks of its own; shorter ones share chunks (`cut`), in the
//! order of keys, one part after the other (`parts`). Chunks are entered under the keys of their series where they can be: the times that
//! keyed chunks have of one series never overlap. Own chunks that the new rows of a long series overlap
//! are pulled into the round. Where that would rewrite far more than is new, or one of them is locked, the new chunk
//! stays without a key until a later round; so does that of the rows of short series that lie among older ones.

use super::cut;
use super::header_delete::delete_header;
use super::long_key;
use super::parts::Part;
use super::plan::{Merge, GROWTH};
use super::seen::Seen;
use super::series_map::{Series, SeriesMap};
use super::source::{Source, Span};
use super::survey::{self, Survey};
use super::windows::{Windows, ALL_TIMES};
use crate::catalog::layout::Layout;
use crate::chunk::encode::OWN_CHUNK_ROWS;
use crate::chunk::index_entries::SeriesIndexes;
use crate::chunk::notes;
use crate::chunk::read::Damage;
use crate::chunk::row_set::RowSet;
use crate::chunk::write::Target;
use crate::guc;
use crate::pg::error;
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::TransactionId;
use crate::table::next_version;
use rustc_hash::{FxHashMap, FxHashSet};

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

pub struct Round<'a> {
    pub target: Target<'a>,
    pub layout: &'a Layout,
    survey: &'a Survey,
    snapshot: Snapshot<'a>,
    pub sources: Vec<Source>,
    /// The survey's numbers of the sources. An input that somebody is at is not among them: it stays
    /// where it is, and what is written must not overlap it.
    claimed: FxHashSet<usize>,
    /// What was written before is over for every snapshot.
    horizon: TransactionId,
    pub series: SeriesMap,
    pub merge: &'a Merge,
    pub windows: &'a Windows,
    /// Length of the windows that rows of short series are divided by.
    pub length: i64,
    /// Rows of short series that lie among keyed chunks are written apart from the others.
    pub parts_late: bool,
    /// Least level of the own chunks of each series that are written.
    pub own_levels: FxHashMap<&'a [u8], u8>,
    /// Last keys of keyed chunks of several series that stay.
    pub ends: FxHashSet<&'a [u8]>,
}

/// Merges chunks of a survey.
///
/// `table` must be open with the lock of compact, `snapshot` active.
pub fn round(
    table: Table<'_>,
    layout: &Layout,
    survey: &Survey,
    windows: &Windows,
    merge: &Merge,
    snapshot: Snapshot<'_>,
) -> Result<Done, Broken> {
    // SAFETY: the table is open, the snapshot valid.
    unsafe {
        let mut round = Round {
            target: Target::current(table),
            layout,
            survey,
            snapshot,
            sources: Vec::new(),
            claimed: FxHashSet::default(),
            horizon: table.horizon(),
            series: SeriesMap::default(),
            merge,
            windows,
            length: ALL_TIMES,
            parts_late: false,
            own_levels: FxHashMap::default(),
            ends: FxHashSet::default(),
        };
        let mut inputs = merge.inputs.clone();
        inputs.sort_by_key(|&at| survey.chunks[at].tid);
        for at in inputs {
            let seen = &survey.chunks[at];
            if round.claim(at)? && seen.one_series && seen.level > 0 {
                let level = round.own_levels.entry(&seen.first_key).or_default();
                *level = (*level).max(seen.level.saturating_add(1));
            }
        }
        round.count_series()?;
        round.note_ends();
        round.decide()?;
        round.part_late()?;
        round.write()?;
        Ok(round.finish())
    }
}

impl Round<'_> {
    /// Takes a chunk into the round, unless somebody is at it.
    fn claim(&mut self, at: usize) -> Result<bool, Broken> {
        error::check_interrupts();
        let seen = &self.survey.chunks[at];
        if seen.damaged {
            return Ok(false);
        }
        let table = self.target.table;
        let source = match survey::open(table, self.layout, self.snapshot, seen) {
            None => return Ok(false),
            Some(opened) => opened.map_err(|damage| Broken {
                header: seen.tid,
                damage,
            })?,
        };
        let chunk = &source.reader.chunk;
        // Who comes to a row by an older snapshot has to find where it was updated to: the rows that move have no such places.
        if chunk.map.has_successors() && !notes::is_settled(chunk, self.horizon) {
            return Ok(false);
        }
        let claimed = delete_header(table, chunk, self.target.command, true);
        if claimed {
            if seen.one_series && seen.level > 0 {
                let level = self.own_levels.entry(&seen.first_key).or_default();
                *level = (*level).max(seen.level);
            }
            self.sources.push(source);
            self.claimed.insert(at);
        }
        Ok(claimed)
    }

    /// Names the source that is damaged.
    pub fn check<R>(
        &mut self,
        at: usize,
        body: impl FnOnce(&mut Self, usize) -> Result<R, Damage>,
    ) -> Result<R, Broken> {
        body(self, at).map_err(|damage| Broken {
            header: self.sources[at].reader.chunk.tid,
            damage,
        })
    }

    pub fn own_rows(&self) -> u64 {
        if self.layout.keys.is_empty() {
            1
        } else {
            OWN_CHUNK_ROWS.min(guc::chunk_rows()) as u64
        }
    }

    /// Decides which series are entered under their keys, and claims what has to be merged for that.
    fn decide(&mut self) -> Result<(), Broken> {
        let sorted = self.series.sorted();
        let shared = self.shared_spans(&sorted);
        let mut all = core::mem::take(&mut self.series);
        for number in sorted {
            error::check_interrupts();
            let (key, series) = all.series_mut(number);
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
                self.pull(series, &own, apart)?;
            } else {
                for run in &mut series.windows {
                    let others = shared.get(key).into_iter().flatten().copied();
                    let others = others.chain(own.iter().map(|&at| self.span(at)));
                    let among = others.filter(|other| other.overlaps(&run.span));
                    run.late_until = among.map(|other| other.max).max();
                }
                let mut runs = series.windows.iter();
                series.keyed = runs.all(|run| run.late_until.is_none());
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
        let level = self.level_of(Part::All, &self.live_counts());
        self.ends = others
            .filter(|(at, seen)| {
                seen.keyed && !seen.one_series && seen.level >= level && !claimed.contains(at)
            })
            .map(|(_, seen)| &*seen.last_key)
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

    /// The times that new rows of a long series may be written with: those of its own chunks that may be pulled into the round, too.
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

    /// What keyed chunks of several series, which are not in the round, hold of its series. `sorted`: their numbers by key.
    fn shared_spans(&self, sorted: &[u32]) -> FxHashMap<Vec<u8>, Vec<Span>> {
        let mut out: FxHashMap<Vec<u8>, Vec<Span>> = FxHashMap::default();
        let of_long = sorted.iter().filter(|&&at| self.series.series(at).own);
        let of_long: FxHashMap<u32, Span> = of_long
            .map(|&at| {
                let span = self.series.series(at).span;
                (at, self.reach(self.series.key(at), span))
            })
            .collect();
        let reach = |at: u32| match of_long.get(&at) {
            Some(&reach) => reach,
            // Nothing is pulled into the round for a short one.
            None => self.series.series(at).span,
        };
        let Some(all) = sorted.iter().map(|&at| reach(at)).reduce(Span::union) else {
            return out;
        };
        let may_share = |seen: &Seen, span: &Span| {
            let from = sorted.partition_point(|&at| self.series.key(at) < &*seen.first_key);
            let mut inside = sorted[from..]
                .iter()
                .take_while(|&&at| self.series.key(at) <= &*seen.last_key);
            span.overlaps(&all) && inside.any(|&at| span.overlaps(&reach(at)))
        };
        for (at, seen) in self.survey.chunks.iter().enumerate() {
            let other = seen.keyed && !seen.one_series && !self.claimed.contains(&at);
            error::check_interrupts();
            if !other || !may_share(seen, &self.span(at)) {
                continue;
            }
            let source = survey::open(self.target.table, self.layout, self.snapshot, seen);
            match source.map(|source| source?.stored_spans(self.layout)) {
                Some(Ok(spans)) => spans
                    .into_iter()
                    .filter(|(key, _)| self.series.get(key).is_some())
                    .for_each(|(key, span)| out.entry(key).or_default().push(span)),
                // It has got another header since, or is damaged: any of its series can have any of its
                // times.
                Some(Err(_)) | None => sorted
                    .iter()
                    .map(|&number| self.series.key(number))
                    .filter(|key| (&*seen.first_key..=&*seen.last_key).contains(key))
                    .for_each(|key| out.entry(key.to_vec()).or_default().push(self.span(at))),
            }
        }
        out
    }

    /// Claims the own chunks, sorted by time, that a long series overlaps, and small neighbours.
    fn pull(
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
        if !self.merge.pulls {
            series.keyed = inside.is_empty() && apart(&new);
            return Ok(());
        }
        let all = inside.iter().fold(new, |all, &at| all.union(self.span(at)));
        series.keyed = all.rows - new.rows <= new.rows * PULL
            && apart(&all)
            && inside.iter().all(|&at| self.survey.chunks[at].settled);
        for &at in inside {
            series.keyed = series.keyed && self.claim(at)?;
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
                && self.windows.is_kept(all.max.saturating_sub(all.min))
                && self.claim(at)?;
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

    /// Writes the new chunks, part by part.
    ///
    /// # Safety
    /// The table must be open with the lock of compact.
    unsafe fn write(&mut self) -> Result<(), Broken> {
        let indexes = SeriesIndexes::open(self.target.table);
        for part in self.parts() {
            // SAFETY: by contract.
            unsafe { self.write_part(part, &indexes) }?;
        }
        Ok(())
    }

    /// Reads the rows of a part in order, slice by slice, and writes the new chunks.
    ///
    /// # Safety
    /// As `write`.
    unsafe fn write_part(&mut self, part: Part, indexes: &SeriesIndexes) -> Result<(), Broken> {
        let mut counts = self.live_counts();
        if part != Part::All {
            for (at, count) in counts.iter_mut().enumerate() {
                *count = self.check(at, |round, at| round.rows_of(at, part))?.len();
            }
        }
        let level = self.level_of(part, &counts);
        let bounds = self.slice_bounds(part, &counts)?;
        // SAFETY: the table is open.
        let mut set = unsafe { RowSet::new(self.target.table.descriptor()) };
        let slices = bounds.len() + 1;
        for slice in 0..slices {
            let from = slice.checked_sub(1).map(|at| bounds[at].as_slice());
            let to = bounds.get(slice).map(Vec::as_slice);
            for (at, _) in counts.iter().enumerate().filter(|(_, &count)| count > 0) {
                self.check(at, |round, at| {
                    let rows = round.rows_of(at, part)?;
                    let source = &round.sources[at];
                    let rows = source.rows_between(round.layout, rows, from, to)?;
                    if !rows.is_empty() {
                        source.append(&mut set, &rows)?;
                    }
                    Ok(())
                })?;
            }
            set = cut::write_slice(self, set, (part, level), indexes, slice + 1 == slices);
        }
        Ok(())
    }

    /// Sort keys at which to cut the rows of a part into slices that fit into memory. `counts`: how many of them each source has.
    fn slice_bounds(&mut self, part: Part, counts: &[usize]) -> Result<Vec<Vec<u8>>, Broken> {
        let rows: usize = counts.iter().sum();
        let of_source = self.sources.iter().zip(counts);
        let bytes: usize = of_source
            .map(|(source, count)| source.row_bytes * count)
            .sum();
        let slices = bytes.div_ceil(guc::batch_memory_bytes()).max(1);
        if slices == 1 || self.layout.time.is_none() {
            return Ok(Vec::new());
        }
        let step = (rows / (slices * 32)).max(1);
        let mut samples = Vec::new();
        for (at, _) in counts.iter().enumerate().filter(|(_, &count)| count > 0) {
            self.check(at, |round, at| {
                let live = round.rows_of(at, part)?;
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
