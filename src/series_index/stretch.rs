//! Series that lie one behind the other, in a chunk as in the index: short ones of a keyed chunk that holds many. Their entries are passed by,
//! and their rows go out as those of one, in the order of the chunk.

use super::entries::{Entry, Stream};
use super::rows::View;
use crate::chunk::series_runs;
use crate::pg::image;
use crate::pg::tid::Tid;
use crate::pg::Datum;
use crate::table::visible::OpenChunk;
use std::ops::Range;
use std::rc::Rc;

/// Where a scan has come upon such series.
#[derive(Default)]
pub struct Stretch {
    /// The chunk that the latest series were in, each of them alone, and how many of them.
    header: Option<Tid>,
    met: usize,
    /// Where the series of the chunk begin, once it was asked.
    starts: Option<Rc<[u32]>>,
    /// Entries that may be passed by: few as long as few were, since nobody may want more.
    most: usize,
}

/// Series that are met in a chunk before it is asked where they begin; more where it has many rows, all of which have to be looked at for that.
const PATIENCE: usize = 4;
const ROWS_PER_MET: usize = 128;

/// Entries that are passed by at once.
const MOST_PASSED: usize = 512;

/// The series of a chunk.
struct Series<'a> {
    view: View<'a>,
    open: &'a OpenChunk,
    starts: &'a [u32],
}

impl Series<'_> {
    fn rows(&self, series: usize) -> Range<u32> {
        let end = self.starts.get(series + 1).copied();
        self.starts[series]..end.unwrap_or(self.open.reader.rows())
    }

    /// The series that lies behind another one in the direction of the scan.
    fn behind(&self, series: usize, forward: bool) -> Option<usize> {
        let next = match forward {
            true => series.checked_add(1),
            false => series.checked_sub(1),
        };
        next.filter(|&next| next < self.starts.len())
    }

    /// Has it this key? A null is no key's: what is passed by has none.
    fn has_key(&self, series: usize, key: impl Iterator<Item = (Datum, bool)>) -> bool {
        let (view, row) = (self.view, self.starts[series]);
        let attributes = view.descriptor.attributes();
        let mut columns = view.desc.columns[..view.desc.key_columns()].iter().zip(key);
        columns.all(|(&column, (wanted, is_null))| {
            if is_null {
                return false;
            }
            // SAFETY: the chunk is of the view's table, the key of its index.
            unsafe {
                let (value, isnull) = self.open.reader.value(view.descriptor, row, column);
                !isnull && image::same_image(value, wanted, &attributes[column])
            }
        })
    }
}

/// The series that was passed last, and the one before it.
struct Passed<'a> {
    series: &'a Series<'a>,
    forward: bool,
    last: usize,
    before: usize,
}

impl Passed<'_> {
    /// Goes on to the next series, if it has this key.
    fn step(&mut self, key: impl Iterator<Item = (Datum, bool)>) -> bool {
        let next = self.series.behind(self.last, self.forward);
        let next = next.filter(|&next| self.series.has_key(next, key));
        let Some(next) = next else { return false };
        (self.before, self.last) = (self.last, next);
        true
    }
}

impl Stretch {
    /// `rows` of the chunk at `header` are those of a series that nothing else has rows of, and nothing is asked of times. Finds the series
    /// behind it, as long as these have the next entries, and no others; the rows of the last of them. Nothing but the index may have series.
    ///
    /// # Safety
    /// `view` must be of the chunk's table, and `stream` of its index.
    pub unsafe fn last_rows(
        &mut self,
        stream: &mut Stream,
        (header, open): (Tid, &OpenChunk),
        view: View,
        rows: Range<u32>,
    ) -> Range<u32> {
        if self.header != Some(header) {
            *self = Stretch {
                header: Some(header),
                most: 1,
                ..Stretch::default()
            };
        }
        self.met += 1;
        let patience = PATIENCE + open.reader.rows() as usize / ROWS_PER_MET;
        if self.starts.is_none() && self.met < patience {
            return rows;
        }
        let starts = self.starts.get_or_insert_with(|| {
            let columns = &view.desc.columns[..view.desc.key_columns()];
            // SAFETY: by contract.
            let starts = unsafe { series_runs::starts_of(&open.reader, view.descriptor, columns) };
            starts.unwrap_or_else(|damage| open.reader.chunk.raise(&damage))
        });
        let series = Series { view, open, starts };
        let Ok(first) = starts.binary_search(&rows.start) else {
            return rows;
        };
        if series.rows(first) != rows {
            return rows;
        }
        let last = pass(stream, header, &series, first, self.most);
        self.most = (2 * self.most).min(MOST_PASSED);
        series.rows(last)
    }
}

/// Passes by the entries of the series behind `first`, at most so many and one; the last series of which there is no other entry.
fn pass(stream: &mut Stream, header: Tid, series: &Series, first: usize, most: usize) -> usize {
    let (desc, quals) = (series.view.desc, series.view.quals);
    let mut passed = Passed {
        series,
        forward: stream.forward,
        last: first,
        before: first,
    };
    // The first series is alone: the next entry, which has been read, is of another.
    let is_next = stream.peek(desc, quals).is_some_and(|next| {
        let is_of_chunk = next.is_header && next.tid == header;
        is_of_chunk && passed.step(next.key.values.iter().copied())
    });
    let Some(entry) = is_next.then(|| stream.take()).flatten() else {
        return first;
    };
    let step = |values: &[Datum], nulls: &[bool]| {
        passed.step(values.iter().copied().zip(nulls.iter().copied()))
    };
    let later = stream.pass((desc, quals), header, most, step);
    let time = later.unwrap_or(entry.time);
    let Some(next) = stream.peek(desc, quals) else {
        return passed.last;
    };
    if !series.has_key(passed.last, next.key.values.iter().copied()) {
        return passed.last;
    }
    // The last one has another entry, so it has to be merged.
    let key = Rc::clone(&next.key);
    stream.unread(Entry {
        key,
        time,
        tid: header,
        is_header: true,
    });
    passed.before
}
