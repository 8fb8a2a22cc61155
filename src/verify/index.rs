//! Series indexes against the table, in both directions: every row of the tail and every chunk has its
//! entries, and every entry names something that is there.

use super::leaves::{self, KeyHasher};
use super::Verifier;
use crate::catalog::layout;
use crate::chunk::index_entries;
use crate::chunk::tuple_kind::{classify, TupleKind};
use crate::pg::error;
use crate::pg::lock_mode::LockMode;
use crate::pg::open::OpenIndex;
use crate::pg::page::PageCursor;
use crate::pg::relation::Index;
use crate::pg::tid::Tid;
use crate::pg::tuple;
use crate::pg::Datum;
use rustc_hash::{FxHashMap, FxHashSet};

/// Hashed keys by the TID of their entries. Most have one; a list for each of millions would take so long to free that nobody
/// could cancel it.
#[derive(Default)]
struct Entries {
    first: FxHashMap<Tid, u64>,
    more: FxHashMap<Tid, Vec<u64>>,
}

impl Entries {
    fn add(&mut self, at: Tid, hash: u64) {
        if *self.first.entry(at).or_insert(hash) != hash {
            self.more.entry(at).or_default().push(hash);
        }
    }

    /// The hashed keys of the entries with this TID.
    fn of(&self, at: Tid) -> impl Iterator<Item = u64> + '_ {
        let more = self.more.get(&at).into_iter().flatten();
        self.first.get(&at).into_iter().chain(more).copied()
    }
}

impl<'a> Verifier<'a> {
    /// Compares each valid series index with the table.
    ///
    /// # Safety
    /// The table must be open, the snapshot valid.
    pub(super) unsafe fn indexes(&mut self) {
        // SAFETY: the table is open.
        unsafe {
            for oid in self.table.index_oids() {
                let index = OpenIndex::open(oid, LockMode::AccessShare);
                let form = index.rel().form();
                if index.rel().class().relam == layout::index_am() && form.indisvalid {
                    self.index(index.rel());
                }
            }
        }
    }

    /// Compares a series index with the table.
    ///
    /// # Safety
    /// The table must be open, the snapshot valid; `index` must be an open series index of the table.
    unsafe fn index(&mut self, index: Index<'_>) {
        // SAFETY: table and index are open.
        unsafe {
            let entries = collect(index);
            let hasher = KeyHasher::new(index);
            let name = index.name();
            self.missing_rows(index, &hasher, &entries, &name);
            self.missing_headers(index, &hasher, &entries, &name);
            let suspects = self.dangling(entries.first.keys().copied());
            if suspects.is_empty() {
                return;
            }
            // A vacuum may have removed both meanwhile.
            let still = collect(index);
            let suspects = suspects
                .into_iter()
                .filter(|at| still.first.contains_key(at));
            for at in self.dangling(suspects) {
                let what = match index_entries::header_of_entry(at) {
                    Some(header) => format!("an entry of a chunk at {header}, which is not there"),
                    None => format!("an entry of a row at {at}, which is not there"),
                };
                self.note("index", &name, what);
            }
        }
    }

    /// Visible rows of the tail whose entry is missing.
    ///
    /// # Safety
    /// As `index`; `hasher` and `entries` must be of it.
    unsafe fn missing_rows(
        &mut self,
        index: Index<'_>,
        hasher: &KeyHasher,
        entries: &Entries,
        name: &str,
    ) {
        // SAFETY: table and index are open.
        unsafe {
            let columns = index_entries::key_columns(index);
            let mut cursor = PageCursor::new(self.table);
            for block in 0..self.table.blocks() {
                error::check_interrupts();
                cursor.go(block);
                for (at, hash) in self.row_entries(&cursor, &columns, hasher) {
                    if !entries.of(at).any(|other| other == hash) {
                        self.note("index", name, format!("no entry of the row at {at}"));
                    }
                }
            }
        }
    }

    /// The entries that the rows of a page should have: at the root of each chain of updates.
    ///
    /// # Safety
    /// The table must be open, the snapshot valid; the cursor must have a page of the table pinned, and `hasher` be of an index of these columns.
    unsafe fn row_entries(
        &self,
        cursor: &PageCursor,
        columns: &[usize],
        hasher: &KeyHasher,
    ) -> Vec<(Tid, u64)> {
        let buffer = cursor.buffer();
        let mut out = Vec::new();
        // SAFETY: the page is pinned and, where it is read, locked.
        unsafe {
            let descriptor = self.table.descriptor();
            let natts = descriptor.len();
            let mut values = vec![Datum::from(0usize); natts];
            let mut nulls = vec![true; natts];
            cursor.locked(|page| {
                let mut roots = None;
                for item in page.tuples() {
                    let mut row = item.to_heap_tuple(self.table.oid());
                    if classify(&item) != TupleKind::Row || !self.snapshot.sees(&mut row, buffer) {
                        continue;
                    }
                    let mut at = item.tid;
                    if tuple::is_heap_only(item.header()) {
                        let roots = roots.get_or_insert_with(|| page.chain_roots());
                        at.offset = roots[usize::from(at.offset) - 1];
                    }
                    tuple::take_apart(&mut row, descriptor, &mut values, &mut nulls);
                    let pick: Vec<_> = columns.iter().map(|&column| values[column]).collect();
                    let null: Vec<_> = columns.iter().map(|&column| nulls[column]).collect();
                    out.push((at, hasher.hash(&pick, &null)));
                }
            });
        }
        out
    }

    /// Visible chunks whose entries are missing, or wrong.
    ///
    /// # Safety
    /// As `missing_rows`.
    unsafe fn missing_headers(
        &mut self,
        index: Index<'_>,
        hasher: &KeyHasher,
        entries: &Entries,
        name: &str,
    ) {
        let (table, snapshot) = (self.table, self.snapshot);
        // SAFETY: table and index are open.
        unsafe {
            super::inspect::chunks(table, snapshot, |at, result| {
                // What is damaged has been noted.
                let Ok(reader) = result else {
                    return;
                };
                if self.damaged.contains(&at) {
                    return;
                }
                let known = index_entries::header_entries(table, index, &reader, &reader.chunk.map);
                let hashes = |entries: &[index_entries::Entry]| -> FxHashSet<u64> {
                    let entries = entries.iter();
                    entries
                        .map(|entry| hasher.hash(&entry.values, &entry.nulls))
                        .collect()
                };
                let expected = hashes(&known.needed);
                let steps = [hashes(&known.steps), hashes(&known.other_steps)];
                let found: FxHashSet<u64> =
                    entries.of(index_entries::entry_of_header(at)).collect();
                let missing = expected.iter().filter(|hash| !found.contains(hash)).count();
                if missing > 0 {
                    let what = format!("no entry for {missing} series of the chunk at {at}");
                    self.note("index", name, what);
                }
                let wrong = found
                    .iter()
                    .filter(|&hash| {
                        let mut all = steps.iter().chain([&expected]);
                        !all.any(|of_kind| of_kind.contains(hash))
                    })
                    .count();
                if wrong > 0 {
                    let what = format!("{wrong} entries of the chunk at {at} with wrong keys");
                    self.note("index", name, what);
                }
            });
        }
    }

    /// Those of the entries that name nothing of their kind.
    fn dangling(&self, entries: impl Iterator<Item = Tid>) -> Vec<Tid> {
        let mut sorted: Vec<Tid> = entries.collect();
        let rarely = error::RareCheck::default();
        sorted.sort_by_key(|&at| {
            rarely.check_interrupts();
            index_entries::header_of_entry(at).unwrap_or(at)
        });
        let blocks = self.table.blocks();
        let mut cursor = PageCursor::new(self.table);
        sorted.retain(|&entry| {
            error::check_interrupts();
            let header = index_entries::header_of_entry(entry);
            let at = header.unwrap_or(entry);
            if at.block >= blocks {
                return true;
            }
            cursor.go(at.block);
            cursor.locked(|page| {
                if !page.is_used(at.offset) {
                    return true;
                }
                let kind = page.tuple(at.offset).map(|item| classify(&item));
                match kind {
                    Some(kind) => (kind == TupleKind::Header) != header.is_some(),
                    None => false,
                }
            })
        });
        sorted
    }
}

fn collect(index: Index<'_>) -> Entries {
    let mut entries = Entries::default();
    leaves::entries(index, |at, hash| entries.add(at, hash));
    entries
}
