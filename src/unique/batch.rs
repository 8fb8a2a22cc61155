//! Entering the keys of a batch (`ingest::batch`): rows that go into chunks, or a few of them into the tail, without having been
//! checked one by one. As for a single row, a key is looked for, then its row is published, then it is looked for again
//! (docs/design/0022). Of two batches one is entered after the other, so that none waits for one that waits for it.

use super::announced;
use super::bypass;
use super::find::{self, Key, Look, Search};
use super::key_cache::{self, KeyCache, Moment};
use super::series_key::SeriesKey;
use super::side::Side;
use super::stability_check::StabilityCheck;
use super::tail;
use super::wait::Wait;
use crate::catalog::keys::{self, Keys, Unique};
use crate::catalog::layout::Layout;
use crate::chunk::row_set::{Order, RowSet};
use crate::pg::constraint;
use crate::pg::error;
use crate::pg::lock_mode::LockMode;
use crate::pg::lock_tags::{self, Tag, Whole};
use crate::pg::nbtree;
use crate::pg::news;
use crate::pg::relation::Table;
use crate::pg::snapshot::Registered;
use crate::pg::tid::Tid;
use crate::pg::Oid;
use crate::series_index::entries::IndexDesc;
use smallvec::SmallVec;
use std::rc::Rc;

/// A batch of rows of a table with keys.
pub struct Batch<'a> {
    table: Table<'a>,
    keys: Rc<Keys>,
    sides: Vec<Side<'a>>,
}

/// Where the rows of a batch were written.
#[derive(Default)]
pub struct Entered {
    pub headers: Vec<Tid>,
    pub tail: Vec<Tid>,
    /// Each key came to a unique index that had none like it, so whoever brings one of them later waits or fails.
    pub alone: bool,
}

/// A row that cannot be, or not yet.
struct Conflict {
    row: u32,
    side: usize,
    /// Nothing where the key is taken.
    wait: Option<Wait>,
}

/// May rows of the table be entered in batches? It may have chunks, as everybody knows, and its keys are found in them and must be
/// free when a statement ends.
pub fn takes_batches(table: Table<'_>) -> bool {
    let keys = keys::of(table);
    // SAFETY: as above.
    let has_chunks = keys.concern_chunks() && unsafe { keys.has_chunks(table) };
    let enters = |unique: &Unique| unique.immediate && unique.series.is_some();
    has_chunks && keys.unique.iter().all(enters)
}

impl<'a> Batch<'a> {
    /// None where the table has no keys. `order` must be that of the rows by `layout`.
    ///
    /// # Safety
    /// `table` must be open for writing; `takes_batches` was true of it, or it has no keys.
    pub unsafe fn new(
        table: Table<'a>,
        rows: &RowSet,
        layout: &Layout,
        order: &Rc<Order>,
    ) -> Option<Batch<'a>> {
        // SAFETY: by contract.
        unsafe {
            let keys = keys::of(table);
            let sides: Vec<_> = keys
                .unique
                .iter()
                .enumerate()
                .filter_map(|unique| Side::new(table, unique, rows, (layout, order)))
                .collect();
            (!sides.is_empty()).then_some(Batch { table, keys, sides })
        }
    }

    /// Tells those who enter keys by way of the tail to look into chunks after that, as long as this transaction lasts.
    pub fn announce(&self) {
        announced::announce(self.table);
    }

    /// Writes the rows by `write` such that no two rows of the table have one key.
    ///
    /// # Safety
    /// As `new`, and nothing is locked or pinned.
    pub unsafe fn enter(&self, write: impl FnOnce() -> Entered) {
        // SAFETY: by contract.
        unsafe {
            self.sides.iter().for_each(Side::expect_short);
            if let Some(first) = self.first_twin() {
                self.resolve(first);
            }
            let entering = Tag::whole(self.table, Whole::Entering);
            loop {
                lock_tags::take(&entering, LockMode::Exclusive, true);
                let Some(conflict) = self.conflict(&Entered::default()) else {
                    break;
                };
                lock_tags::release(&entering, LockMode::Exclusive);
                self.resolve(conflict);
            }
            let entered = write();
            if !entered.headers.is_empty() {
                // Who enters a key from now on looks for it in these; whom it does not reach is found below.
                news::tell(self.table);
            }
            lock_tags::release(&entering, LockMode::Exclusive);
            while let Some(conflict) = self.conflict(&entered) {
                self.resolve(conflict);
            }
        }
    }

    /// The series indexes that have the entries of the rows from `enter_tail_row`.
    pub fn companions(&self) -> Vec<Oid> {
        let companions = self.sides.iter().flat_map(|side| &side.companions);
        companions.map(|(series, _)| series.rel().oid()).collect()
    }

    /// Enters the key of a row that was written to the tail at `at`; false where other rows of the tail may have it: that is seen afterwards.
    ///
    /// # Safety
    /// As `new`.
    pub unsafe fn enter_tail_row(&self, row: u32, at: Tid) -> bool {
        let mut is_alone = true;
        let bypassed = bypass::set_bypassed(true);
        let mut entered: SmallVec<[Oid; 2]> = SmallVec::new();
        for side in &self.sides {
            // SAFETY: by contract.
            unsafe {
                if side.has_btree {
                    let (mut values, mut nulls) = side.entry(row);
                    let index = side.index.rel();
                    is_alone &=
                        nbtree::insert_partial(self.table, index, &mut values, &mut nulls, at);
                }
                for (series, places) in &side.companions {
                    let series = series.rel();
                    if entered.contains(&series.oid()) {
                        continue;
                    }
                    entered.push(series.oid());
                    let (mut values, mut nulls) = side.entry_of(row, places);
                    is_alone &=
                        nbtree::insert_partial(self.table, series, &mut values, &mut nulls, at);
                }
            }
        }
        bypass::set_bypassed(bypassed);
        is_alone
    }

    /// Waits, or raises the error that btree raises for a duplicate key.
    ///
    /// # Safety
    /// As `enter`.
    unsafe fn resolve(&self, conflict: Conflict) {
        let side = &self.sides[conflict.side];
        // SAFETY: the caller's contract.
        unsafe {
            if let Some(wait) = conflict.wait {
                return wait.wait(self.table);
            }
            // A serialization failure is the better error.
            self.table.check_serializable();
            let (values, nulls) = side.key(conflict.row);
            constraint::raise_duplicate(self.table, side.index.rel(), &values, &nulls)
        }
    }

    /// The first row that has the key of one before it.
    ///
    /// # Safety
    /// As `new`.
    unsafe fn first_twin(&self) -> Option<Conflict> {
        let twins = self.sides.iter().enumerate().filter_map(|(side, rows)| {
            // SAFETY: the index is open.
            let row = rows.twin(&unsafe { IndexDesc::new(rows.series.rel()) })?;
            let wait = None;
            Some(Conflict { row, side, wait })
        });
        twins.min_by_key(|conflict| conflict.row)
    }

    /// The first row whose key some row has, or may get, besides those that were `entered`.
    ///
    /// # Safety
    /// As `enter`; `entered` must be what it has written, if that was done.
    unsafe fn conflict(&self, entered: &Entered) -> Option<Conflict> {
        // SAFETY: the caller's contract.
        unsafe {
            loop {
                error::check_interrupts();
                let stability = StabilityCheck::begin(self.table);
                let mut first = First::default();
                for (side, rows) in self.sides.iter().enumerate() {
                    let desc = IndexDesc::new(rows.series.rel());
                    self.look_at_chunks(side, &desc, entered, &mut first);
                    if !entered.alone {
                        tail::visit(self.table, rows, &desc, &entered.tail, |row, wait| {
                            first.add(Conflict { row, side, wait });
                        });
                    }
                }
                if stability.end() && !first.again {
                    return first.conflict;
                }
            }
        }
    }

    /// Looks into the chunks for keys of a side.
    ///
    /// # Safety
    /// As `conflict`; `desc` must be of the side's series index.
    unsafe fn look_at_chunks(
        &self,
        side: usize,
        desc: &IndexDesc,
        entered: &Entered,
        first: &mut First,
    ) {
        let rows = &self.sides[side];
        // SAFETY: the caller's contract.
        unsafe {
            let now = Moment::now();
            let registered = Registered::new(now.snapshot);
            let moment = Moment {
                snapshot: registered.get(),
                ..now
            };
            let series = rows.series.rel().oid();
            key_cache::lend(self.table, series, moment, |cache| {
                cache.leave_out(&entered.headers);
                for number in 0..rows.order.series() {
                    error::check_interrupts();
                    let Some((key, of_series)) = rows.series(number) else {
                        continue;
                    };
                    let series_key = SeriesKey::new(self.table, desc, &key);
                    let time = |row: u32| desc.time_of(rows.time(row), false).1;
                    let span = (time(of_series[0]), time(of_series[of_series.len() - 1]));
                    cache.cover(&series_key, span, registered.get());
                    if cache.may_have(&series_key, span) {
                        for &row in of_series.iter().filter(|&&row| rows.is_whole(row)) {
                            self.look_at_row(cache, (side, row), &series_key, first);
                        }
                    }
                }
            });
            drop(registered);
        }
    }

    /// Looks into the chunks for the key of a row.
    ///
    /// # Safety
    /// As `look_at_chunks`; `cache` must be lent for that index, and cover the row's series at its time.
    unsafe fn look_at_row(
        &self,
        cache: &mut KeyCache,
        (side, row): (usize, u32),
        series_key: &SeriesKey,
        first: &mut First,
    ) {
        let rows = &self.sides[side];
        let unique = &self.keys.unique[rows.number];
        // SAFETY: the caller's contract.
        unsafe {
            let mut hits = cache.rows_at(series_key, rows.time(row));
            if hits.is_empty() {
                return;
            }
            let (values, nulls) = rows.key(row);
            let key = Key {
                values: &values,
                nulls: &nulls,
                columns: (0..values.len()).collect(),
            };
            let search = Search {
                table: self.table,
                index: rows.index.rel(),
                waits: true,
            };
            hits.retain(|hit| {
                let reader = &cache.chunks[hit.chunk].reader;
                find::has_key(search, unique, &key, reader, hit.row)
            });
            let wait = match find::judge_hits(self.table, &cache.chunks, &hits) {
                Look::Free => return,
                Look::Again => {
                    cache.outdated = true;
                    first.again = true;
                    return;
                }
                Look::Taken(_) => None,
                Look::Changes(wait) => Some(wait),
            };
            first.add(Conflict { row, side, wait });
        }
    }
}

/// The first conflict in the order of rows.
#[derive(Default)]
struct First {
    conflict: Option<Conflict>,
    /// A row has changed while it was looked at.
    again: bool,
}

impl First {
    fn add(&mut self, conflict: Conflict) {
        let known = self.conflict.as_ref();
        if known.is_none_or(|known| conflict.row < known.row) {
            self.conflict = Some(conflict);
        }
    }
}
