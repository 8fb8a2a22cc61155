//! The section of a scan that names one series: chunks that are sorted as the index is are opened and searched when the scan comes to their
//! times, and not before. Whoever wants the newest row looks into one chunk, however many share the series.
//!
//! A header that was committed is only listed (`spans`): its times and its order are the same to whoever sees it. Whether the snapshot sees it
//! is judged when its turn comes, and it is passed by where it does not. One that the snapshot sees stays where it is as long as the snapshot
//! does, so what was listed is what is opened; and what has come into the place of one that was not seen is not seen either.

use super::entries::{Key, Time};
use super::rows::View;
use super::section::Place;
use super::spans::{self, Span};
use crate::pg::image;
use crate::pg::tid::Tid;
use crate::pg::transaction;
use crate::pg::Datum;
use crate::table::visible::OpenChunk;
use std::cmp::Reverse;
use std::rc::Rc;

/// Chunks that may have rows of one series.
pub struct Later {
    pub key: Rc<Key>,
    pub chunks: Turns,
}

/// A chunk that a scan may find rows in.
#[derive(Clone)]
pub enum Found {
    Open(Rc<OpenChunk>),
    /// Its header, and what that says of its rows. Only where these can wait (`spans::of_content`).
    Listed(Tid, Span),
}

/// Chunks in the order in which they come, the first one last.
#[derive(Clone, Default)]
pub struct Turns {
    all: Option<Rc<[Turn]>>,
    /// How many of them have not been taken.
    left: usize,
}

/// A chunk that waits, with its least and greatest times.
struct Turn {
    times: (i64, i64),
    chunk: Waiting,
}

/// A chunk that waits, or where its header is.
#[derive(Clone)]
pub enum Waiting {
    Open(Rc<OpenChunk>),
    Listed(Tid),
}

impl Later {
    /// Those of `chunks` that can wait, and the others, which are open. No chunk is among those that wait if the quals exclude all its times or all its
    /// first keys.
    ///
    /// # Safety
    /// `view` must be of the chunks' table, `key` that of the only series that its quals name, if there is one: else nothing may be listed. The arguments
    /// of its quals must live as long as what comes out.
    pub unsafe fn of(
        chunks: Vec<Found>,
        key: Option<Rc<Key>>,
        view: View,
        forward: bool,
    ) -> (Option<Later>, Vec<Rc<OpenChunk>>) {
        let mut later = Vec::with_capacity(chunks.len());
        let mut others = Vec::new();
        let mut wait = |span: Span, chunk| {
            // SAFETY: by contract.
            if unsafe { span.may_match(key.as_deref(), view) } {
                let times = span.times;
                later.push(Turn { times, chunk });
            }
        };
        for found in chunks {
            match (found, &key) {
                (Found::Listed(header, span), _) => wait(span, Waiting::Listed(header)),
                (Found::Open(chunk), None) => others.push(chunk),
                (Found::Open(chunk), Some(_)) => {
                    match spans::of_content(&chunk.reader.chunk, view.desc) {
                        Some(span) => wait(span, Waiting::Open(chunk)),
                        None => others.push(chunk),
                    }
                }
            }
        }
        // SAFETY: as above.
        let is_wanted =
            |key: &Rc<Key>| unsafe { view.quals.keys_hold(|column| key.values[column]) };
        let key = key.filter(is_wanted).filter(|_| !later.is_empty());
        let Some(key) = key else {
            return (None, others);
        };
        if forward {
            later.sort_by_key(|turn| Reverse(turn.times.0));
        } else {
            later.sort_by_key(|turn| turn.times.1);
        }
        let chunks = Turns {
            left: later.len(),
            all: Some(later.into()),
        };
        (Some(Later { key, chunks }), others)
    }
}

impl Turns {
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    pub fn len(&self) -> usize {
        self.left
    }

    fn rest(&self) -> &[Turn] {
        self.all.as_ref().map_or(&[], |all| &all[..self.left])
    }

    /// Is none of them open?
    pub fn are_listed(&self) -> bool {
        let mut rest = self.rest().iter();
        rest.all(|turn| matches!(turn.chunk, Waiting::Listed(_)))
    }

    /// Takes the next chunk, unless all its rows come after `time` or with it.
    pub fn next_before(&mut self, time: Option<Time>, forward: bool) -> Option<Waiting> {
        // No row of a chunk without null times comes before this time.
        let turn = self.rest().last()?;
        let (least, greatest) = turn.times;
        let next = (false, if forward { least } else { greatest });
        let is_due = time.is_none_or(|time| if forward { next < time } else { next > time });
        let chunk = is_due.then(|| turn.chunk.clone());
        self.left -= usize::from(is_due);
        chunk
    }
}

/// The key of the one series that quals name.
///
/// # Safety
/// The arguments of the quals must live as long as the key.
pub unsafe fn series_of(view: View) -> Option<Rc<Key>> {
    // SAFETY: by contract.
    unsafe {
        let series = view.quals.series(view.desc.index)?;
        let attributes = view.descriptor.attributes();
        let columns = view.desc.columns.iter();
        let own = |(value, &column): (Datum, &usize)| {
            (image::as_stored(value, &attributes[column]), false)
        };
        Some(Key::borrowed(
            series.into_iter().zip(columns).map(own).collect(),
        ))
    }
}

/// May headers be listed that nobody has judged by the snapshot of a scan? Serializable transactions note what they read, and others that read
/// by no MVCC snapshot may see another header in the same place later.
///
/// # Safety
/// The snapshot must be valid.
pub unsafe fn may_be_listed(place: Place) -> bool {
    let (is_mvcc, is_serializable) = {
        let is_mvcc = place.snapshot.is_mvcc();
        (is_mvcc, transaction::is_serializable())
    };
    is_mvcc && !is_serializable
}
