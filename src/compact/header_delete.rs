//! Taking a chunk away whose rows move on, or go: nobody must be changing a row of it.

use crate::chunk::notes;
use crate::chunk::read::Chunk;
use crate::chunk::write;
use crate::pg::relation::Table;
use crate::pg::{CommandId, TM_Result};
use crate::table::activity::{activity, Activity};
use crate::table::locks;

/// Deletes the header of a chunk, as one whose rows have `moved` on, or go with it; false when somebody has locked or changed it or a row since it was opened.
pub fn delete_header(table: Table<'_>, chunk: &Chunk, command: CommandId, moved: bool) -> bool {
    // SAFETY: the caller has just seen the header under its snapshot.
    unsafe {
        locks::with_whole_chunk(table, chunk.header.chunk, || {
            // Who changes many rows holds a lock of the header alone, and nobody takes that while we have the chunk's. So where nobody holds it, whoever did
            // has ended, and his notes are there.
            let is_free = matches!(activity(table, chunk.tid), Activity::None);
            is_free
                && !notes::has_others(chunk, None)
                && write::try_delete(table, chunk.tid, command, false, moved) == TM_Result::TM_Ok
        })
    }
}
