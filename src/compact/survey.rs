//! What there is to do in a table: the chunks, by their headers, and the pages with rows of the tail. They are found by a series index
//! and by the visibility map (`quiet`), where these can tell; else by a walk over all pages.

use super::own_header::OwnHeaders;
use super::seen::{self, Seen};
use super::source::Source;
use crate::catalog::layout::Layout;
use crate::chunk::chunk_cache;
use crate::chunk::read::Damage;
use crate::chunk::tuple_kind::{classify, TupleKind};
use crate::pg::error;
use crate::pg::page::{PageCursor, PageTuple};
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::tuple;
use crate::pg::TransactionId;
use crate::scan::headers::{self, Places};
use crate::table::quiet;
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;
use varve_columns::tuple::header::{self, BodyKind};

/// Dead tuples of a chunk.
#[derive(Default)]
struct Dead {
    bytes: u64,
    /// A header's rows went elsewhere, into its own next version maybe.
    is_moved: bool,
    /// They went for good.
    is_deleted: bool,
}

/// What the pages that were looked at have of chunks, besides their headers.
#[derive(Default)]
struct Met {
    dead: FxHashMap<u64, Dead>,
    /// Chunks with notes on them.
    noted: FxHashSet<u64>,
}

#[derive(Default)]
pub struct Survey {
    pub chunks: Vec<Seen>,
    /// Keyed chunks of each series, by time.
    pub keyed: FxHashMap<Rc<[u8]>, Vec<usize>>,
    /// What rows and storage tuples take of their pages.
    pub live_bytes: u64,
    /// Rows of the tail and storage tuples.
    pub live_tuples: u64,
    /// Rows that are not deleted.
    pub live_rows: u64,
    /// Tuples that nobody sees who starts now.
    pub dead: u64,
    /// What those of them took of their pages whose rows went into other chunks.
    pub rewritten_bytes: u64,
    /// Pages that have rows of the tail, ascending.
    pub tail: Vec<u32>,
    /// No page from here on has anything but chunks.
    pub chunks_from: u32,
    /// Headers that no series index leads to.
    pub unentered: Vec<Tid>,
    pub damaged: Vec<(Tid, Damage)>,
    pub blocks: u32,
    /// Pages from here on are empty, or soon will be.
    pub end: u32,
}

/// What a survey that was made before says about the chunks that have not changed since.
#[derive(Clone, Copy)]
pub struct Before<'a> {
    pub survey: &'a Survey,
    /// Pages that had changed when VACUUM set bits in the visibility map since, ascending; `None`: nobody has set any.
    pub vacuumed: Option<&'a [u32]>,
}

impl<'a> Before<'a> {
    /// Chunks whose headers are on pages that have not changed. The rest is looked at again, and so is what somebody may still see
    /// otherwise.
    fn unchanged(self, changed: &[u32]) -> FxHashMap<Tid, &'a Seen> {
        let is_in = |pages: &[u32], at: Tid| pages.binary_search(&at.block).is_ok();
        let vacuumed = self.vacuumed.unwrap_or_default();
        let chunks = self.survey.chunks.iter();
        chunks
            .filter(|seen| seen.settled && !seen.damaged && !seen.tombstone)
            .filter(|seen| !is_in(changed, seen.tid) && !is_in(vacuumed, seen.tid))
            .map(|seen| (seen.tid, seen))
            .collect()
    }

    /// Do the pages that were vacuumed tell what is new with less to read than the index has? VACUUM sets bits for nothing that came
    /// after its snapshot, and what came before that was on pages that had changed.
    fn is_enough(self, table: Table<'_>, snapshot: Snapshot<'_>) -> bool {
        let is_less = |pages: &[u32]| {
            headers::index_pages(table, snapshot).is_some_and(|all| pages.len() < all as usize)
        };
        self.vacuumed.is_none_or(is_less)
    }

    /// Pages that may have got what is new, besides those that have changed.
    fn pages(self) -> impl Iterator<Item = u32> + 'a {
        let vacuumed = self.vacuumed.unwrap_or_default();
        self.survey.tail.iter().chain(vacuumed).copied()
    }

    /// All headers that there were.
    fn headers(self) -> impl Iterator<Item = Tid> + 'a {
        let damaged = self.survey.damaged.iter().map(|(at, _)| *at);
        let chunks = self.survey.chunks.iter().map(|seen| seen.tid);
        chunks.chain(damaged)
    }
}

impl Survey {
    /// Surveys an open table. `unentered` are headers that may be there, and that no series index leads to, on pages with a bit in the
    /// visibility map; all pages are walked over where they are not known. `entered` is what the series index has led to, if that was read since the
    /// last VACUUM. Of what is known from `before` only the changes are looked at.
    ///
    /// `snapshot` must be an active MVCC snapshot, and the table have been locked against VACUUM by others since `before`, and since
    /// `entered` was read.
    pub fn take(
        table: Table<'_>,
        layout: &Layout,
        snapshot: Snapshot<'_>,
        unentered: Option<&[Tid]>,
        entered: Option<Places>,
        before: Option<Before>,
    ) -> Survey {
        let mut survey = Survey::default();
        // SAFETY: the table is open, the snapshot valid.
        unsafe {
            survey.blocks = table.blocks();
            let horizon = table.horizon();
            let changed = quiet::changed_pages(table);
            let with_changed = |others: &mut dyn Iterator<Item = u32>| {
                let mut pages = changed.clone();
                pages.extend(others.filter(|&block| block < survey.blocks));
                pages.sort_unstable();
                pages.dedup();
                pages
            };
            // Where much has changed, nothing is taken over: of chunks whose notes are on other pages less may be known.
            let before = before.filter(|known| known.is_enough(table, snapshot));
            let (mut headers, pages) = match before {
                Some(before) => (
                    before.headers().collect(),
                    with_changed(&mut before.pages()),
                ),
                None => match (
                    entered.or_else(|| headers::places(table, snapshot)),
                    unentered,
                ) {
                    (Some(entered), Some(unentered)) => (
                        [&entered.headers[..], unentered].concat(),
                        with_changed(&mut entered.tail.into_iter()),
                    ),
                    _ => (Vec::new(), (0..survey.blocks).collect()),
                },
            };
            let unchanged = before.map(|before| before.unchanged(&changed));
            let unchanged = unchanged.unwrap_or_default();
            let mut cursor = PageCursor::new(table);
            let mut met = Met::default();
            for block in pages {
                error::check_interrupts();
                cursor.go(block);
                survey.count_page(table, &cursor, snapshot, &mut headers, &mut met);
            }
            cursor.release();
            headers.sort_unstable();
            headers.dedup();
            let mut own = OwnHeaders::new(table, layout);
            for at in headers {
                error::check_interrupts();
                // A note leaves the page of the header as it is.
                let known = unchanged.get(&at).copied();
                let known = known.filter(|seen| !met.noted.contains(&seen.chunk));
                match known.cloned().or_else(|| own.seen_at(at)) {
                    Some(seen) => survey.add(seen),
                    None => survey.add_header(table, &own, layout, snapshot, at, horizon),
                }
            }
            drop(own);
            survey.chunks.iter().for_each(|seen| {
                met.dead.remove(&seen.chunk);
            });
            let merged = met
                .dead
                .values()
                .filter(|dead| dead.is_moved && !dead.is_deleted);
            survey.rewritten_bytes += merged.map(|dead| dead.bytes).sum::<u64>();
            for seen in survey.chunks.iter().filter(|seen| seen.tombstone) {
                survey.unentered.push(seen.tid);
            }
        }
        for (at, seen) in survey.chunks.iter().enumerate() {
            if seen.keyed && seen.one_series {
                survey
                    .keyed
                    .entry(Rc::clone(&seen.first_key))
                    .or_default()
                    .push(at);
            }
        }
        for list in survey.keyed.values_mut() {
            list.sort_by_key(|&at| (survey.chunks[at].min_time, survey.chunks[at].max_time));
        }
        survey
    }

    /// Would VACUUM cut off the empty end of the file? It does from a sixteenth on.
    pub fn has_empty_end(&self) -> bool {
        let empty = self.blocks - self.end;
        empty > 0 && (empty >= 1000 || empty >= self.blocks / 16)
    }

    /// Notes that the chunk at `at`, if there is one, cannot be decoded.
    pub fn leave_out(&mut self, at: Tid) {
        let found = self.chunks.iter_mut().find(|seen| seen.tid == at);
        found.into_iter().for_each(|seen| seen.damaged = true);
    }

    /// Counts what is on a page, and notes its headers.
    ///
    /// # Safety
    /// `table` must be open, and `cursor` be on a page of it.
    unsafe fn count_page(
        &mut self,
        table: Table<'_>,
        cursor: &PageCursor,
        snapshot: Snapshot<'_>,
        headers: &mut Vec<Tid>,
        met: &mut Met,
    ) {
        let buffer = cursor.buffer();
        cursor.locked(|page| {
            for item in page.tuples() {
                let block = item.tid.block;
                // SAFETY: the page is pinned and locked.
                let (found, visible) = unsafe {
                    let mut heap_tuple = item.to_heap_tuple(table.oid());
                    (classify(&item), snapshot.sees(&mut heap_tuple, buffer))
                };
                if found == TupleKind::Skip {
                    let body = item.body();
                    if header::body_kind(body) == BodyKind::Note {
                        met.noted.insert(header::chunk_id(body));
                    }
                }
                if !visible {
                    self.dead += 1;
                    self.chunks_from = self.chunks_from.max(block + 1);
                    // SAFETY: as above.
                    unsafe { self.count_dead(item, found, &mut met.dead) };
                    continue;
                }
                self.end = self.end.max(block + 1);
                match found {
                    TupleKind::Header => headers.push(item.tid),
                    TupleKind::Skip => {}
                    TupleKind::Row => {
                        self.live_bytes += seen::tuple_bytes(item.bytes() as usize);
                        self.live_tuples += 1;
                        self.live_rows += 1;
                        self.chunks_from = self.chunks_from.max(block + 1);
                        if self.tail.last() != Some(&block) {
                            self.tail.push(block);
                        }
                    }
                }
            }
        });
    }

    /// Notes a dead tuple of a page that is locked.
    ///
    /// # Safety
    /// The page of `item` must be locked.
    unsafe fn count_dead(
        &mut self,
        item: PageTuple<'_>,
        found: TupleKind,
        dead: &mut FxHashMap<u64, Dead>,
    ) {
        let bytes = seen::tuple_bytes(item.bytes() as usize);
        // SAFETY: the caller's contract.
        let is_moved = unsafe { tuple::ctid(item.header()) }.is_moved_marker();
        if found == TupleKind::Row {
            self.rewritten_bytes += if is_moved { bytes } else { 0 };
            return;
        }
        let of_chunk = dead.entry(header::chunk_id(item.body())).or_default();
        of_chunk.bytes += bytes;
        if found == TupleKind::Header {
            of_chunk.is_moved |= is_moved;
            of_chunk.is_deleted |= !is_moved;
        }
    }

    /// Adds the chunk of a header, if the snapshot sees that.
    ///
    /// # Safety
    /// `table` must be open, `snapshot` active, and `own` be that table's, asked last for the header at `at`.
    unsafe fn add_header(
        &mut self,
        table: Table<'_>,
        own: &OwnHeaders<'_>,
        layout: &Layout,
        snapshot: Snapshot<'_>,
        at: Tid,
        horizon: TransactionId,
    ) {
        let Some(page) = own.page_of(at) else {
            return;
        };
        // SAFETY: the table is open and the snapshot active; the header was just looked at.
        match unsafe { chunk_cache::try_reader_on(page, table, at, snapshot) } {
            None => {}
            Some(Err(damage)) => self.add_damaged(at, damage),
            // SAFETY: as above.
            Some(Ok(reader)) => match unsafe { seen::describe(&reader, layout, horizon) } {
                Ok(seen) => self.add(seen),
                Err(damage) => self.add_damaged(at, damage),
            },
        }
    }

    fn add(&mut self, seen: Seen) {
        self.live_bytes += seen.bytes;
        self.live_rows += u64::from(seen.live);
        self.live_tuples += u64::from(seen.pieces) + 1;
        self.end = self.end.max(seen.last_block + 1);
        self.chunks.push(seen);
    }

    /// Where its storage tuples are is not known.
    fn add_damaged(&mut self, at: Tid, damage: Damage) {
        self.damaged.push((at, damage));
        self.chunks_from = self.blocks;
        self.end = self.blocks;
    }
}

/// The source of a chunk that a survey has seen, if it is still what it was; or what is wrong with it.
///
/// `table` must be open for writing, `snapshot` active.
pub fn open(
    table: Table<'_>,
    layout: &Layout,
    snapshot: Snapshot<'_>,
    seen: &Seen,
) -> Option<Result<Source, Damage>> {
    // SAFETY: the table is open, the snapshot valid.
    unsafe {
        match chunk_cache::try_reader_at(table, seen.tid, snapshot)? {
            Ok(reader) if reader.chunk.header.chunk != seen.chunk => None,
            Ok(reader) => Some(Source::new(reader, layout)),
            Err(damage) => Some(Err(damage)),
        }
    }
}
