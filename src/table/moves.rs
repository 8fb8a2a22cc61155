//! What one transaction of a sealer or merger moved, and where to. A row is found at its new place by value.
//! Of equal rows, the n-th of those that moved is the n-th of those written, each in the order of their TIDs:
//! everybody who follows gets to the same row, and no two rows to one.

use super::equals::{deform, equal, ChunkSet, Rows};
use super::prints::{self, Values};
use crate::chunk::tuple_kind::{classify, TupleKind};
use crate::chunk::written_headers;
use crate::pg::error;
use crate::pg::page::{PageCursor, PageTuple};
use crate::pg::relation::Table;
use crate::pg::tid::Tid;
use crate::pg::transaction::{self, Access, PerTransaction};
use crate::pg::tuple;
use crate::pg::tuple::Formed;
use crate::pg::{Oid, TransactionId};
use rustc_hash::FxHashMap;
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

/// Movers that are remembered.
const KEPT_MOVERS: usize = 64;
/// Places of rows that have equals, remembered for each mover.
const KEPT_PLACES: usize = 1 << 20;

type Key = (Oid, Oid, TransactionId);

/// Rows and chunks that `mover` moved, looked up when somebody asks for them.
pub struct Moves {
    mover: TransactionId,
    written: ChunkSet,
    /// The chunks that were merged.
    merged: OnceCell<ChunkSet>,
    /// The tail rows that were sealed, with their fingerprints, sorted.
    sealed: OnceCell<Vec<(u32, Tid)>>,
    /// From where to where, for rows that have equals.
    places: RefCell<FxHashMap<Tid, Tid>>,
}

thread_local! {
    static MOVES: PerTransaction<Vec<(Key, Rc<Moves>)>> = PerTransaction::default();
}

/// What `mover`, which has committed, moved. A snapshot that is older than its commit keeps all of it in place;
/// so it is remembered until this transaction ends.
///
/// `table` must be open, with such a snapshot.
pub fn of(table: Table<'_>, mover: TransactionId) -> Rc<Moves> {
    let key = (table.oid(), table.file_number(), mover);
    let known = MOVES.with_borrow(|moves| {
        let known = moves.iter().rev().find(|known| known.0 == key);
        known.map(|known| Rc::clone(&known.1))
    });
    known.unwrap_or_else(|| {
        // SAFETY: the table is open. A chunk with deleted rows is the new version of another.
        let written = unsafe {
            let mut headers = written_headers::headers_by(table, mover).to_vec();
            headers.retain(|header| header.deleted == 0);
            ChunkSet::new(table, mover, &headers, Rows::Written)
        };
        let moves = Rc::new(Moves {
            mover,
            written,
            merged: OnceCell::new(),
            sealed: OnceCell::new(),
            places: RefCell::default(),
        });
        if !transaction::is_current(mover) {
            MOVES.with_borrow_mut(|all| {
                if all.len() == KEPT_MOVERS {
                    all.remove(0);
                }
                all.push((key, Rc::clone(&moves)));
            });
        }
        moves
    })
}

impl Moves {
    /// The new place of the tail row at `at`.
    ///
    /// `table` must be the one of `of`, and open.
    pub fn of_sealed(&self, table: Table<'_>, at: Tid) -> Option<Tid> {
        if let Some(known) = self.known(at) {
            return Some(known);
        }
        // SAFETY: the table is open.
        unsafe {
            let wanted = tail_row(table, at)?;
            let values = deform(&wanted, table.descriptor());
            self.place(table, at, &values, || self.sealed_equals(table, &values))
        }
    }

    /// The new place of a row of a merged chunk, of whose values `values_of` tells when they are needed.
    pub fn of_merged(
        &self,
        table: Table<'_>,
        at: Tid,
        values_of: impl FnOnce() -> Values,
    ) -> Option<Tid> {
        if let Some(known) = self.known(at) {
            return Some(known);
        }
        let values = values_of();
        // SAFETY: the table is open.
        unsafe {
            self.place(table, at, &values, || {
                let merged = self.merged.get_or_init(|| {
                    let headers = written_headers::headers_moved_by(table, self.mover);
                    ChunkSet::new(table, self.mover, &headers, Rows::Left)
                });
                merged.rows_equal(table, &values)
            })
        }
    }

    fn known(&self, at: Tid) -> Option<Tid> {
        self.places.borrow().get(&at).copied()
    }

    /// The place of the row at `at`; `equals` tells where it and its equals were.
    ///
    /// # Safety
    /// `table` must be the one of `of`, and open; `values` a row of it.
    unsafe fn place(
        &self,
        table: Table<'_>,
        at: Tid,
        values: &Values,
        equals: impl FnOnce() -> Vec<Tid>,
    ) -> Option<Tid> {
        // SAFETY: the caller's contract.
        let written = unsafe { self.written.rows_equal(table, values) };
        if written.len() <= 1 {
            return written.first().copied();
        }
        let moved = equals();
        let earlier = moved.partition_point(|&other| other < at);
        let pairs = moved.into_iter().zip(written.iter().copied());
        let mut places = self.places.borrow_mut();
        if places.len() + written.len() > KEPT_PLACES {
            places.clear();
        }
        places.extend(pairs.skip(earlier).take(KEPT_PLACES));
        written.get(earlier).copied()
    }

    /// The tail rows with these values that were sealed, in order.
    ///
    /// # Safety
    /// As `place`.
    unsafe fn sealed_equals(&self, table: Table<'_>, values: &Values) -> Vec<Tid> {
        // SAFETY: the caller's contract.
        unsafe {
            let descriptor = table.descriptor();
            let sealed = self.sealed.get_or_init(|| sealed_by(table, self.mover));
            let print = prints::of_row(descriptor, values);
            let first = sealed.partition_point(|&(other, _)| other < print);
            sealed[first..]
                .iter()
                .take_while(|&&(other, _)| other == print)
                .map(|&(_, at)| at)
                .filter(|&at| {
                    tail_row(table, at)
                        .is_some_and(|found| equal(descriptor, &deform(&found, descriptor), values))
                })
                .collect()
        }
    }
}

/// The tail rows that `mover` sealed, with their fingerprints, sorted.
fn sealed_by(table: Table<'_>, mover: TransactionId) -> Vec<(u32, Tid)> {
    let mut sealed = Vec::new();
    let mut cursor = PageCursor::new(table);
    // SAFETY: the table is open; rows are copied from their page before their values are looked at.
    unsafe {
        let descriptor = table.descriptor();
        for block in 0..table.blocks() {
            error::check_interrupts();
            cursor.go(block);
            let rows: Vec<(Tid, Formed)> = cursor.locked(|page| {
                let moved = page.tuples().filter(|item| is_sealed_row(item, mover));
                moved.map(|item| (item.tid, copy(table, item))).collect()
            });
            for (at, row) in rows {
                let print = prints::of_row(descriptor, &deform(&row, descriptor));
                sealed.push((print, at));
            }
        }
    }
    sealed.sort_unstable();
    sealed
}

/// Is this a tail row that `mover` sealed?
///
/// # Safety
/// The tuple's page must be locked.
unsafe fn is_sealed_row(item: &PageTuple<'_>, mover: TransactionId) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        classify(item) == TupleKind::Row
            && tuple::raw_xmax(item.header()) == mover
            && tuple::ctid(item.header()).is_moved_marker()
    }
}

/// A copy of the tail row at `at`.
fn tail_row(table: Table<'_>, at: Tid) -> Option<Formed> {
    let mut cursor = PageCursor::new(table);
    let item = cursor.tuple(at, table.blocks())?;
    Some(copy(table, item))
}

/// A copy of a tuple in the current memory context.
fn copy(table: Table<'_>, item: PageTuple<'_>) -> Formed {
    // SAFETY: the tuple's page is pinned.
    unsafe { Formed::copy(item.to_heap_tuple(table.oid())) }
}
