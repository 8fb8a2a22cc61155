//! One series after another, each merged from three sources: entries of tail rows, keyed chunks, and
//! rows of the section of chunks that are not keyed.
//!
//! Forward, a chunk's entry sits at its greatest time, behind tail rows that come after the chunk's first
//! ones. So entries are read up to and including the next chunk before anything is returned: what is
//! still unread then lies behind that chunk's greatest time, since keyed chunks do not overlap. Backward,
//! nothing that is unread lies above the time of the next entry. The chunk that reaches over the upper
//! bound of a backward scan is found by looking forward from there.
//!
//! A long series has several entries of one chunk. The first that is met brings all rows of the chunk, and each
//! of them says up to where everything has been read.
//!
//! Most series are in one place: their next entry is of another series, and no other source has them. Their rows come out as they are there,
//! without being merged (`Lone`): of many short series, merging would cost more than all else.

use super::cells::Walk;
use super::ends::{self, Ends, Following};
use super::entries::{Entry, IndexDesc, Key, Stream, Time};
use super::known_series;
use super::later::{Turns, Waiting};
use super::listed;
use super::opened::Opened;
use super::quals::Quals;
use super::rows::{may_have, rows_of_series, within_bounds, ChunkRows, View};
use super::section::{self, has_rows, Place, Section};
use super::stretch::Stretch;
use crate::chunk::dead_header;
use crate::chunk::index_entries;
use crate::pg::error;
use crate::pg::relation::Table;
use crate::pg::scan_key::ScanKey;
use crate::pg::snapshot::Snapshot;
use crate::pg::table_fetch::TableFetch;
use crate::pg::tid::Tid;
use crate::table::fetched;
use crate::table::visible::OpenChunk;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use varve_columns::chunk::BLOCK_ROWS;
use varve_columns::tuple::header::FLAG_ONE_SERIES;

/// What a merge reads from.
pub struct Sources<'a> {
    pub desc: &'a IndexDesc<'a>,
    pub quals: &'a Quals,
    pub table: Table<'a>,
    pub snapshot: Snapshot<'a>,
    /// Which fetches the rows from the table.
    pub fetch: TableFetch<'a>,
    pub stream: &'a mut Stream,
    /// Keyed chunks that the scan has opened.
    pub opened: &'a mut Opened,
    /// Where the keyed chunks end.
    pub ends: &'a mut Ends,
    /// Chunks that are entered by cells, where no first key is named.
    pub walk: Option<&'a mut Walk>,
    /// For backward scans: the upper bound of time, and the same turned round.
    pub upper: Option<(ScanKey, ScanKey)>,
}

impl<'a> Sources<'a> {
    fn view(&self) -> View<'a> {
        View {
            desc: self.desc,
            quals: self.quals,
            descriptor: self.table.descriptor(),
        }
    }

    fn forward(&self) -> bool {
        self.stream.forward
    }

    fn place(&self) -> Place<'a> {
        Place {
            desc: self.desc,
            table: self.table,
            snapshot: self.snapshot,
        }
    }

    /// The next series of the chunks that are walked over by cells.
    fn peek_cells(&mut self) -> Option<Rc<Key>> {
        let place = self.place();
        let walk = self.walk.as_deref_mut()?;
        // SAFETY: index and table are open, the snapshot valid.
        unsafe { walk.peek(place, self.quals, self.opened, self.fetch) }
    }

    fn take_cells(&mut self) -> Vec<(Time, Tid)> {
        let view = self.view();
        let walk = self.walk.as_deref_mut();
        // SAFETY: the walk is over chunks of the table.
        walk.map_or_else(Vec::new, |walk| unsafe { walk.take(view) })
    }

    /// Rows of the cells that come before all else, where these are in one chunk, in its order.
    fn take_run(&mut self, next: &NextSeries) -> Option<ChunkRows> {
        if next.in_section || !next.in_cells {
            return None;
        }
        let view = self.view();
        let walk = self.walk.as_deref_mut()?;
        // SAFETY: the walk is over chunks of the table.
        unsafe { walk.take_run(next.other.as_deref(), view) }
    }

    /// The next entry of this sub-scan or the first one of a later sub-scan.
    fn peek_any(&mut self) -> Option<&Entry> {
        while self.stream.peek(self.desc, self.quals).is_none() {
            let sub_scan = self.stream.next_sub_scan()?;
            self.start_sub_scan(sub_scan);
        }
        self.stream.peek(self.desc, self.quals)
    }

    fn start_sub_scan(&mut self, sub_scan: usize) {
        let mut keys = self.quals.keys_of(sub_scan);
        // SAFETY: arguments of keys live as long as the scan.
        unsafe {
            if self.forward() {
                return self.stream.run(&keys);
            }
            let mut over = VecDeque::new();
            if let Some((upper, above)) = self.upper {
                let mut probe = keys.clone();
                probe.push(above);
                self.stream.run(&probe);
                over = self.chunks_over_bound();
                keys.push(upper);
            }
            self.stream.run(&keys);
            over.into_iter().for_each(|entry| self.stream.unread(entry));
        }
    }

    /// The chunks that may begin below the upper bound though they are entered above it, in ascending
    /// order: the first visible one, and others that end at the same time.
    fn chunks_over_bound(&mut self) -> VecDeque<Entry> {
        let mut found: VecDeque<Entry> = VecDeque::new();
        let mut rows = 0;
        while let Some(entry) = self.stream.read_towards(true, self.desc, self.quals) {
            if found.front().is_some_and(|first| first.time != entry.time) {
                break;
            }
            rows += usize::from(!entry.is_header);
            let asks = rows == ends::PATIENCE + 1 && !entry.is_header;
            if rows > ends::PATIENCE && self.none_behind(entry.time)
                || asks && self.following(&entry.key, entry.time) == Following::None
            {
                break;
            }
            if entry.is_header && self.open(&entry).is_some() {
                found.push_back(entry);
            }
        }
        found
    }

    /// The chunk of an entry, if the snapshot sees it. One that nobody sees is forgotten.
    fn open(&mut self, entry: &Entry) -> Option<Rc<OpenChunk>> {
        // SAFETY: the table is open, the snapshot valid. Where the entry was read last, its page is pinned.
        unsafe {
            let open = self.opened.open(self.table, entry.tid, self.snapshot);
            if open.is_none() && self.stream.is_known() {
                self.drop_known(entry);
            } else if open.is_none() {
                let entries = self.stream.entries();
                entries.drop_if(index_entries::entry_of_header(entry.tid), || {
                    dead_header::is_dead(self.table, entry.tid)
                });
            }
            open
        }
    }

    /// Has the entry of a chunk that nobody sees forgotten by the index, though no scan has read it.
    ///
    /// # Safety
    /// Table and index must be open.
    unsafe fn drop_known(&mut self, entry: &Entry) {
        // SAFETY: by contract. Whether it is dead is judged again where the page of its entry is pinned.
        unsafe {
            if !dead_header::is_dead(self.table, entry.tid) {
                return;
            }
            known_series::forget(self.desc.index);
            let (keys, place) = (self.quals.keys_of(0), self.place());
            section::visit(self.stream.entries(), place, &keys, |header| {
                header != entry.tid
            });
        }
    }

    /// A chunk whose turn has come, if the snapshot sees it and there are rows in it.
    fn open_waiting(&mut self, chunk: Waiting) -> Option<Rc<OpenChunk>> {
        let header = match chunk {
            Waiting::Open(chunk) => return Some(chunk),
            Waiting::Listed(header) => header,
        };
        // SAFETY: the table is open, the snapshot valid.
        let open = unsafe { self.opened.open(self.table, header, self.snapshot) };
        if open.is_none() {
            listed::forget(self.desc.index);
            known_series::forget(self.desc.index);
        }
        open.filter(|chunk| has_rows(chunk))
    }

    /// The rows of a series in a keyed chunk that was just opened.
    fn rows_of(&mut self, header: Tid, open: &OpenChunk, key: &Key) -> Range<u32> {
        let view = self.view();
        let known = self.opened.found(header);
        let before = known.as_deref().map_or(0..0, Range::clone);
        // SAFETY: the chunk is of the scan's table, the key of its index.
        let found = unsafe { rows_of_series(&open.reader, key, view, before) };
        if let Some(known) = known {
            *known = found.clone();
        }
        found
    }

    /// The rows that the scan wants of the series that an entry names, in its chunk, if there are any.
    fn wanted_rows(&mut self, entry: &Entry, open: Rc<OpenChunk>) -> Option<ChunkRows> {
        let rows = self.rows_of(entry.tid, &open, &entry.key);
        self.wanted_of(entry, open, rows)
    }

    /// What is wanted of these.
    fn wanted_of(
        &mut self,
        entry: &Entry,
        open: Rc<OpenChunk>,
        rows: Range<u32>,
    ) -> Option<ChunkRows> {
        let header = &open.reader.chunk.header;
        // No index has ever had steps of so few rows.
        let is_last = rows.len() <= BLOCK_ROWS
            || header.has(FLAG_ONE_SERIES) && entry.time == (false, header.max_time);
        if !self.forward() && !rows.is_empty() && is_last {
            // The entry has the time of the series' last row, which comes first: no block is decoded for it.
            let (time, _) = self.desc.time_datum(entry.time);
            let column = self.desc.time_column();
            open.reader.know(column, rows.end - 1, time);
        }
        self.within_bounds(open, rows)
    }

    /// What the bounds of time leave of the rows of a series in a chunk, if there are any.
    fn within_bounds(&self, open: Rc<OpenChunk>, rows: Range<u32>) -> Option<ChunkRows> {
        // SAFETY: the chunk is of the scan's table; a table with chunks is ours, and so is the fetch.
        unsafe {
            let rows = within_bounds(&open.reader, rows, self.view(), self.forward());
            if rows.is_empty() {
                return None;
            }
            fetched::offer(self.fetch, self.snapshot, &open);
            Some(ChunkRows::new(open, rows))
        }
    }

    /// Has the snapshot no keyed chunk with times behind this one?
    fn none_behind(&mut self, time: Time) -> bool {
        // SAFETY: table and index are open, the snapshot valid; what it sees was entered before it was taken.
        unsafe {
            let is_mvcc = self.snapshot.is_mvcc();
            is_mvcc && self.ends.none_behind(self.desc, time)
        }
    }

    /// What keyed chunks of a series the snapshot has behind a time.
    fn following(&self, key: &Key, time: Time) -> Following {
        if !self.snapshot.is_mvcc() {
            return Following::Unknown;
        }
        let named = |&(value, isnull): &(_, bool)| (!isnull).then_some(value);
        let named: SmallVec<[_; 4]> = key.values.iter().map(named).collect();
        // SAFETY: as above.
        unsafe { ends::following(self.desc, self.snapshot, &named, time) }
    }

    /// Does the time of an entry lie within the upper bounds?
    fn below_upper(&self, time: Time) -> bool {
        let (value, isnull) = self.desc.time_datum(time);
        // SAFETY: a value of the time column.
        unsafe { !self.quals.is_past(value, isnull, true) }
    }
}

/// Rows of one series, in order.
struct Group {
    key: Rc<Key>,
    tail: VecDeque<(Time, Tid)>,
    chunks: SmallVec<[ChunkRows; 1]>,
    /// Headers of all chunks that were added, whether rows of them are left or not.
    met: SmallVec<[Tid; 2]>,
    section: VecDeque<(Time, Tid)>,
    /// Chunks of the section that have not been searched.
    later: Turns,
    /// Forward: everything up to here has been read.
    settled: Option<Time>,
    /// Entries of the tail that were read since the last chunk.
    rows_read: usize,
    /// What follows these, where that was asked.
    following: Option<Following>,
    /// No entries of this series are left that matter.
    complete: bool,
}

enum Source {
    Tail,
    Section,
    Chunk(usize),
}

impl Group {
    /// Are all its rows in the section, and have been found there?
    fn is_section_alone(&self) -> bool {
        self.complete && self.later.is_empty()
    }

    fn next(&mut self, sources: &mut Sources) -> Option<Tid> {
        if let Some(tid) = self.start_run(sources) {
            return Some(tid);
        }
        loop {
            error::check_interrupts();
            let best = self.best(sources);
            match best {
                Some((time, tid, source)) if self.is_settled(time, &source, sources) => {
                    if self.search_later(Some(time), sources) {
                        continue;
                    }
                    match source {
                        Source::Tail => drop(self.tail.pop_front()),
                        Source::Section => drop(self.section.pop_front()),
                        Source::Chunk(at) => self.chunks[at].take(),
                    }
                    return Some(tid);
                }
                None if self.complete => {
                    if !self.search_later(None, sources) {
                        return None;
                    }
                }
                _ => self.read_more(sources),
            }
        }
    }

    /// Finds rows that need not be compared with others: those of the only chunk that has any, up to where everything has been read.
    /// The first of them.
    fn start_run(&mut self, sources: &mut Sources) -> Option<Tid> {
        let forward = sources.forward();
        let has_others =
            !(self.tail.is_empty() && self.section.is_empty() && self.later.is_empty());
        if has_others || self.chunks.len() != 1 {
            return None;
        }
        let bound = match (self.complete, forward) {
            (true, _) => None,
            (false, true) => Some(self.settled?),
            // Where there is none the group is complete.
            (false, false) => self.peek(sources),
        };
        let chunk = &mut self.chunks[0];
        // SAFETY: the chunk is of the scan's table.
        unsafe { chunk.find_run(sources.view(), forward, bound) };
        chunk.next_of_run(forward)
    }

    /// The row that comes first of those that were read.
    fn best(&mut self, sources: &Sources) -> Option<(Time, Tid, Source)> {
        let (view, forward) = (sources.view(), sources.forward());
        let mut best: Option<(Time, Tid, Source)> = None;
        let mut offer = |row: Option<(Time, Tid)>, source: Source| {
            let Some((time, tid)) = row else { return };
            let better = best.as_ref().is_none_or(|best| {
                if forward {
                    time < best.0
                } else {
                    time > best.0
                }
            });
            if better {
                best = Some((time, tid, source));
            }
        };
        offer(self.tail.front().copied(), Source::Tail);
        offer(self.section.front().copied(), Source::Section);
        let mut exhausted = false;
        for (at, chunk) in self.chunks.iter_mut().enumerate() {
            // SAFETY: the chunk is of the scan's table.
            let row = unsafe { chunk.peek(view, forward) };
            exhausted |= row.is_none();
            offer(row, Source::Chunk(at));
        }
        if exhausted {
            // Positions change only where nothing was on offer.
            let chosen = match best {
                Some((_, _, Source::Chunk(at))) => Some(at),
                _ => None,
            };
            let mut at = 0;
            let mut moved = chosen;
            self.chunks.retain_mut(|chunk| {
                // SAFETY: as above; nothing is read twice.
                let keep = unsafe { chunk.peek(view, forward) }.is_some();
                if !keep {
                    // SAFETY: a table with chunks is ours, and so is the fetch.
                    unsafe { fetched::leave(sources.fetch, &chunk.open) };
                    if chosen.is_some_and(|chosen| at < chosen) {
                        moved = moved.map(|moved| moved - 1);
                    }
                }
                at += 1;
                keep
            });
            if let (Some((_, _, source)), Some(moved)) = (&mut best, moved) {
                *source = Source::Chunk(moved);
            }
        }
        best
    }

    /// Can no row that is still unread come before one of these? Of equal times, rows of the tail come first, and in the order of their entries: so
    /// a scan that is repeated has the same order, whatever was entered since.
    fn is_settled(&mut self, time: Time, source: &Source, sources: &mut Sources) -> bool {
        if self.complete {
            return true;
        }
        if sources.forward() {
            return self.settled.is_some_and(|settled| time <= settled);
        }
        match (self.peek(sources), source) {
            (Some(next), Source::Tail) => time >= next,
            (Some(next), _) => time > next,
            (None, _) => true,
        }
    }

    /// Time of the next entry of this series.
    fn peek(&mut self, sources: &mut Sources) -> Option<Time> {
        let (desc, quals) = (sources.desc, sources.quals);
        let time = sources
            .stream
            .peek(desc, quals)
            .filter(|entry| Rc::ptr_eq(&entry.key, &self.key))
            .map(|entry| entry.time);
        self.complete |= time.is_none();
        time
    }

    fn read_more(&mut self, sources: &mut Sources) {
        let mut chunk_time = None;
        while let Some(time) = self.peek(sources) {
            error::check_interrupts();
            if chunk_time.is_some_and(|chunk_time| chunk_time != time) {
                break;
            }
            let entry = sources.stream.take().expect("BUG: entry just seen");
            if entry.is_header {
                if self.add_chunk(&entry, sources) {
                    chunk_time = Some(time);
                    self.rows_read = 0;
                    self.following = None;
                }
            } else {
                self.add_row(&entry, sources);
                self.rows_read += 1;
            }
            if !sources.forward() {
                return;
            }
            let waits_long = chunk_time.is_none() && self.rows_read > ends::PATIENCE;
            if waits_long && self.none_behind(time, sources) {
                chunk_time = Some(time);
                break;
            }
        }
        let Some(time) = chunk_time else { return };
        self.settled = Some(time);
        if !sources.below_upper(time) {
            self.skip_rest(sources);
        }
    }

    /// Is there no chunk of the series behind a time? The pages of its tail are looked at once, where nothing shorter tells.
    fn none_behind(&mut self, time: Time, sources: &mut Sources) -> bool {
        if sources.none_behind(time) {
            return true;
        }
        let following = self
            .following
            .get_or_insert_with(|| sources.following(&self.key, time));
        *following == Following::None
    }

    fn add_row(&mut self, entry: &Entry, sources: &Sources) {
        let (value, isnull) = sources.desc.time_datum(entry.time);
        // SAFETY: a value of the time column.
        if unsafe { sources.quals.time_holds(value, isnull) } {
            self.tail.push_back((entry.time, entry.tid));
        }
    }

    /// Adds the series' rows of a chunk, unless it has been met; false where the snapshot does not see it.
    fn add_chunk(&mut self, entry: &Entry, sources: &mut Sources) -> bool {
        // Entries of one chunk lie together.
        if self.met.iter().rev().any(|&met| met == entry.tid) {
            return true;
        }
        let Some(open) = sources.open(entry) else {
            return false;
        };
        self.met.push(entry.tid);
        self.chunks.extend(sources.wanted_rows(entry, open));
        true
    }

    /// Searches the next chunk of the section that may have rows before `time`; false where there is none.
    fn search_later(&mut self, time: Option<Time>, sources: &mut Sources) -> bool {
        while let Some(chunk) = self.later.next_before(time, sources.forward()) {
            if let Some(open) = sources.open_waiting(chunk) {
                // SAFETY: the chunk is of the scan's table, and the key of its index.
                if !unsafe { may_have(&open.reader, &self.key, sources.view()) } {
                    continue;
                }
                let rows = sources.rows_of(open.reader.chunk.tid, &open, &self.key);
                self.chunks.extend(sources.within_bounds(open, rows));
                return true;
            }
        }
        false
    }

    /// All further entries of the series lie above the upper bound.
    fn skip_rest(&mut self, sources: &mut Sources) {
        if sources.quals.names_series() {
            // SAFETY: the index is open during the scan.
            unsafe { sources.stream.stop() };
        } else {
            while self.peek(sources).is_some() {
                sources.stream.take();
            }
        }
        self.complete = true;
    }
}

/// Rows that are in one place, in order: of a series, or of several.
#[derive(Default)]
struct Lone {
    /// In a chunk.
    chunk: Option<ChunkRows>,
    /// Of chunks that are not keyed.
    section: VecDeque<(Time, Tid)>,
}

impl Lone {
    fn next(&mut self, sources: &Sources) -> Option<Tid> {
        if let Some(chunk) = &mut self.chunk {
            // SAFETY: the chunk is of the scan's table.
            let tid = unsafe { chunk.next(sources.view(), sources.forward()) };
            if tid.is_some() {
                return tid;
            }
            // SAFETY: a table with chunks is ours, and so is the fetch.
            unsafe { fetched::leave(sources.fetch, &chunk.open) };
            self.chunk = None;
        }
        self.section.pop_front().map(|(_, tid)| tid)
    }
}

/// All rows of a scan, in order.
#[derive(Default)]
pub struct Merge {
    lone: Lone,
    group: Option<Group>,
    pub section: Section,
    stretch: Stretch,
}

/// The sources that have the series that comes next.
struct NextSeries {
    /// As the index or another source has it.
    key: Rc<Key>,
    in_index: bool,
    in_section: bool,
    in_cells: bool,
    /// The series that index and section have next, be it the same.
    other: Option<Rc<Key>>,
}

impl NextSeries {
    /// One that nothing else has.
    fn of_index(key: Rc<Key>) -> NextSeries {
        NextSeries {
            key,
            in_index: true,
            in_section: false,
            in_cells: false,
            other: None,
        }
    }
}

impl Merge {
    /// The next row, if it is known to come next: nothing else is asked for it.
    #[inline]
    pub fn next_of_run(&mut self, forward: bool) -> Option<Tid> {
        let of_group = |group: &'_ mut Group| match &mut group.chunks[..] {
            [chunk] => chunk.next_of_run(forward),
            _ => None,
        };
        match &mut self.lone.chunk {
            Some(chunk) => chunk.next_of_run(forward),
            None => self.group.as_mut().and_then(of_group),
        }
    }

    /// The next row.
    pub fn next(&mut self, sources: &mut Sources) -> Option<Tid> {
        loop {
            if let Some(tid) = self.lone.next(sources) {
                return Some(tid);
            }
            if let Some(group) = &mut self.group {
                if let Some(tid) = group.next(sources) {
                    return Some(tid);
                }
                self.group = None;
            }
            error::check_interrupts();
            let next = self.next_series(sources)?;
            let is_lone = match (next.in_index, next.in_section || next.in_cells) {
                (true, false) => self.take_lone(next.other.is_none(), sources),
                (true, true) => false,
                (false, _) => {
                    self.lone.chunk = sources.take_run(&next);
                    self.lone.chunk.is_some()
                }
            };
            if is_lone {
                continue;
            }
            let group = self.next_group(next, sources);
            if group.is_section_alone() {
                self.lone.section = group.section;
            } else {
                self.group = Some(group);
            }
        }
    }

    /// Takes the entry of a series of which it is the only one, and those of others behind it, where all that is left `is_in_index`; false
    /// where it is not the only one.
    fn take_lone(&mut self, is_in_index: bool, sources: &mut Sources) -> bool {
        let Some(entry) = sources.stream.take() else {
            return false;
        };
        if !entry.is_header {
            sources.stream.unread(entry);
            return false;
        }
        // Entries that the snapshot does not see have been taken, too.
        let Some(open) = sources.open(&entry) else {
            return true;
        };
        let next = sources.stream.peek(sources.desc, sources.quals);
        if next.is_some_and(|next| Rc::ptr_eq(&next.key, &entry.key)) {
            sources.stream.unread(entry);
            return false;
        }
        let rows = sources.rows_of(entry.tid, &open, &entry.key);
        let rows = self.widened(&entry, &open, rows, is_in_index, sources);
        self.lone.chunk = sources.wanted_of(&entry, open, rows);
        true
    }

    /// The rows of a series that is alone, and of those that come behind it in its chunk.
    fn widened(
        &mut self,
        entry: &Entry,
        open: &OpenChunk,
        rows: Range<u32>,
        is_in_index: bool,
        sources: &mut Sources,
    ) -> Range<u32> {
        let asks = sources.quals.asks_for_times() || sources.quals.names_series();
        if !is_in_index || asks || rows.is_empty() || !sources.snapshot.is_mvcc() {
            return rows;
        }
        let view = sources.view();
        let place = (entry.tid, open);
        // SAFETY: the chunk is of the scan's table, the stream of its index.
        let last = unsafe {
            self.stretch
                .last_rows(sources.stream, place, view, rows.clone())
        };
        let wide = rows.start.min(last.start)..rows.end.max(last.end);
        if let Some(known) = sources.opened.found(entry.tid) {
            *known = last;
        }
        wide
    }

    /// The series that comes next, in the index or in the section or in both.
    fn next_series(&mut self, sources: &mut Sources) -> Option<NextSeries> {
        let forward = sources.forward();
        let desc = sources.desc;
        let comes_first = |a: &Rc<Key>, b: &Rc<Key>| {
            let order = desc.compare(a, b);
            if forward {
                order
            } else {
                order.reverse()
            }
        };
        let first = |all: [&Option<Rc<Key>>; 2]| {
            let all = all.into_iter().flatten();
            let first = all.reduce(|first, next| {
                if comes_first(next, first).is_lt() {
                    next
                } else {
                    first
                }
            });
            first.map(Rc::clone)
        };
        let indexed = sources.peek_any().map(|entry| Rc::clone(&entry.key));
        let sectioned = self.section.peek(forward).map(Rc::clone);
        let in_cells = sources.peek_cells();
        if sectioned.is_none() && in_cells.is_none() {
            return indexed.map(NextSeries::of_index);
        }
        let other = first([&indexed, &sectioned]);
        let key = first([&other, &in_cells])?;
        let is_it = |other: &Option<Rc<Key>>| {
            other
                .as_ref()
                .is_some_and(|other| Rc::ptr_eq(other, &key) || comes_first(other, &key).is_eq())
        };
        let (in_section, in_cells) = (is_it(&sectioned), is_it(&in_cells));
        let in_index = is_it(&indexed);
        // Entries of the index share the key that was read with them.
        let key = indexed.filter(|_| in_index).unwrap_or(key);
        Some(NextSeries {
            key,
            in_index,
            in_section,
            in_cells,
            other,
        })
    }

    /// Its rows in chunks that are not keyed, and those of these that have not been searched.
    fn take_section(
        &mut self,
        next: &NextSeries,
        sources: &mut Sources,
    ) -> (VecDeque<(Time, Tid)>, Turns) {
        let forward = sources.forward();
        let (mut section, mut later) = (Vec::new(), Turns::default());
        if next.in_section {
            section = self.section.take(forward);
            later = self.section.take_later();
        }
        if next.in_cells {
            let is_alone = section.is_empty();
            section.append(&mut sources.take_cells());
            if !is_alone {
                section.sort();
                if !forward {
                    section.reverse();
                }
            }
        }
        (section.into(), later)
    }

    fn next_group(&mut self, next: NextSeries, sources: &mut Sources) -> Group {
        let (section, later) = self.take_section(&next, sources);
        Group {
            key: next.key,
            tail: VecDeque::new(),
            chunks: SmallVec::new(),
            met: SmallVec::new(),
            section,
            later,
            settled: None,
            rows_read: 0,
            following: None,
            complete: !next.in_index,
        }
    }
}
