//! What a session knows of the tables that it was the last to compact: the survey that said that everything was done. As long as nobody else
//! has compacted or vacuumed such a table, all that is new in it lies on pages without a bit in the visibility map, and only those are
//! surveyed the next time (`survey::Before`): no header of what was there, and no entry of the series index.
//!
//! Vacuum and the like say so at the table (`quiet`). For other sessions' compacts there is a *mark*: a random number, in the place that
//! `pg_class` has for the `relallvisible` of the series index, which nobody else needs. Who settles a table writes it, or 0, to each of its series
//! indexes; who builds or vacuums an index writes 0. It is written in place and at once, before the table is said to be settled.

use super::seen::Seen;
use super::survey::Survey;
use crate::catalog::layout::{self, Layout};
use crate::catalog::marker_file::File;
use crate::guc;
use crate::pg::lock_mode::LockMode;
use crate::pg::open::OpenIndex;
use crate::pg::random;
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::vacuum;
use crate::pg::Oid;
use crate::scan::headers;
use std::cell::RefCell;
use std::rc::Rc;

/// Fewer chunks are looked at as quickly.
const LEAST_CHUNKS: usize = 16;
/// What is remembered of all tables takes so much memory at most.
const MOST_BYTES: usize = 16 << 20;

struct Remembered {
    table: Oid,
    subject: Subject,
    mark: u32,
    survey: Survey,
    bytes: usize,
}

/// What a survey is of, and what it goes by.
#[derive(PartialEq)]
struct Subject {
    file: File,
    index: Oid,
    layout: Layout,
    columns: usize,
    chunk_rows: usize,
}

thread_local! {
    /// The latest last.
    static ALL: RefCell<Vec<Remembered>> = const { RefCell::new(Vec::new()) };
}

impl Subject {
    /// None where no series index leads to the chunks.
    fn of(table: Table<'_>, snapshot: Snapshot<'_>) -> Option<Subject> {
        Some(Subject {
            file: File::of(table),
            index: headers::usable_index(table, snapshot)?.rel().oid(),
            layout: layout::of(table),
            columns: table.attributes().len(),
            chunk_rows: guc::chunk_rows(),
        })
    }
}

/// Takes what is known of a settled table; None where somebody else has compacted it since, or something is different now.
///
/// `table` must be open with the lock of compact, `snapshot` active.
pub fn take(table: Table<'_>, snapshot: Snapshot<'_>) -> Option<Survey> {
    let known = forget(table)?;
    let holds = Subject::of(table, snapshot).is_some_and(|now| now == known.subject)
        && vacuum::mark(known.subject.index) == known.mark;
    holds.then_some(known.survey)
}

fn forget(table: Table<'_>) -> Option<Remembered> {
    ALL.with_borrow_mut(|all| {
        let at = all.iter().position(|known| known.table == table.oid())?;
        Some(all.remove(at))
    })
}

/// Marks a table that is about to be settled as compacted by this session, and remembers the survey that it is settled by, if it is good for the next time.
///
/// `table` must be open with the lock of compact, `snapshot` active.
pub fn keep(table: Table<'_>, snapshot: Snapshot<'_>, survey: Survey, is_good: bool) {
    forget(table);
    let bytes = bytes_of(&survey);
    let is_kept = is_good && survey.chunks.len() >= LEAST_CHUNKS && bytes <= MOST_BYTES;
    let subject = Subject::of(table, snapshot).filter(|_| is_kept);
    let mark = subject.as_ref().map(|subject| (subject.index, new_mark()));
    write_marks(table, mark);
    let Some((subject, (_, mark))) = subject.zip(mark) else {
        return;
    };
    ALL.with_borrow_mut(|all| {
        let mut rest = MOST_BYTES - bytes;
        let latest_first = all.iter().rev();
        let fits = latest_first.take_while(|known| {
            let fits = known.bytes <= rest;
            rest = rest.saturating_sub(known.bytes);
            fits
        });
        let kept = fits.count();
        all.drain(..all.len() - kept);
        all.push(Remembered {
            table: table.oid(),
            subject,
            mark,
            survey,
            bytes,
        });
    });
}

/// What a survey takes, about: its chunks, their keys, and their places in the lists of their series.
fn bytes_of(survey: &Survey) -> usize {
    const EACH: usize = size_of::<Seen>() + 3 * size_of::<usize>();
    let keys = |seen: &Seen| match Rc::ptr_eq(&seen.first_key, &seen.last_key) {
        true => seen.first_key.len(),
        false => seen.first_key.len() + seen.last_key.len(),
    };
    survey.chunks.iter().map(|seen| EACH + keys(seen)).sum()
}

fn new_mark() -> u32 {
    (random::number() as u32 & i32::MAX as u32).max(1)
}

/// Writes a mark to one series index, and none to the others, valid or not.
fn write_marks(table: Table<'_>, mark: Option<(Oid, u32)>) {
    let series = layout::index_am();
    for oid in table.index_oids() {
        let index = OpenIndex::open(oid, LockMode::AccessShare);
        if index.rel().class().relam != series {
            continue;
        }
        let new = mark.filter(|(marked, _)| *marked == oid);
        let new = new.map_or(0, |(_, mark)| mark);
        if vacuum::mark(oid) != new {
            vacuum::store_mark(index.rel(), new);
        }
    }
}
