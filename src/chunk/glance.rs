//! Looks at a header without opening it: what a session knows of its bytes already, where they are what they were. Nobody has said then
//! whether a snapshot sees it. That is asked of who opens it.

use super::read::Content;
use super::session_cache;
use super::tuple_kind::{classify, TupleKind};
use crate::pg::page::PageCursor;
use crate::pg::relation::Table;
use crate::pg::tid::Tid;
use crate::pg::tuple;
use std::rc::Rc;

/// Looks at headers of one table, at one after the other.
pub struct Glance<'a> {
    table: Table<'a>,
    cursor: PageCursor<'a>,
}

impl<'a> Glance<'a> {
    /// # Safety
    /// `table` must stay open as long as the value lives.
    pub unsafe fn new(table: Table<'_>) -> Glance<'_> {
        Glance {
            table,
            cursor: PageCursor::new(table),
        }
    }

    /// The content of the header at `at`, where the session has it. None too for one whose writer is not known to have committed, and for
    /// one that somebody has deleted or locked, or tried to: who opens it says whether its entry is of any use.
    pub fn content(&mut self, at: Tid) -> Option<Rc<Content>> {
        let (oid, file) = (self.table.oid(), self.table.file_number());
        let place = (oid, file, at);
        let (content, buffer) = session_cache::content(place)?;
        let is_there = buffer > 0 && self.cursor.go_again(at.block, buffer);
        if !is_there {
            if !self.table.has_block(at.block) {
                return None;
            }
            self.cursor.go(at.block);
            session_cache::is_in_buffer(place, self.cursor.buffer());
        }
        let is_same = self.cursor.locked(|page| {
            // SAFETY: the page is pinned and locked.
            page.tuple(at.offset).is_some_and(|item| unsafe {
                tuple::is_plainly_there(item.header)
                    && classify(item.header, item.len, at.offset) == TupleKind::Header
                    && content.is_of(tuple::body(item.header, item.len))
            })
        });
        is_same.then_some(content)
    }
}
