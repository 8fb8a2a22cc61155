//! Whether a look at all chunks and entries of a table misses nothing. What a snapshot shows is found wherever it moves, unless it
//! moves while we look; and a transaction that was bringing a batch may end, and others change or move its chunks, before we
//! come to them.

use crate::pg::clock;
use crate::pg::lock_mode::LockMode;
use crate::pg::lock_tags::{self, Tag, Taken, Whole};
use crate::pg::relation::Table;
use crate::pg::TransactionId;

/// Microseconds until we try again to be told who moves rows.
const PAUSE: i64 = 1_000;

pub struct StabilityCheck<'a> {
    table: Table<'a>,
    /// Nobody moves rows as long as we have the lock.
    held: bool,
    movers: Vec<TransactionId>,
    /// Who has brought batches that are not committed.
    writers: Vec<TransactionId>,
}

impl<'a> StabilityCheck<'a> {
    /// Locks of others are not waited for.
    pub fn begin(table: Table<'_>) -> StabilityCheck<'_> {
        let moving = Tag::whole(table, Whole::Moving);
        let mut movers = Vec::new();
        let held = loop {
            if lock_tags::take(&moving, LockMode::Share, false) != Taken::No {
                break true;
            }
            movers = lock_tags::holders(&moving, LockMode::Share);
            if !movers.is_empty() {
                break false;
            }
            // He who waits for the lock will have it soon.
            crate::pg::error::check_interrupts();
            clock::pause(PAUSE);
        };
        StabilityCheck {
            table,
            held,
            movers,
            writers: writers(table),
        }
    }

    /// Has the look missed nothing?
    pub fn end(self) -> bool {
        let moving = Tag::whole(self.table, Whole::Moving);
        if self.held {
            lock_tags::release(&moving, LockMode::Share);
        } else if lock_tags::holders(&moving, LockMode::Share) != self.movers {
            return false;
        }
        let now = writers(self.table);
        self.writers.iter().all(|writer| now.contains(writer))
    }
}

/// Who has brought batches to a table and is in progress.
fn writers(table: Table<'_>) -> Vec<TransactionId> {
    lock_tags::holders(&Tag::whole(table, Whole::Batches), LockMode::Share)
}
