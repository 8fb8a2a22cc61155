//! Work in rounds, each a transaction of its own: what a procedure, or a background worker, does between its commits.
//! Rounds run as the owner of the table, as VACUUM does: expressions of its indexes and filters are the owner's code.

use super::departure;
use super::error;
use super::lock_mode::LockMode;
use super::memory;
use super::open::Open;
use super::owner;
use super::relation::Table;
use super::snapshot::Snapshot;
use crate::guc;
use pgrx::pg_sys;
use std::time::Duration;

/// Who works.
#[derive(Clone, Copy, PartialEq)]
enum Who {
    /// A procedure: its SPI connection lets it end transactions.
    Procedure,
    /// A background worker, which has no statement around it.
    Worker,
}

/// A session lock on one table that outlasts transactions: one of its kind per table at a time.
pub struct Rounds {
    who: Who,
    table: pg_sys::Oid,
    lock: pg_sys::LockRelId,
}

const LOCK: LockMode = LockMode::ShareUpdateExclusive;

/// Commits, and starts a transaction that sees what others have committed meanwhile.
///
/// # Safety
/// In a procedure whose SPI connection lets it end transactions. No snapshot may be active, and no relation of ours open.
unsafe fn commit() {
    // SAFETY: the callers have no snapshot active.
    unsafe {
        pg_sys::SPI_commit();
        pg_sys::XactIsoLevel = pg_sys::XACT_READ_COMMITTED as i32;
    }
}

impl Rounds {
    /// Commits, and waits for the table's lock in a transaction without a snapshot: who builds an index CONCURRENTLY has that lock, and
    /// waits for whoever has an older snapshot. Then `check` may raise what speaks against the work now. Errors release the lock,
    /// as they do for VACUUM.
    ///
    /// # Safety
    /// Must run in a procedure that was called outside a transaction block, before it holds any
    /// snapshot of its own.
    pub unsafe fn begin(table: pg_sys::Oid, check: impl FnOnce(&Open)) -> Rounds {
        // SAFETY: by contract; errors are raised.
        unsafe {
            pg_sys::SPI_connect_ext(pg_sys::SPI_OPT_NONATOMIC as i32);
            commit();
            let open = Open::living_table(table, LOCK);
            check(&open);
            let mut lock = (*open.rel().as_ptr()).rd_lockInfo.lockRelId;
            pg_sys::LockRelationIdForSession(&mut lock, LOCK.as_raw());
            drop(open);
            let rounds = Rounds {
                who: Who::Procedure,
                table,
                lock,
            };
            rounds.next();
            rounds
        }
    }

    /// The same in a background worker, inside a transaction. Does not wait: None where somebody has the lock, or the table is gone.
    ///
    /// # Safety
    /// Must run in a background worker with a transaction that has done nothing that matters, and no active snapshot.
    pub unsafe fn begin_in_worker(table: pg_sys::Oid) -> Option<Rounds> {
        // SAFETY: by contract; errors are raised.
        unsafe {
            if !pg_sys::ConditionalLockRelationOid(table, LOCK.as_raw()) {
                return None;
            }
            let open = Open::existing_table(table, LOCK)?;
            let mut lock = (*open.rel().as_ptr()).rd_lockInfo.lockRelId;
            pg_sys::LockRelationIdForSession(&mut lock, LOCK.as_raw());
            drop(open);
            let rounds = Rounds {
                who: Who::Worker,
                table,
                lock,
            };
            rounds.next();
            Some(rounds)
        }
    }

    /// Commits, and starts a transaction that sees what others have committed meanwhile.
    ///
    /// # Safety
    /// No snapshot may be active, no relation of ours open, and nobody may need what lives in a round's memory.
    unsafe fn next(&self) {
        // SAFETY: no snapshot of ours is active between rounds.
        unsafe {
            match self.who {
                Who::Procedure => commit(),
                Who::Worker => {
                    pg_sys::CommitTransactionCommand();
                    pg_sys::StartTransactionCommand();
                    pg_sys::XactIsoLevel = pg_sys::XACT_READ_COMMITTED as i32;
                    self.rest();
                }
            }
        }
    }

    /// Pays for the pages that a worker's round has read and written, as VACUUM does: `varve.worker_cost_delay` for each
    /// `varve.worker_cost_limit`. Whoever wants the table ends it.
    ///
    /// # Safety
    /// In a background worker, inside a transaction.
    unsafe fn rest(&self) {
        const SLICE_MS: u64 = 50;
        const MOST_MS: u64 = 2_000;
        // SAFETY: a counter of this process.
        let mut left = unsafe {
            let cost = core::mem::take(&mut *core::ptr::addr_of_mut!(pg_sys::VacuumCostBalance));
            guc::worker_rest_ms(cost.max(0) as u64).min(MOST_MS)
        };
        while left > 0 && !self.is_in_the_way() {
            let slice = left.min(SLICE_MS);
            std::thread::sleep(Duration::from_millis(slice));
            left -= slice;
        }
    }

    /// Rolls the round back, and starts a transaction.
    ///
    /// # Safety
    /// As `next`.
    unsafe fn roll_back(&self) {
        // SAFETY: by contract.
        unsafe {
            match self.who {
                Who::Procedure => pg_sys::SPI_rollback(),
                Who::Worker => {
                    pg_sys::AbortCurrentTransaction();
                    pg_sys::StartTransactionCommand();
                }
            }
            pg_sys::XactIsoLevel = pg_sys::XACT_READ_COMMITTED as i32;
        }
    }

    /// Runs `body` with the open table and a fresh snapshot, and commits. Memory of the round goes with it.
    ///
    /// # Safety
    /// `body` must leave no snapshot active and no relation open, and keep nothing that lives in the round's memory.
    pub unsafe fn run<R>(&self, body: impl FnOnce(Table<'_>, Snapshot<'_>) -> R) -> R {
        // SAFETY: by contract.
        unsafe {
            let result = self.within(body);
            self.next();
            result
        }
    }

    /// The same, but what has been done is rolled back where `body` fails. Abort releases the table's lock,
    /// so others may come between.
    ///
    /// # Safety
    /// As `run`.
    pub unsafe fn attempt<R, E>(
        &mut self,
        body: impl FnOnce(Table<'_>, Snapshot<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        // SAFETY: by contract.
        unsafe {
            let result = self.within(body);
            if result.is_ok() {
                self.next();
            } else {
                self.roll_back();
                pg_sys::LockRelationIdForSession(&mut self.lock, LOCK.as_raw());
            }
            result
        }
    }

    /// Runs `body` as `run` does, and does not commit.
    ///
    /// # Safety
    /// As `run`.
    unsafe fn within<R>(&self, body: impl FnOnce(Table<'_>, Snapshot<'_>) -> R) -> R {
        // SAFETY: the callers' contract; an error ends the procedure, and abort cleans up.
        unsafe {
            let context = pg_sys::AllocSetContextCreateInternal(
                pg_sys::CurrentMemoryContext,
                c"varve round".as_ptr(),
                0,
                8 << 10,
                8 << 20,
            );
            let table = Open::living_table(self.table, LOCK);
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
            let result = owner::as_owner(table.rel().owner(), || {
                memory::within(context, || body(table.rel(), Snapshot::active()))
            });
            pg_sys::PopActiveSnapshot();
            drop(table);
            pg_sys::MemoryContextDelete(context);
            result
        }
    }

    /// Does somebody wait for a lock that ours is in the way of? Or has a worker been told to stop?
    pub fn is_in_the_way(&self) -> bool {
        error::check_interrupts();
        if self.who == Who::Worker {
            departure::reload();
            if !guc::has_worker() {
                return true;
            }
        }
        // SAFETY: the lock is taken here and released at the next commit.
        unsafe {
            let table = Open::living_table(self.table, LOCK);
            pg_sys::LockHasWaitersRelation(table.rel().as_ptr(), LOCK.as_raw())
        }
    }

    /// Gives up the lock, and a procedure's connection.
    pub fn end(mut self) {
        // SAFETY: taken when this began.
        unsafe {
            pg_sys::UnlockRelationIdForSession(&mut self.lock, LOCK.as_raw());
            if self.who == Who::Procedure {
                pg_sys::SPI_finish();
            }
        }
    }
}
