//! What a session remembers of headers that scans need not open: where the rows of their chunks are. Their pages are looked at each time, since another header
//! may have come into the place of one.

use super::entries::{IndexDesc, Key};
use super::rows::{excludes, is_sorted_as, View};
use crate::chunk::glance::Glance;
use crate::chunk::index_entries;
use crate::chunk::read::Content;
use crate::pg::relation::Table;
use crate::pg::tid::Tid;
use crate::pg::{Buffer, Oid};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use varve_columns::chunk::ColumnHeader;
use varve_columns::summary::Bound;
use varve_columns::tuple::header::{FLAG_TOMBSTONE, HEADER_HEAD};

/// What a header says of where rows of its chunk are.
#[derive(Clone, Copy)]
pub struct Span {
    /// The least and the greatest time.
    pub times: (i64, i64),
    /// Bounds of the first key, as far as they are known.
    first_keys: (Bound, Bound),
}

/// An index and its file, and where a header is.
type Name = (Oid, Oid, Tid);

#[derive(Clone, Copy)]
struct Known {
    /// The bytes that the header begins with: the chunk's id, of 64 random bits, and the checksum of the others are among them.
    head: [u8; HEADER_HEAD],
    /// None: its chunk cannot wait.
    span: Option<Span>,
    /// The shared buffer that it was in.
    buffer: Buffer,
}

/// Headers that are remembered: these take a megabyte, about.
const MOST_KNOWN: usize = 4096;

thread_local! {
    static KNOWN: RefCell<FxHashMap<Name, Known>> = RefCell::default();
}

fn keep(name: Name, known: Known) {
    KNOWN.with_borrow_mut(|all| {
        if all.len() >= MOST_KNOWN {
            all.clear();
        }
        all.insert(name, known);
    });
}

/// Looks at headers of one table, at one after the other.
pub struct Spans<'a> {
    table: Table<'a>,
    desc: &'a IndexDesc<'a>,
    glance: Glance<'a>,
}

impl<'a> Spans<'a> {
    pub fn new(table: Table<'a>, desc: &'a IndexDesc<'a>) -> Spans<'a> {
        // SAFETY: the table is open as long as the handle lives.
        let glance = unsafe { Glance::new(table) };
        Spans {
            table,
            desc,
            glance,
        }
    }

    /// What the header of a chunk that can wait says of its rows, without opening it. None for all others, and for those which have to be opened to tell.
    pub fn of(&mut self, header: Tid) -> Option<Span> {
        let index = self.desc.index;
        let name = (index.oid(), index.file_number(), header);
        let known = KNOWN.with_borrow(|all| all.get(&name).copied());
        let buffer = known.map_or(0, |known| known.buffer);
        let is_same = |body: &[u8]| known.filter(|known| body.starts_with(&known.head));
        let looked = self
            .glance
            .look(header, buffer, |body| match is_same(body) {
                Some(known) => Ok(known),
                None => Err(body.to_vec()),
            })?;
        let known = match looked {
            Ok(known) if self.glance.buffer() == buffer => return known.span,
            Ok(known) => known,
            Err(body) => self.read(&body)?,
        };
        let buffer = self.glance.buffer();
        keep(name, Known { buffer, ..known });
        known.span
    }

    /// What the bytes of a header say; None where they are damaged, which is told to who opens it.
    fn read(&self, body: &[u8]) -> Option<Known> {
        let content = Content::read(self.table, body, None).ok()?;
        Some(Known {
            head: *body.first_chunk()?,
            span: of_content(&content, self.desc),
            buffer: 0,
        })
    }
}

/// What the header of a chunk says of its rows, where those of a series can be found by search, in the order of their times, none of which is null.
pub fn of_content(content: &Content, desc: &IndexDesc) -> Option<Span> {
    let header = content.header_as_written();
    let columns = content.columns.columns();
    let times = columns.get(desc.time_column());
    let is_in_order = !header.has(FLAG_TOMBSTONE)
        && times.is_some_and(|times| times.nulls == 0)
        && is_sorted_as(content, desc);
    let bounds = |column: &ColumnHeader| (column.summary.min, column.summary.max);
    // A column that was added later has no bounds here.
    let first_keys = columns.get(desc.columns[0]).map(bounds);
    is_in_order.then_some(Span {
        times: (header.min_time, header.max_time),
        first_keys: first_keys.unwrap_or((Bound::None, Bound::None)),
    })
}

impl Span {
    /// May rows of a chunk that can wait be of the series with `key`, and within the bounds of the quals?
    ///
    /// # Safety
    /// `view` must be of the chunk's table; `key` of its index, each value as it is stored in its column.
    pub unsafe fn may_match(&self, key: Option<&Key>, view: View) -> bool {
        let time = |at| index_entries::time_datum(at, view.desc.time_length);
        let (first, last) = (time(self.times.0), time(self.times.1));
        let mut bounds = view.quals.lowers.iter().chain(&view.quals.uppers);
        let (least, greatest) = &self.first_keys;
        let length = view.descriptor.attributes()[view.desc.columns[0]].attlen;
        let first_key = key.and_then(|key| key.values.first());
        // SAFETY: the caller's contract; the bounds are of times, the key's value as it is stored in its column.
        unsafe {
            bounds.all(|bound| bound.may_hold(first, last))
                && first_key.is_none_or(|&(value, isnull)| {
                    isnull || !excludes(least, greatest, value, length)
                })
        }
    }
}
