//! What a session knows, from one statement to the next, of single series: the last entries of their own, and all chunks that may have rows of them, where all of
//! these can wait. Whoever wants the newest row of a series that has been looked at before asks few pages of the index whether they are what they were, and
//! begins no scan of it. Who wants more rows than these entries lead to scans those that come before them.
//!
//! It holds as long as the pages that said so are the same (`PageState`), as with `listed`. Whether a snapshot sees a row or a header is asked when its turn
//! comes.

use super::entries::{IndexDesc, Key, SeriesEntries};
use super::later::{Later, Turns};
use super::listed::{PageStates, Pages};
use super::section::Place;
use crate::chunk::index_entries;
use crate::pg::leaf_end;
use crate::pg::leaf_probe::PageState;
use crate::pg::leaf_range::Range;
use crate::pg::relation::Index;
use crate::pg::{Datum, Oid};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::rc::Rc;

/// A series that is read backward, without bounds of time.
pub struct KnownSeries {
    pub entries: SeriesEntries,
    chunks: Turns,
    pages: PageStates,
}

impl KnownSeries {
    /// The chunks that may have rows of it, other than those that its own entries name.
    pub fn later(&self) -> Option<Later> {
        let key = Rc::clone(&self.entries.key);
        let chunks = self.chunks.clone();
        (!chunks.is_empty()).then_some(Later { key, chunks })
    }
}

/// Index and its file, and the values of the key columns, which are integers.
type Name = (Oid, Oid, SmallVec<[usize; 2]>);

/// What is remembered of a series.
const MOST_ENTRIES: usize = 12;
const MOST_CHUNKS: usize = 32;
/// Series that are remembered, and their entries and chunks: these take two megabytes, about.
const MOST_SERIES: usize = 4096;
const MOST_PARTS: usize = 64 << 10;

#[derive(Default)]
struct Session {
    known: FxHashMap<Name, Rc<KnownSeries>>,
    /// Their entries and chunks.
    parts: usize,
}

thread_local! {
    static SESSION: RefCell<Session> = RefCell::default();
}

fn parts_of(known: &KnownSeries) -> usize {
    known.entries.last.len() + known.chunks.len()
}

impl Session {
    fn keep(&mut self, name: Name, known: KnownSeries) {
        let is_full = self.known.len() >= MOST_SERIES && !self.known.contains_key(&name);
        if is_full || self.parts >= MOST_PARTS {
            *self = Session::default();
        }
        self.parts += parts_of(&known);
        if let Some(before) = self.known.insert(name, Rc::new(known)) {
            self.parts -= parts_of(&before);
        }
    }
}

/// The name of a series, if it can be remembered: no other bits are equal to those of integers.
fn name_of(desc: &IndexDesc, key: &Key) -> Option<Name> {
    let is_null = |&(_, isnull): &(Datum, bool)| isnull;
    if key.values.is_empty() || !desc.is_of_integers() || key.values.iter().any(is_null) {
        return None;
    }
    let values = key.values.iter().map(|(value, _)| value.value());
    let index = desc.index;
    Some((index.oid(), index.file_number(), values.collect()))
}

/// What is to be done to find a series.
pub enum Way {
    /// Nothing: this still holds.
    Known(Rc<KnownSeries>),
    /// To ask a page for its last entries (`entries_of`), and to `remember` them.
    AskPage,
    /// To scan them.
    Scan,
}

/// How the entries of a series are found best.
pub fn way_to(place: Place, key: &Key) -> Way {
    let Some(name) = name_of(place.desc, key) else {
        return Way::Scan;
    };
    let known = SESSION.with_borrow(|session| session.known.get(&name).cloned());
    let is_same = |page: &PageState| page.is_same(place.desc.index, place.snapshot);
    match known.filter(|known| known.pages.iter().rev().all(is_same)) {
        Some(known) => Way::Known(known),
        None => Way::AskPage,
    }
}

/// The last entries of a series that has a name, if the page of the index where they end is found; and that page, where it can be known again.
pub fn entries_of(place: Place, key: &Rc<Key>) -> Option<(SeriesEntries, Option<PageState>)> {
    let (desc, index) = (place.desc, place.desc.index);
    let first: SmallVec<[_; 4]> = key.values.iter().map(|&(value, _)| Some(value)).collect();
    let range = Range {
        first: &first,
        span: Some((desc.least_time(), None)),
        with_nulls: true,
    };
    // What is entered under the first key alone has no time.
    let is_of_series =
        |time: Option<_>, tid| time.is_some() || index_entries::header_of_entry(tid).is_none();
    // SAFETY: the index is open, the range of its columns; the snapshot is valid.
    let end = unsafe { leaf_end::of(index, place.snapshot, range, MOST_ENTRIES, is_of_series)? };
    let time = |value: Option<_>| match value {
        Some(value) => desc.time_of(value, false),
        None => (true, 0),
    };
    let last = end.entries.iter().map(|&(value, tid)| (time(value), tid));
    let entries = SeriesEntries {
        key: Rc::clone(key),
        last: last.collect(),
        is_whole: end.is_whole,
    };
    Some((entries, end.page))
}

/// These are the last entries and all chunks of a series, by these pages as they are now.
pub fn remember(place: Place, entries: &SeriesEntries, later: Option<&Later>, pages: Pages) {
    let (Some(name), Some(pages)) = (name_of(place.desc, &entries.key), pages.all()) else {
        return;
    };
    let chunks = later.map_or_else(Turns::default, |later| later.chunks.clone());
    if chunks.len() > MOST_CHUNKS || !chunks.are_listed() {
        return;
    }
    let known = KnownSeries {
        entries: entries.clone(),
        chunks,
        pages,
    };
    SESSION.with_borrow_mut(|session| session.keep(name, known));
}

/// Has the pages of an index asked again, since what they have may be dead.
pub fn forget(index: Index<'_>) {
    let (oid, file) = (index.oid(), index.file_number());
    SESSION.with_borrow_mut(|session| {
        session.known.retain(|name, known| {
            let is_other = (name.0, name.1) != (oid, file);
            session.parts -= if is_other { 0 } else { parts_of(known) };
            is_other
        });
    });
}
