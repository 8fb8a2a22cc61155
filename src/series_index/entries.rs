//! Entries of a series index in order, with their series: a stream over all sub-scans of a scan.

use super::quals::Quals;
use crate::chunk::index_entries;
use crate::pg::error;
use crate::pg::image;
use crate::pg::nbtree::{self, EntryScan};
use crate::pg::relation::Index;
use crate::pg::scan_key::ScanKey;
use crate::pg::tid::Tid;
use crate::pg::Datum;
use smallvec::{smallvec, SmallVec};
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::rc::Rc;

/// (is null, time): nulls come last.
pub type Time = (bool, i64);

/// What a scan knows about its index.
pub struct IndexDesc<'a> {
    pub index: Index<'a>,
    /// Table columns of the index, from 0; the last one is time.
    pub columns: SmallVec<[usize; 4]>,
    pub time_length: i16,
}

impl<'a> IndexDesc<'a> {
    /// # Safety
    /// `index` must be an open series index, and stay open.
    pub unsafe fn new(index: Index<'_>) -> IndexDesc<'_> {
        let columns = index_entries::key_columns(index);
        IndexDesc {
            index,
            time_length: index.attributes()[columns.len() - 1].attlen,
            columns,
        }
    }

    pub fn key_columns(&self) -> usize {
        self.columns.len() - 1
    }

    /// Table column of time.
    pub fn time_column(&self) -> usize {
        self.columns[self.key_columns()]
    }

    /// Are all keys compared as integers?
    pub fn is_of_integers(&self) -> bool {
        (0..self.key_columns()).all(|at| self.index.orders_integers(at))
    }

    pub fn time_of(&self, value: Datum, isnull: bool) -> Time {
        if isnull {
            return (true, 0);
        }
        (false, index_entries::time_value(value, self.time_length))
    }

    /// The least value of the time column.
    pub fn least_time(&self) -> Datum {
        let bits = 8 * u32::from(self.time_length.unsigned_abs());
        index_entries::time_datum(i64::MIN >> (i64::BITS - bits), self.time_length)
    }

    pub fn time_datum(&self, time: Time) -> (Datum, bool) {
        (index_entries::time_datum(time.1, self.time_length), time.0)
    }

    /// Order of two series in the index.
    pub fn compare(&self, a: &Key, b: &Key) -> Ordering {
        self.compare_values(&a.values, &b.values)
    }

    /// The same of what keys consist of.
    pub fn compare_values(&self, a: &KeyValues, b: &KeyValues) -> Ordering {
        for (at, (a, b)) in a.iter().zip(b).enumerate() {
            let order = match (a.1, b.1) {
                (true, true) => Ordering::Equal,
                (a_null, b_null) if a_null != b_null => a_null.cmp(&b_null),
                // SAFETY: values are of the index's columns.
                _ => unsafe { self.index.compare(at, a.0, b.0) }.cmp(&0),
            };
            if order != Ordering::Equal {
                return order;
            }
        }
        Ordering::Equal
    }
}

/// Values and nulls of the key columns: few, as a rule.
pub type KeyValues = SmallVec<[(Datum, bool); 2]>;

/// The key of a series.
pub struct Key {
    pub values: KeyValues,
    /// The index tuple that by-reference values point into, where there are any that are not a reader's.
    tuple: Vec<u64>,
}

impl Key {
    fn empty() -> Rc<Key> {
        Key::borrowed(KeyValues::new())
    }

    /// Values that live elsewhere, long enough.
    pub fn borrowed(values: KeyValues) -> Rc<Key> {
        Rc::new(Key {
            values,
            tuple: Vec::new(),
        })
    }
}

/// An entry of a tail row, or of a series in a chunk; a chunk may have several of a series.
#[derive(Clone)]
pub struct Entry {
    pub key: Rc<Key>,
    pub time: Time,
    /// Of the row or of the header.
    pub tid: Tid,
    pub is_header: bool,
}

/// The last entries of one series, in the order of the index. Their TIDs are as they are stored.
#[derive(Clone)]
pub struct SeriesEntries {
    pub key: Rc<Key>,
    pub last: Rc<[(Time, Tid)]>,
    /// There are no others.
    pub is_whole: bool,
}

impl SeriesEntries {
    /// Do all of them come behind another one of the series, in the order of the index?
    fn come_behind(&self, other: (Time, Tid)) -> bool {
        self.last.first().is_none_or(|first| other < *first)
    }

    fn entry(&self, at: usize) -> Entry {
        let (time, tid) = self.last[at];
        let header = index_entries::header_of_entry(tid);
        Entry {
            key: Rc::clone(&self.key),
            time,
            tid: header.unwrap_or(tid),
            is_header: header.is_some(),
        }
    }
}

/// An entry as nbtree returns it, and the header that it names.
struct Raw {
    entry: nbtree::Entry,
    header: Option<Tid>,
}

/// Is the entry of a chunk, with these nulls, that of a series?
pub fn is_keyed(nulls: &[bool]) -> bool {
    !nulls.contains(&true)
}

/// Entries of all sub-scans in one direction. Entries of one series share their `Key`.
pub struct Stream {
    entries: EntryScan,
    pub forward: bool,
    /// Sub-scans that are still to come.
    sub_scans: core::ops::Range<usize>,
    running: bool,
    key: Option<Rc<Key>>,
    /// The key before, whose memory the next one takes if nobody has it any more.
    before: Option<Rc<Key>>,
    /// Entries that were read ahead.
    ahead: VecDeque<Entry>,
    /// The last entries of the only series, where they are known: a scan that goes backward reads none before these have been shown. Those that have not been.
    known: Option<SeriesEntries>,
    unshown: core::ops::Range<usize>,
    /// Those that have all been shown: the scan goes on before them in the index, in their series.
    behind: Option<SeriesEntries>,
    values: SmallVec<[Datum; 4]>,
    nulls: SmallVec<[bool; 4]>,
}

impl Stream {
    pub fn new(entries: EntryScan, desc: &IndexDesc) -> Stream {
        Stream {
            entries,
            forward: true,
            sub_scans: 0..0,
            running: false,
            key: None,
            before: None,
            ahead: VecDeque::new(),
            known: None,
            unshown: 0..0,
            behind: None,
            values: smallvec![Datum::from(0usize); desc.columns.len()],
            nulls: smallvec![true; desc.columns.len()],
        }
    }

    /// The scan underneath, between two uses of the stream.
    pub fn entries(&mut self) -> &mut EntryScan {
        &mut self.entries
    }

    pub fn end(self) {
        self.entries.end();
    }

    /// Starts over. `known` are the last entries that the quals select, for a scan that goes backward.
    pub fn start(&mut self, forward: bool, sub_scans: usize, known: Option<SeriesEntries>) {
        self.forward = forward;
        self.behind = None;
        self.unshown = 0..known.as_ref().map_or(0, |known| known.last.len());
        self.sub_scans = match known {
            Some(_) => 0..0,
            None => 0..sub_scans,
        };
        self.known = known;
        self.running = false;
        self.key = None;
        self.ahead.clear();
    }

    /// Are its next entries those that are known?
    pub fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// Turns to the next sub-scan, if there is one, and returns its number.
    pub fn next_sub_scan(&mut self) -> Option<usize> {
        self.key = None;
        if self.forward {
            self.sub_scans.next()
        } else {
            self.sub_scans.next_back()
        }
    }

    /// Reads the entries that `keys` select from now on.
    ///
    /// # Safety
    /// The keys' arguments must live until the scan starts over.
    pub unsafe fn run(&mut self, keys: &[ScanKey]) {
        // SAFETY: by contract.
        unsafe { self.entries.restart(keys) };
        self.running = true;
    }

    /// Gives up the rest of the sub-scan, and the page it is on.
    ///
    /// # Safety
    /// The scan's index must be open.
    pub unsafe fn stop(&mut self) {
        if self.running {
            // SAFETY: by contract.
            unsafe { self.entries.restart(&[]) };
            self.running = false;
        }
        self.known = None;
        self.ahead.clear();
    }

    /// Puts an entry in front.
    pub fn unread(&mut self, entry: Entry) {
        self.ahead.push_front(entry);
    }

    /// The next entry of the sub-scan, without taking it.
    pub fn peek(&mut self, desc: &IndexDesc, quals: &Quals) -> Option<&Entry> {
        if self.ahead.is_empty() {
            let entry = self.read(desc, quals)?;
            self.ahead.push_back(entry);
        }
        self.ahead.front()
    }

    pub fn take(&mut self) -> Option<Entry> {
        self.ahead.pop_front()
    }

    /// Reads on, in the direction of the stream or `forward` for its own purposes.
    fn read(&mut self, desc: &IndexDesc, quals: &Quals) -> Option<Entry> {
        let forward = self.forward;
        if let Some(known) = &self.known {
            if let Some(at) = self.unshown.next_back() {
                return Some(known.entry(at));
            }
            if known.is_whole {
                return None;
            }
            self.behind = self.known.take();
            // SAFETY: the keys' arguments live as long as the scan.
            unsafe { self.run(&quals.keys_of(0)) };
        }
        self.read_towards(forward, desc, quals)
    }

    /// Reads the next entry in a given direction of the sub-scan that runs.
    pub fn read_towards(
        &mut self,
        forward: bool,
        desc: &IndexDesc,
        quals: &Quals,
    ) -> Option<Entry> {
        while let Some(raw) = self.read_raw(forward, desc) {
            // SAFETY: it was read last.
            let entry = unsafe { self.entry_of(raw, desc, quals) };
            if entry.is_some() {
                return entry;
            }
        }
        None
    }

    /// Reads entries of the chunk at `header` as long as `is_next` says of their values, and which of them are null, that they come next in it:
    /// at most so many. The time of the last one. An entry that is another stays ahead. Nothing may be ahead before.
    pub fn pass(
        &mut self,
        (desc, quals): (&IndexDesc, &Quals),
        header: Tid,
        most: usize,
        mut is_next: impl FnMut(&[Datum], &[bool]) -> bool,
    ) -> Option<Time> {
        assert!(self.ahead.is_empty(), "BUG: entries were read ahead");
        let (mut passed, mut last) = (0, None);
        while passed < most {
            let Some(raw) = self.read_raw(self.forward, desc) else {
                break;
            };
            let is_of_chunk = raw.header == Some(header);
            // SAFETY: values are of the index's columns.
            let wanted =
                unsafe { quals.keys_hold(|column| (self.values[column], self.nulls[column])) };
            if is_of_chunk && wanted && is_next(&self.values, &self.nulls) {
                let time = desc.key_columns();
                last = Some(desc.time_of(self.values[time], self.nulls[time]));
                passed += 1;
                continue;
            }
            // SAFETY: it was read last.
            if let Some(entry) = unsafe { self.entry_of(raw, desc, quals) } {
                self.ahead.push_back(entry);
                break;
            }
        }
        last
    }

    /// Reads the next entry that is not of the section, which is read by itself, and takes its values out.
    #[inline]
    fn read_raw(&mut self, forward: bool, desc: &IndexDesc) -> Option<Raw> {
        while self.running {
            error::check_interrupts();
            let Some(entry) = self.entries.next(forward) else {
                self.running = false;
                break;
            };
            let header = index_entries::header_of_entry(entry.tid);
            let descriptor = desc.index.descriptor();
            // SAFETY: the entry is of this index and stays until the next read.
            unsafe { entry.deform(descriptor, &mut self.values, &mut self.nulls) };
            if let Some(shown) = &self.behind {
                let time = desc.key_columns();
                let time = desc.time_of(self.values[time], self.nulls[time]);
                if !shown.come_behind((time, entry.tid)) {
                    continue;
                }
            }
            if header.is_none() || is_keyed(&self.nulls) {
                return Some(Raw { entry, header });
            }
        }
        None
    }

    /// What was read last, if it is wanted.
    ///
    /// # Safety
    /// It must be what was read last.
    unsafe fn entry_of(&mut self, raw: Raw, desc: &IndexDesc, quals: &Quals) -> Option<Entry> {
        // SAFETY: by contract; values are of the index's columns.
        unsafe {
            let key = self.key_of(desc, raw.entry);
            let last = desc.key_columns();
            let wanted = quals.keys_hold(|column| key.values[column]);
            wanted.then(|| Entry {
                time: desc.time_of(self.values[last], self.nulls[last]),
                key,
                tid: raw.header.unwrap_or(raw.entry.tid),
                is_header: raw.header.is_some(),
            })
        }
    }

    /// The key of the entry that was just deformed: the one before, if it is the same.
    ///
    /// # Safety
    /// `entry` must be what was read last, of the index of `desc`, its values in `values` and `nulls`.
    unsafe fn key_of(&mut self, desc: &IndexDesc, entry: nbtree::Entry) -> Rc<Key> {
        if let Some(shown) = &self.behind {
            return Rc::clone(&shown.key);
        }
        // SAFETY: the caller's contract.
        unsafe {
            let descriptor = desc.index.descriptor();
            let attributes = descriptor.attributes();
            let same = |key: &Rc<Key>| {
                key.values.iter().enumerate().all(|(at, &(value, isnull))| {
                    isnull == self.nulls[at]
                        && (isnull || image::same_image(value, self.values[at], &attributes[at]))
                })
            };
            if let Some(key) = self.key.as_ref().filter(|key| same(key)) {
                return Rc::clone(key);
            }
            let mut next = self.before.take().unwrap_or_else(Key::empty);
            if Rc::get_mut(&mut next).is_none() {
                next = Key::empty();
            }
            let key = Rc::get_mut(&mut next).expect("BUG: a key of its own");
            if !attributes.iter().all(|attribute| attribute.attbyval) {
                let copy = entry.copy_to(&mut key.tuple);
                copy.deform(descriptor, &mut self.values, &mut self.nulls);
            }
            let values = self.values.iter().copied().zip(self.nulls.iter().copied());
            key.values.clear();
            key.values.extend(values.take(desc.key_columns()));
            self.before = self.key.replace(Rc::clone(&next));
            next
        }
    }
}
