//! The section of a scan that names one series: chunks that are sorted as the index is are searched when the scan comes to their times,
//! and not before. Whoever wants the newest row looks into one chunk, however many share the series.

use super::entries::{Key, Time};
use super::rows::{is_sorted_as, View};
use crate::chunk::index_entries;
use crate::chunk::reader::Reader;
use crate::pg::relation;
use crate::table::visible::OpenChunk;
use pgrx::pg_sys;
use std::cmp::Reverse;
use std::rc::Rc;
use varve_columns::tuple::header::FLAG_ONE_SERIES;

/// Chunks that may have rows of one series.
pub struct Later {
    pub key: Rc<Key>,
    pub chunks: Turns,
}

/// Chunks in the order in which their times come, the first one last.
#[derive(Default)]
pub struct Turns(Vec<Rc<OpenChunk>>);

impl Later {
    /// Those of `chunks` that can wait, and the others. No chunk of whose times the quals exclude all is among either.
    ///
    /// # Safety
    /// `view` must be of the chunks' table; the arguments of its quals must live as long as what comes out.
    pub unsafe fn of(
        chunks: &[Rc<OpenChunk>],
        view: View,
        forward: bool,
    ) -> (Option<Later>, Vec<Rc<OpenChunk>>) {
        // SAFETY: by contract.
        let Some(key) = (unsafe { series_of(view) }) else {
            return (None, chunks.to_vec());
        };
        let waits = |chunk: &&Rc<OpenChunk>| can_wait(&chunk.reader, view);
        let (later, others): (Vec<_>, Vec<_>) = chunks.iter().partition(waits);
        let others = others.into_iter().cloned().collect();
        // SAFETY: by contract.
        let is_wanted = unsafe { view.quals.keys_hold(|column| key.values[column]) };
        // SAFETY: as above.
        let may_match = |chunk: &&Rc<OpenChunk>| unsafe { may_match(&chunk.reader, view) };
        let mut later: Vec<_> = later.into_iter().filter(may_match).cloned().collect();
        if !is_wanted || later.is_empty() {
            return (None, others);
        }
        if forward {
            later.sort_by_key(|chunk| Reverse(first_time(chunk, true)));
        } else {
            later.sort_by_key(|chunk| first_time(chunk, false));
        }
        let chunks = Turns(later);
        (Some(Later { key, chunks }), others)
    }
}

impl Turns {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the next chunk, unless all its rows come after `time` or with it.
    pub fn next_before(&mut self, time: Option<Time>, forward: bool) -> Option<Rc<OpenChunk>> {
        let next = first_time(self.0.last()?, forward);
        let is_due = time.is_none_or(|time| if forward { next < time } else { next > time });
        if is_due {
            self.0.pop()
        } else {
            None
        }
    }
}

/// No row of a chunk without null times comes before this time.
fn first_time(chunk: &OpenChunk, forward: bool) -> Time {
    let header = &chunk.reader.chunk.header;
    let time = if forward {
        header.min_time
    } else {
        header.max_time
    };
    (false, time)
}

/// The key of the one series that quals name.
unsafe fn series_of(view: View) -> Option<Rc<Key>> {
    // SAFETY: the caller's contract.
    unsafe {
        let series = view.quals.series(view.desc.index)?;
        let attributes = relation::attributes(view.descriptor);
        let columns = view.desc.columns.iter();
        let own = |(value, &column): (pg_sys::Datum, &usize)| {
            (relation::as_stored(value, &attributes[column]), false)
        };
        Some(Key::borrowed(
            series.into_iter().zip(columns).map(own).collect(),
        ))
    }
}

/// Can the rows of a series in a chunk be found by search, in the order of their times, none of which is null?
fn can_wait(reader: &Reader, view: View) -> bool {
    let header = &reader.chunk.header;
    let times = reader.chunk.columns.columns().get(view.desc.time_column());
    is_sorted_as(reader, view.desc)
        && !header.has(FLAG_ONE_SERIES)
        && times.is_some_and(|times| times.nulls == 0)
}

/// May times of a chunk that can wait be within the bounds of the quals?
unsafe fn may_match(reader: &Reader, view: View) -> bool {
    let header = &reader.chunk.header;
    let time = |at| index_entries::time_datum(at, view.desc.time_length);
    let (first, last) = (time(header.min_time), time(header.max_time));
    let mut bounds = view.quals.lowers.iter().chain(&view.quals.uppers);
    // SAFETY: the caller's contract; both are times.
    bounds.all(|bound| unsafe { bound.may_hold(first, last) })
}
