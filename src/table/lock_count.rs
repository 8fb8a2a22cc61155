//! How many heavyweight locks this transaction has taken on compressed rows and their chunks, and whether it may take more: the server's lock table has
//! place for a number of them. What a subtransaction has counted goes with it when it is rolled back, as its locks do.

use crate::pg::lock_mode::LockMode;
use crate::pg::lock_tags::{self, Tag, Taken};
use crate::pg::places;
use crate::pg::transaction::{self, Access, PerTransaction};
use crate::pg::{Oid, SubTransactionId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Rows of one chunk, side by side, from which on it is locked as a whole, if nobody else has locked rows of it.
const MANY_ROWS: u32 = 32;
/// They lie side by side where they are at least one of so many.
const SIDE_BY_SIDE: u32 = 2;

/// Locks for which a share of the server's lock table stands.
const SHARE_LOCKS: usize = 128;
/// Such shares that a transaction takes at most.
const MOST_SHARES: usize = 8;

/// A chunk of a table.
type Key = (Oid, u64);
/// A chunk with the intention to lock rows of it, shared or not.
type Look = (Key, bool);

#[derive(Default)]
struct Count {
    all: usize,
    /// Of these, the rows of each chunk.
    rows: FxHashMap<Key, Rows>,
    /// The chunks whose headers were free when it had told of its intention.
    looks: FxHashSet<Look>,
    /// Shares of the lock table that the transaction has taken: they last until it ends.
    shares: usize,
    /// It has locked a chunk in place of rows.
    is_bulk: bool,
    /// What subtransactions in progress have counted, in the order in which they did.
    counted: Vec<(SubTransactionId, Counted)>,
}

/// What is to be taken back with a subtransaction.
enum Counted {
    Lock,
    /// The rows of a chunk that were counted before.
    Row(Key, Option<Rows>),
    Look(Look),
    Bulk,
}

/// Rows of a chunk that are locked.
#[derive(Clone, Copy)]
struct Rows {
    count: u32,
    least: u32,
    greatest: u32,
}

impl Rows {
    fn with(self, row: u32) -> Rows {
        Rows {
            count: self.count + 1,
            least: self.least.min(row),
            greatest: self.greatest.max(row),
        }
    }

    /// Those of a statement that takes one row after the other, and most likely the next ones too.
    fn are_many(&self) -> bool {
        self.count >= MANY_ROWS && self.greatest - self.least < self.count * SIDE_BY_SIDE
    }
}

impl Count {
    /// Has the transaction as many locks as it may? A share for more is taken where one is left.
    fn is_full(&mut self) -> bool {
        let few = lock_tags::locks_each().max(16);
        if self.all < few + self.shares * SHARE_LOCKS {
            return false;
        }
        if self.is_bulk || self.shares == MOST_SHARES || !take_share() {
            return true;
        }
        self.shares += 1;
        false
    }

    fn note(&mut self, counted: Counted) {
        let part = transaction::part();
        if part != transaction::OUTERMOST {
            self.counted.push((part, counted));
        }
    }

    fn take_back(&mut self, counted: Counted) {
        match counted {
            Counted::Lock => self.all -= 1,
            Counted::Row(key, before) => {
                self.all -= 1;
                match before {
                    Some(rows) => self.rows.insert(key, rows),
                    None => self.rows.remove(&key),
                };
            }
            Counted::Look(look) => {
                self.looks.remove(&look);
            }
            Counted::Bulk => self.is_bulk = false,
        }
    }
}

/// Takes a share of the lock table, half of which is given out so.
fn take_share() -> bool {
    let shares = lock_tags::capacity() / 2 / SHARE_LOCKS;
    let first = places::pid() as usize;
    (0..shares).any(|at| {
        let tag = Tag::share((first + at) % shares);
        !lock_tags::is_held(&tag, LockMode::Exclusive)
            && lock_tags::take_for_transaction(&tag, LockMode::Exclusive) == Taken::New
    })
}

thread_local! {
    static COUNT: PerTransaction<Count> = PerTransaction::default();
}

/// Counts a lock on a chunk, or one that tells of a change.
pub fn add() {
    COUNT.with_borrow_mut(|count| {
        count.all += 1;
        count.note(Counted::Lock);
    });
}

/// Remembers that nobody had the header of a chunk locked when this transaction had told of its intention.
pub fn add_look(table: Oid, chunk: u64, is_shared: bool) {
    let look = ((table, chunk), is_shared);
    COUNT.with_borrow_mut(|count| {
        if count.looks.insert(look) {
            count.note(Counted::Look(look));
        }
    });
}

/// Is that known?
pub fn is_looked_at(table: Oid, chunk: u64, is_shared: bool) -> bool {
    COUNT.with_borrow(|count| count.looks.contains(&((table, chunk), is_shared)))
}

/// Counts a lock on a row of a chunk.
pub fn add_row(table: Oid, chunk: u64, row: u32) {
    let key = (table, chunk);
    let first = Rows {
        count: 0,
        least: row,
        greatest: row,
    };
    COUNT.with_borrow_mut(|count| {
        let before = count.rows.get(&key).copied();
        count.all += 1;
        count.rows.insert(key, before.unwrap_or(first).with(row));
        count.note(Counted::Row(key, before));
    });
}

/// The transaction has locked a chunk in place of rows: it is to take no more of the lock table for single ones.
pub fn add_bulk() {
    COUNT.with_borrow_mut(|count| {
        if !count.is_bulk {
            count.is_bulk = true;
            count.note(Counted::Bulk);
        }
    });
}

/// The number of locks that were counted.
pub fn all() -> usize {
    COUNT.with_borrow(|count| count.all)
}

/// Has the transaction locked many rows of a chunk that lie side by side?
pub fn are_many(table: Oid, chunk: u64) -> bool {
    COUNT.with_borrow(|count| count.rows.get(&(table, chunk)).is_some_and(Rows::are_many))
}

/// Has the transaction as many locks as it may?
pub fn is_full() -> bool {
    COUNT.with_borrow_mut(Count::is_full)
}

/// A subtransaction has ended: what it has counted goes up to its parent, or away.
pub fn end_subtransaction(part: SubTransactionId, parent: SubTransactionId, has_committed: bool) {
    COUNT.with_borrow_mut(|count| {
        let others = count.counted.iter().rposition(|entry| entry.0 != part);
        let first = others.map_or(0, |at| at + 1);
        if !has_committed {
            while count.counted.len() > first {
                if let Some((_, counted)) = count.counted.pop() {
                    count.take_back(counted);
                }
            }
        } else if parent == transaction::OUTERMOST {
            count.counted.truncate(first);
        } else {
            let own = &mut count.counted[first..];
            own.iter_mut().for_each(|entry| entry.0 = parent);
        }
    });
}
