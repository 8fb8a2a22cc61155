//! Looks at a header without opening it. Nobody has said then whether a snapshot sees it. That is asked of who opens it.

use super::session_cache::{self, Place};
use super::tuple_kind::{classify, TupleKind};
use crate::pg::page::PageCursor;
use crate::pg::relation::Table;
use crate::pg::tid::Tid;
use crate::pg::{transaction, tuple, Buffer};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use varve_columns::tuple::header::{self, Section, StorageTuple, HEADER_HEAD};
use varve_columns::tuple::statics::Statics;

/// What a session remembers of a header that it has glanced at for its times only.
struct Seen {
    /// The bytes that all headers begin with: the chunk's id, of 64 random bits, and the checksum of the others are among them.
    head: [u8; HEADER_HEAD],
    times: (i64, i64),
    /// The table column (from 0) of which these are.
    column: usize,
    /// The shared buffer that the header was in.
    buffer: Buffer,
}

/// Headers that are remembered.
const MOST_SEEN: usize = 1024;

thread_local! {
    static SEEN: RefCell<FxHashMap<Place, Seen>> = RefCell::default();
}

/// What a header says of the times of its chunk's rows.
pub enum Times {
    /// There is no header.
    None,
    /// It does not say, or is damaged, or speaks of another column.
    Unknown,
    /// The least and the greatest of them.
    Span(i64, i64),
}

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

    /// What `look` says of the bytes of the header at `at`, under a lock on its page, which may be in this shared buffer (0: nobody knows). None where there is
    /// none, and for one whose writer has not committed, or that somebody has deleted or locked, or tried to: who opens it says whether its
    /// entry is of any use.
    pub fn look<R>(&mut self, at: Tid, buffer: Buffer, look: impl FnOnce(&[u8]) -> R) -> Option<R> {
        if !self.go_again(at, buffer) && !self.go(at) {
            return None;
        }
        let (said, writer) = self.cursor.locked(|page| {
            let item = page.tuple(at.offset)?;
            // SAFETY: the page is pinned and locked.
            let (is_there, writer) = unsafe {
                let header = item.header();
                let is_there = tuple::is_plainly_there(header);
                (is_there, tuple::writer_in_question(header))
            };
            let may_be_there = is_there || writer.is_some();
            let is_header = may_be_there && classify(&item) == TupleKind::Header;
            is_header.then(|| (look(item.body()), writer))
        })?;
        let has_committed =
            |writer| !transaction::is_in_progress(writer) && transaction::did_commit(writer);
        writer.is_none_or(has_committed).then_some(said)
    }

    /// The shared buffer of the page that was looked at last.
    pub fn buffer(&self) -> Buffer {
        self.cursor.buffer()
    }

    /// What the header at `at` says of the times in a column (from 0) of the table, whoever sees it. What is wrong with it is told to who
    /// opens it.
    pub fn times(&mut self, at: Tid, column: usize) -> Times {
        let place = self.place(at);
        SEEN.with_borrow_mut(|all| {
            let known = all.get(&place);
            let is_there = known.is_some_and(|known| self.go_again(at, known.buffer));
            if !is_there && !self.go(at) {
                return Times::None;
            }
            let said = self.cursor.locked(|page| {
                let item = page.tuple(at.offset)?;
                if classify(&item) != TupleKind::Header {
                    return None;
                }
                let body = item.body();
                Some(match known {
                    Some(known) if body.first_chunk() == Some(&known.head) => None,
                    _ => Some(read(place, body)),
                })
            });
            let Some(said) = said else {
                return Times::None;
            };
            let buffer = self.cursor.buffer();
            let seen = match said {
                None if is_there => return known.map_or(Times::Unknown, |known| known.of(column)),
                None => known.map(|known| Seen { buffer, ..*known }),
                Some(read) => read.map(|read| Seen { buffer, ..read }),
            };
            let Some(seen) = seen else {
                return Times::Unknown;
            };
            if all.len() >= MOST_SEEN {
                all.clear();
            }
            let times = seen.of(column);
            all.insert(place, seen);
            times
        })
    }

    fn place(&self, at: Tid) -> Place {
        (self.table.oid(), self.table.file_number(), at)
    }

    /// Goes to the page of a header in the shared buffer that it was in when somebody glanced at it last, or 0; false where it is there no more.
    fn go_again(&mut self, at: Tid, buffer: Buffer) -> bool {
        buffer > 0 && self.cursor.go_again(at.block, buffer)
    }

    /// Goes to the page of a header; false where there is no such page.
    fn go(&mut self, at: Tid) -> bool {
        let is_there = self.table.has_block(at.block);
        if is_there {
            self.cursor.go(at.block);
        }
        is_there
    }
}

impl Seen {
    /// What the header says of a column.
    fn of(&self, column: usize) -> Times {
        match self.column == column {
            true => Times::Span(self.times.0, self.times.1),
            false => Times::Unknown,
        }
    }
}

/// What the bytes of a header say. Of which column the times are is in its static section, which is not in the tuple where the table has very many columns:
/// what the session knows says so then.
fn read(place: Place, body: &[u8]) -> Option<Seen> {
    let head: [u8; HEADER_HEAD] = *body.first_chunk()?;
    let times = header::times(body)?;
    let Ok(StorageTuple::Header(header)) = header::decode(body) else {
        return None;
    };
    let time = match &header.statics {
        Section::Inline(bytes) => Statics::decode(bytes).ok()?.time,
        Section::Spilled { .. } => {
            let content = session_cache::content(place)?;
            content.is_of(body).then(|| content.statics.time)?
        }
    };
    let column = usize::from(time?) - 1;
    Some(Seen {
        head,
        times,
        column,
        buffer: 0,
    })
}
