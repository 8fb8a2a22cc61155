//! The greatest time of all keyed chunks of an index: behind it there are tail rows only, in order. So who looks for the next chunk of a
//! series need not walk over its tail to the end. Each keyed chunk has an entry for that: NULL keys, and the chunk's greatest time
//! (`index_entries`).

use super::entries::{IndexDesc, Time};
use crate::chunk::index_entries;
use crate::pg::error;
use crate::pg::leaf_range::Range;
use crate::pg::leaf_walk::{self, Met};
use crate::pg::nbtree::EntryScan;
use crate::pg::scan_key::ScanKey;
use crate::pg::snapshot::Snapshot;
use crate::pg::Datum;

/// Tail rows of a series that are walked over before it is asked whether a chunk can follow: a page of entries or two. The answer takes three.
pub const PATIENCE: usize = 256;
/// Entries that are read for the answer: rows whose keys are null lie among the ends.
const MOST_ENTRIES: usize = 256;

/// What is known of the ends of an index's chunks.
#[derive(Clone, Copy, Default)]
pub enum Ends {
    #[default]
    Unasked,
    /// A chunk may follow whatever time.
    Unknown,
    /// None follows this time.
    Last(Option<i64>),
}

impl Ends {
    /// The greatest time of all keyed chunks, `i64::MIN` where there are none; None where it is not known.
    ///
    /// # Safety
    /// As `none_behind`.
    pub unsafe fn greatest(desc: &IndexDesc) -> Option<i64> {
        // SAFETY: by contract.
        match unsafe { ask(desc) } {
            Ends::Last(end) => Some(end.unwrap_or(i64::MIN)),
            _ => None,
        }
    }

    /// Is there no keyed chunk with times behind `time` that a snapshot sees which was taken before this is asked first? The answer
    /// may be no where it is yes.
    ///
    /// # Safety
    /// The index must be open. The chunks that matter were entered before.
    pub unsafe fn none_behind(&mut self, desc: &IndexDesc, time: Time) -> bool {
        if matches!(self, Ends::Unasked) {
            // SAFETY: by contract.
            *self = unsafe { ask(desc) };
        }
        match self {
            Ends::Last(Some(end)) => time > (false, *end),
            Ends::Last(None) => true,
            _ => false,
        }
    }
}

/// What keyed chunks there are of a series behind a time.
#[derive(Clone, Copy, PartialEq)]
pub enum Following {
    Unknown,
    None,
    /// The first of them is entered at this time.
    From(i64),
}

/// Which keyed chunks of a series follow a time, by walking along the leaf pages of its tail: where a chunk of another series ends later, nothing
/// shorter tells. `snapshot` is that of the reading which the answer is for, or null.
///
/// # Safety
/// The index must be open, `key` of its column types. The chunks that matter were entered before.
pub unsafe fn following(
    desc: &IndexDesc,
    snapshot: Snapshot<'_>,
    key: &[Option<Datum>],
    time: Time,
) -> Following {
    let range = Range {
        first: key,
        span: Some((desc.time_datum(time).0, None)),
        with_nulls: false,
    };
    // No chunk is entered behind nulls.
    if time.0 {
        return Following::None;
    }
    // SAFETY: by contract.
    let met = unsafe {
        leaf_walk::first_with(desc.index, snapshot, range, |tid| {
            index_entries::header_of_entry(tid).is_some()
        })
    };
    match met {
        None => Following::Unknown,
        Some(Met::Nothing) => Following::None,
        Some(Met::Entry(value)) => Following::From(desc.time_of(value, false).1),
    }
}

/// Reads the entries of the chunks' ends.
///
/// # Safety
/// As `none_behind`.
unsafe fn ask(desc: &IndexDesc) -> Ends {
    let keys = desc.key_columns();
    if keys == 0 {
        return Ends::Unknown;
    }
    let mut conditions: Vec<_> = (1..=keys).map(ScanKey::is_null).collect();
    conditions.push(ScanKey::is_not_null(keys + 1));
    let mut values = vec![Datum::from(0usize); keys + 1];
    let mut nulls = vec![true; keys + 1];
    let mut ends = Ends::Last(None);
    // SAFETY: the caller's contract. Nothing is fetched by the entries, so any snapshot will do.
    unsafe {
        let any = Snapshot::any();
        let mut entries = EntryScan::begin(desc.index, any, conditions.len());
        entries.restart(&conditions);
        let mut read = 0;
        while let Some(entry) = entries.next(false) {
            error::check_interrupts();
            if index_entries::header_of_entry(entry.tid).is_some() {
                entry.deform(desc.index.descriptor(), &mut values, &mut nulls);
                ends = Ends::Last(Some(desc.time_of(values[keys], nulls[keys]).1));
                break;
            }
            read += 1;
            if read == MOST_ENTRIES {
                ends = Ends::Unknown;
                break;
            }
        }
        entries.end();
    }
    ends
}
