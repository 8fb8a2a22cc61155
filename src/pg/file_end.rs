//! Empty pages at the end of a table's file, which VACUUM cuts off. Core does so inside of its vacuum, and may wait five seconds there for the
//! lock that this takes, whoever waits for its own; here each try is a call.

use super::lock_mode::LockMode;
use super::page::PageCursor;
use super::relation::Table;
use super::vacuum;
use pgrx::pg_sys;

const LOCK: i32 = LockMode::AccessExclusive.as_raw();
/// So many empty pages are worth the lock, or this part of the file.
const MANY: u32 = 1_000;
const PART: u32 = 16;
/// Between two looks whether somebody waits, and as far ahead pages are asked for.
const STRIDE: u32 = 32;

/// Are so many pages empty that they should be cut off? Looks at two of them.
pub fn is_empty(table: Table<'_>) -> bool {
    let blocks = table.blocks();
    let mut cursor = PageCursor::new(table);
    let mut is_empty = |block| {
        cursor.go(block);
        cursor.locked(|page| page.tuples().next().is_none())
    };
    blocks > 0 && is_empty(blocks - 1) && is_empty(blocks - (blocks / PART).clamp(1, MANY))
}

/// Cuts them off; false where the lock cannot be had just now, or somebody came to wait for it before all was done.
///
/// # Safety
/// `table` must be open with ShareUpdateExclusiveLock, in a transaction that has changed nothing, and no page of it be pinned.
pub unsafe fn cut(table: Table<'_>) -> bool {
    // SAFETY: by contract; nobody else reads or writes the table while its pages are looked at and cut off.
    unsafe {
        if !is_empty(table) {
            return true;
        }
        if !pg_sys::ConditionalLockRelation(table.as_ptr(), LOCK) {
            return false;
        }
        let blocks = table.blocks();
        let (end, is_all) = end_of_use(table, blocks);
        let empty = blocks - end;
        if empty > 0 && (empty >= MANY || empty >= blocks / PART) {
            pg_sys::RelationTruncate(table.as_ptr(), end);
            // Its rows are as many as before.
            vacuum::store_rows(table, table.class().reltuples.into());
        }
        is_all
    }
}

/// Waits a little before the next try, as VACUUM does.
pub fn pause() {
    const MILLISECONDS: core::ffi::c_long = 50;
    let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    // SAFETY: the latch of this process.
    unsafe {
        pg_sys::WaitLatch(
            pg_sys::MyLatch,
            events as i32,
            MILLISECONDS,
            pg_sys::WaitEventTimeout::WAIT_EVENT_VACUUM_TRUNCATE,
        );
        pg_sys::ResetLatch(pg_sys::MyLatch);
    }
}

/// The number of pages up to the last one with a line pointer that is used; false: up to where somebody began to wait.
fn end_of_use(table: Table<'_>, blocks: u32) -> (u32, bool) {
    let mut cursor = PageCursor::new(table);
    let mut end = blocks;
    while end > 0 {
        let block = end - 1;
        if end == blocks || block.is_multiple_of(STRIDE) {
            // SAFETY: the table is open: the lock is held.
            if unsafe { pg_sys::LockHasWaitersRelation(table.as_ptr(), LOCK) } {
                return (end, false);
            }
            for ahead in block.saturating_sub(STRIDE)..block {
                let fork = pg_sys::ForkNumber::MAIN_FORKNUM;
                // SAFETY: as above; the page exists.
                unsafe { pg_sys::PrefetchBuffer(table.as_ptr(), fork, ahead) };
            }
        }
        cursor.go(block);
        if cursor.locked(|page| (1..=page.line_pointers()).any(|offset| page.is_used(offset))) {
            break;
        }
        end = block;
    }
    (end, true)
}
