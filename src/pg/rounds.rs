//! Work in rounds, each a transaction of its own: what a procedure does between its commits.

use super::memory;
use super::relation::Open;
use pgrx::pg_sys;

/// The SPI connection that lets a procedure end transactions, and a session lock on one table that
/// outlasts them: one of its kind per table at a time.
pub struct Rounds {
    table: pg_sys::Oid,
    lock: pg_sys::LockRelId,
}

const LOCK: u32 = pg_sys::ShareUpdateExclusiveLock;

/// Commits, and starts a transaction that sees what others have committed meanwhile.
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
            let mut lock = (*open.rel()).rd_lockInfo.lockRelId;
            pg_sys::LockRelationIdForSession(&mut lock, LOCK as i32);
            drop(open);
            let rounds = Rounds { table, lock };
            rounds.next();
            rounds
        }
    }

    /// Commits, and starts a transaction that sees what others have committed meanwhile.
    unsafe fn next(&self) {
        // SAFETY: no snapshot of ours is active between rounds.
        unsafe { commit() }
    }

    /// Runs `body` with the open table and a fresh snapshot, and commits. Memory of the round goes with it.
    ///
    /// # Safety
    /// `body` must leave no snapshot active and keep nothing that lives in the round's memory.
    pub unsafe fn run<R>(&self, body: impl FnOnce(pg_sys::Relation, pg_sys::Snapshot) -> R) -> R {
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
        body: impl FnOnce(pg_sys::Relation, pg_sys::Snapshot) -> Result<R, E>,
    ) -> Result<R, E> {
        // SAFETY: by contract.
        unsafe {
            let result = self.within(body);
            if result.is_ok() {
                self.next();
            } else {
                pg_sys::SPI_rollback();
                pg_sys::XactIsoLevel = pg_sys::XACT_READ_COMMITTED as i32;
                pg_sys::LockRelationIdForSession(&mut self.lock, LOCK as i32);
            }
            result
        }
    }

    unsafe fn within<R>(&self, body: impl FnOnce(pg_sys::Relation, pg_sys::Snapshot) -> R) -> R {
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
            let result = memory::within(context, || body(table.rel(), pg_sys::GetActiveSnapshot()));
            pg_sys::PopActiveSnapshot();
            drop(table);
            pg_sys::MemoryContextDelete(context);
            result
        }
    }

    /// Does somebody wait for a lock that ours is in the way of?
    pub fn is_in_the_way(&self) -> bool {
        // SAFETY: the lock is taken here and released at the next commit.
        unsafe {
            let table = Open::living_table(self.table, LOCK);
            pg_sys::LockHasWaitersRelation(table.rel(), LOCK as i32)
        }
    }

    /// Gives up the lock and the connection.
    pub fn end(mut self) {
        // SAFETY: both were taken in `begin`.
        unsafe {
            pg_sys::UnlockRelationIdForSession(&mut self.lock, LOCK as i32);
            pg_sys::SPI_finish();
        }
    }
}
