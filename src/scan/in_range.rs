//! Chunks and rows of the tail that a range of keys and times may have, by the entries of a series index: what is exact about it is that of `headers`.

use super::headers;
use crate::chunk::index_entries;
use crate::pg::error;
use crate::pg::leaf_probe;
use crate::pg::leaf_range::Range;
use crate::pg::leaves;
use crate::pg::nbtree::EntryScan;
use crate::pg::relation::{Index, Table};
use crate::pg::scan_key::ScanKey;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::Datum;
use crate::series_index::entries::{is_keyed, IndexDesc};
use crate::series_index::quals::{self, Quals};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use std::ops::RangeInclusive;

/// A place that `in_range` has found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Place {
    Header(Tid),
    /// Of a row of the tail, or of the first version of its HOT chain.
    Row(Tid),
}

/// Shows the places in `index`, a series index of `table`, that may have rows which satisfy `quals` (`Quals::new` makes them of an
/// index scan's keys) to `visit`: each header once, each row of the tail once for each of its versions that are entered. First come
/// headers that are not keyed (`series`), in no order: their rows may be of any key and time that their first key allows. Then, in the
/// order of the index, headers and rows, a header where its first series stands that is asked for. Where nothing is asked of keys, all come in
/// the order of the index. `visit` may only touch memory, and raise nothing.
///
/// It reads index pages only: entries that the quals select. Serializable transactions count the table as read, so no page needs to be noted. Upper bounds of time do not stop it, since chunks are
/// entered by their end: `times` of the header tells whether the chunk begins too late. It is up to the caller to look at each place
/// under the snapshot (`chunk_cache::reader_at`, `visit_headers`; a row by `table_index_fetch_tuple`), to leave out tombstones, and to
/// ask the quals about single rows. Where the table's series index cannot be used under a snapshot (`usable_index`), neither can this.
///
/// # Safety
/// As `places`; `index` must be open, and the quals' arguments alive.
pub unsafe fn in_range(
    table: Table<'_>,
    index: Index<'_>,
    snapshot: Snapshot<'_>,
    quals: &Quals,
    visit: impl FnMut(Place),
) {
    if quals.impossible {
        return;
    }
    // SAFETY: by contract.
    unsafe {
        headers::begin_reading(table, snapshot);
        let desc = IndexDesc::new(index);
        let columns = desc.columns.len();
        if quals.keys.is_empty() && (columns > 1 || quals.lowers.is_empty()) {
            return in_range_of_times(&desc, snapshot, quals, visit);
        }
        let mut reading = Reading {
            scan: None,
            room: quals.most_keys() + columns,
            desc: &desc,
            snapshot,
            seen: FxHashSet::default(),
            visit,
        };
        let nulls = |from: usize| (from..=columns).map(ScanKey::is_null);
        reading.section(Some(None), &nulls(1).collect::<Vec<_>>());
        if desc.key_columns() > 0 {
            for mut keys in quals.first_keys() {
                // What an equality names comes last.
                let named = keys.last().and_then(|key| quals::own_value(index, key));
                keys.extend(nulls(2));
                reading.section(named.map(Some), &keys);
            }
        }
        for sub_scan in 0..quals.sub_scans() {
            reading.sub_scan(quals, sub_scan);
        }
        if let Some(scan) = reading.scan {
            scan.end();
        }
    }
}

/// The same of first keys that are integers within `span`, whatever their time, where the index's pages tell soon; all places at once, in no order.
///
/// # Safety
/// As `in_range`; the first of several columns must be an integer, and `span` of its type.
pub unsafe fn of_first_keys(
    table: Table<'_>,
    index: Index<'_>,
    snapshot: Snapshot<'_>,
    span: RangeInclusive<i64>,
) -> Option<Vec<Place>> {
    headers::begin_reading(table, snapshot);
    let length = index.attributes()[0].attlen;
    let first = |value| index_entries::time_datum(value, length);
    let (least, greatest) = span.into_inner();
    // Chunks that are entered by the cell of the least key stand before that.
    let cell = index_entries::cell_length(index).map(|_| index_entries::cell_of(least));
    let cell = cell.filter(|&cell| cell < least);
    let mut seen = FxHashSet::default();
    let mut places = Vec::new();
    // SAFETY: by contract; values of the first column.
    unsafe {
        let mut others = leaf_probe::all_without_time(index, snapshot, None)?.tids;
        if let Some(cell) = cell {
            others.extend(leaf_probe::all_without_time(index, snapshot, Some(first(cell)))?.tids);
        }
        // Rows are within the span, or not wanted.
        others.retain(|&mut entry| index_entries::header_of_entry(entry).is_some());
        let within = leaf_probe::all_between(index, snapshot, first(least), first(greatest))?.tids;
        let most = others.len() + within.len();
        places.reserve(most);
        seen.reserve(most);
        for entry in others.into_iter().chain(within) {
            match index_entries::header_of_entry(entry) {
                Some(header) if !seen.insert(header) => {}
                Some(header) => places.push(Place::Header(header)),
                None => places.push(Place::Row(entry)),
            }
        }
    }
    Some(places)
}

/// A reading of the entries that quals on keys select.
struct Reading<'a, V> {
    /// What pages do not tell at once is scanned.
    scan: Option<EntryScan>,
    /// The most scan keys.
    room: usize,
    desc: &'a IndexDesc<'a>,
    snapshot: Snapshot<'a>,
    seen: FxHashSet<Tid>,
    visit: V,
}

impl<V: FnMut(Place)> Reading<'_, V> {
    fn meet(&mut self, header: Tid) {
        if self.seen.insert(header) {
            (self.visit)(Place::Header(header));
        }
    }

    /// Headers whose first key is `first`, or NULL, if that can be told, and whose other columns are NULL; `keys` ask for the same.
    ///
    /// # Safety
    /// As `in_range`; `first` of the type of the index's first column.
    unsafe fn section(&mut self, first: Option<Option<Datum>>, keys: &[ScanKey]) {
        let all_of = |first| {
            // SAFETY: by contract.
            unsafe { leaf_probe::all_without_time(self.desc.index, self.snapshot, first) }
        };
        if let Some(told) = first.and_then(all_of) {
            let headers = told.tids.into_iter();
            let headers = headers.filter_map(index_entries::header_of_entry);
            return headers.for_each(|header| self.meet(header));
        }
        // SAFETY: by contract.
        let mut entries = unsafe { self.scan(keys) };
        while let Some(entry) = entries.next(true) {
            error::check_interrupts();
            if let Some(header) = index_entries::header_of_entry(entry.tid) {
                self.meet(header);
            }
        }
        self.scan = Some(entries);
    }

    /// A scan by these keys, which has to be given back.
    ///
    /// # Safety
    /// The index must be open, the keys' arguments alive.
    unsafe fn scan(&mut self, keys: &[ScanKey]) -> EntryScan {
        // SAFETY: by contract; the snapshot is valid.
        unsafe {
            let mut scan = match self.scan.take() {
                Some(scan) => scan,
                None => EntryScan::begin(self.desc.index, self.snapshot, self.room),
            };
            scan.restart(keys);
            scan
        }
    }

    /// Keyed headers and rows.
    ///
    /// # Safety
    /// As `in_range`, of its quals.
    unsafe fn sub_scan(&mut self, quals: &Quals, sub_scan: usize) {
        // SAFETY: by contract.
        unsafe {
            if let Some(tids) = self.told(quals, sub_scan) {
                for entry in tids {
                    match index_entries::header_of_entry(entry) {
                        Some(header) => self.meet(header),
                        None => (self.visit)(Place::Row(entry)),
                    }
                }
                return;
            }
            let (columns, time) = (self.desc.columns.len(), self.desc.key_columns());
            let mut values = vec![Datum::from(0usize); columns];
            let mut nulls = vec![true; columns];
            let mut last = None;
            let mut entries = self.scan(&quals.keys_of(sub_scan));
            while let Some(entry) = entries.next(true) {
                error::check_interrupts();
                // A long series has many entries of a chunk side by side.
                let header = index_entries::header_of_entry(entry.tid);
                if header.is_some() && header == last {
                    continue;
                }
                entry.deform(self.desc.index.descriptor(), &mut values, &mut nulls);
                if !quals.keys_hold(|column| (values[column], nulls[column])) {
                    continue;
                }
                match header {
                    Some(at) if is_keyed(&nulls) => {
                        last = header;
                        self.meet(at);
                    }
                    None if quals.time_holds(values[time], nulls[time]) => {
                        (self.visit)(Place::Row(entry.tid));
                    }
                    _ => {}
                }
            }
            self.scan = Some(entries);
        }
    }

    /// The entries of the only series that a sub-scan asks for, where a page tells, from the least time on that is asked for. Upper bounds are not asked.
    ///
    /// # Safety
    /// As `sub_scan`.
    unsafe fn told(&self, quals: &Quals, sub_scan: usize) -> Option<SmallVec<[Tid; 8]>> {
        let (desc, index) = (self.desc, self.desc.index);
        // SAFETY: by contract.
        unsafe {
            let series = quals.series_of(index, sub_scan)?;
            if !quals.keys_hold(|column| (series[column], false)) {
                return Some(SmallVec::new());
            }
            let first: SmallVec<[_; 4]> = series.into_iter().map(Some).collect();
            let least = quals.least_time(index, desc.time_length);
            let range = Range {
                first: &first,
                span: least.map(|least| (desc.time_datum((false, least)).0, None)),
                with_nulls: false,
            };
            leaf_probe::all(index, self.snapshot, range).map(|told| told.tids)
        }
    }
}

/// `in_range` where no key is asked for: all entries are read, page by page.
///
/// # Safety
/// As `in_range`; `desc` must be of its index.
unsafe fn in_range_of_times(
    desc: &IndexDesc,
    snapshot: Snapshot<'_>,
    quals: &Quals,
    mut visit: impl FnMut(Place),
) {
    let (columns, time) = (desc.columns.len(), desc.key_columns());
    let mut values = vec![Datum::from(0usize); columns];
    let mut nulls = vec![true; columns];
    let (mut seen, mut last) = (FxHashSet::default(), None);
    // SAFETY: the caller's contract; values are of the index's columns.
    unsafe {
        let least = quals.least_time(desc.index, desc.time_length);
        let asks = quals.asks_for_times();
        let is_whole = leaves::each_item(desc.index, snapshot, |item| {
            let mut is_read = false;
            for entry in item.tids() {
                let header = index_entries::header_of_entry(entry);
                if header.is_some() && header == last {
                    continue;
                }
                if asks && !is_read {
                    item.values(desc.index, &mut values, &mut nulls);
                    is_read = true;
                }
                let Some(at) = header else {
                    if !asks || quals.time_holds(values[time], nulls[time]) {
                        visit(Place::Row(entry));
                    }
                    continue;
                };
                // A chunk is entered by its end, and one without a time may have rows of any.
                let is_before = least.is_some_and(|least| {
                    !nulls[time] && desc.time_of(values[time], false).1 < least
                });
                if !is_before {
                    last = header;
                    if seen.insert(at) {
                        visit(Place::Header(at));
                    }
                }
            }
        });
        headers::check_whole(desc.index, is_whole);
    }
}
