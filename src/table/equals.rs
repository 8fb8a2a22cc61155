//! Finding rows by their values in a set of chunks: how rows that one transaction moved are found. A chunk is
//! looked at only if its times, the key of its series and the bounds of its columns allow the row; in it, the
//! row's fingerprint leads to the rows that are compared in full.

use super::prints::{self, Order, Values};
use crate::chunk::chunk_cache;
use crate::chunk::read::Chunk;
use crate::chunk::read::Damage;
use crate::chunk::reader::Reader;
use crate::chunk::written_headers::Written;
use crate::pg::descriptor::Descriptor;
use crate::pg::image;
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::tuple::Formed;
use crate::pg::{Datum, FormData_pg_attribute, Oid, TransactionId};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use varve_columns::chunk::{prefix_excludes, ColumnHeader, Layout};
use varve_columns::column::Kind;
use varve_columns::summary::Bound;

/// Values of a heap tuple.
///
/// # Safety
/// `found` must be a tuple of this descriptor.
pub unsafe fn deform(found: &Formed, descriptor: Descriptor<'_>) -> Values {
    // SAFETY: the caller's contract.
    let (values, nulls) = unsafe { found.columns(descriptor) };
    values.into_iter().zip(nulls).collect()
}

/// Are two rows the same bytes? What a tail row still has of a dropped column does not count: its chunk has not.
///
/// # Safety
/// Both must be rows of this descriptor.
pub unsafe fn equal(descriptor: Descriptor<'_>, a: &Values, b: &Values) -> bool {
    // SAFETY: both are rows of this descriptor.
    unsafe {
        let attributes = descriptor.attributes();
        a.iter().zip(b).zip(attributes).all(|((a, b), attribute)| {
            attribute.attisdropped || a.1 == b.1 && (a.1 || image::same_image(a.0, b.0, attribute))
        })
    }
}

/// A header version, and the number of its chunk's time column.
struct Member {
    header: Written,
    time: Option<u16>,
}

/// Which rows of header versions count.
#[derive(Clone, Copy, PartialEq)]
pub enum Rows {
    /// All that were there when it was written.
    Written,
    /// Those that were there when it was deleted.
    Left,
}

/// Header versions that one transaction wrote, or deleted.
pub struct ChunkSet {
    file: Oid,
    by: TransactionId,
    rows: Rows,
    members: Vec<Member>,
    /// Attribute numbers of the series key, as most chunks have it.
    keys: Vec<u16>,
    /// Members of one series each, by a fingerprint of its key.
    of_series: FxHashMap<u64, Vec<usize>>,
    /// All others.
    mixed: Vec<usize>,
}

impl ChunkSet {
    /// # Safety
    /// `table` must be open; `headers`, in the order of their places, must have been written or deleted by `by`,
    /// and stay while this transaction asks for them.
    pub unsafe fn new(
        table: Table<'_>,
        by: TransactionId,
        headers: &[Written],
        rows: Rows,
    ) -> ChunkSet {
        let mut set = ChunkSet {
            file: table.file_number(),
            by,
            rows,
            members: Vec::with_capacity(headers.len()),
            keys: Vec::new(),
            of_series: FxHashMap::default(),
            mixed: Vec::new(),
        };
        for header in headers {
            // SAFETY: by contract.
            unsafe { set.add(table, *header) };
        }
        set
    }

    /// The reader of a header with the rows that count, if its tuple is still there.
    ///
    /// # Safety
    /// `table` must be the set's and open.
    unsafe fn open(&self, table: Table<'_>, header: Tid) -> Option<Result<Rc<Reader>, Damage>> {
        // SAFETY: the callers' contract.
        unsafe {
            match self.rows {
                Rows::Written => chunk_cache::try_reader_as_written(table, header),
                Rows::Left => {
                    let any = Snapshot::any();
                    chunk_cache::try_reader_at(table, header, any)
                }
            }
        }
    }

    /// The reader of a header, if its tuple is still there.
    ///
    /// # Safety
    /// As `open`.
    unsafe fn reader(&self, table: Table<'_>, header: &Written) -> Option<Rc<Reader>> {
        // SAFETY: the callers' contract.
        unsafe {
            self.open(table, header.tid)?
                .map_err(|damage| damage.raise(&table.name(), header.chunk, header.tid))
                .ok()
        }
    }

    /// Adds a header version to the set.
    ///
    /// # Safety
    /// As `new`, of one of the headers.
    unsafe fn add(&mut self, table: Table<'_>, header: Written) {
        let at = self.members.len();
        // SAFETY: the caller's contract.
        unsafe {
            // A damaged chunk raises its error when somebody must look into it.
            let reader = self.open(table, header.tid).and_then(Result::ok);
            let Some(reader) = reader else {
                self.mixed.push(at);
                return self.members.push(Member { header, time: None });
            };
            let statics = &reader.chunk.statics;
            if self.keys.is_empty() {
                self.keys.clone_from(&statics.keys);
            }
            let is_constant = |&number: &u16| {
                let head = reader.chunk.columns.columns().get(usize::from(number) - 1);
                head.is_none_or(|head| matches!(head.layout, Layout::AllNull | Layout::Constant(_)))
            };
            let of_series = !self.keys.is_empty()
                && statics.keys == self.keys
                && self.keys.iter().all(is_constant);
            if of_series {
                let descriptor = table.descriptor();
                let key = prints::of_attributes(descriptor, &self.keys, |at| {
                    reader.value(descriptor, 0, at)
                });
                self.of_series.entry(key).or_default().push(at);
            } else {
                self.mixed.push(at);
            }
            let time = statics.time;
            self.members.push(Member { header, time });
        }
    }

    /// The places of the rows that have these values and are not deleted, in order.
    ///
    /// # Safety
    /// `table` must be the set's and open; `values` a row of it.
    pub unsafe fn rows_equal(&self, table: Table<'_>, values: &Values) -> Vec<Tid> {
        let mut places = Vec::new();
        // SAFETY: by contract.
        unsafe {
            let descriptor = table.descriptor();
            let key = prints::of_attributes(descriptor, &self.keys, |at| values[at]);
            let print = prints::of_row(descriptor, values);
            let series = self.of_series.get(&key).into_iter().flatten();
            for &at in series.chain(&self.mixed) {
                self.search(table, &self.members[at], values, print, &mut places);
            }
        }
        places.sort_unstable();
        places
    }

    /// Adds the places of a member's rows that have these values.
    ///
    /// # Safety
    /// As `rows_equal`; `member` must be one of the set, `print` the fingerprint of `values`.
    unsafe fn search(
        &self,
        table: Table<'_>,
        member: &Member,
        values: &Values,
        print: u32,
        places: &mut Vec<Tid>,
    ) {
        let header = &member.header;
        // SAFETY: the caller's contract.
        unsafe {
            let descriptor = table.descriptor();
            let time = member
                .time
                .and_then(|number| time_of(descriptor, values, number));
            if time.is_some_and(|time| !(header.min_time..=header.max_time).contains(&time)) {
                return;
            }
            let mut reader: Option<Rc<Reader>> = None;
            let key = (self.file, self.by, header.tid);
            let order: Order = match prints::kept(key) {
                Some(order) => order,
                None => {
                    let Some(opened) = self.reader(table, header) else {
                        return;
                    };
                    if excludes(descriptor, &opened.chunk, values) {
                        return;
                    }
                    let order = prints::make(key, &opened.chunk);
                    reader = Some(opened);
                    order
                }
            };
            for row in prints::rows_with(&order, print) {
                if reader.is_none() {
                    reader = self.reader(table, header);
                }
                let Some(reader) = &reader else { return };
                let here = (0..values.len())
                    .map(|at| reader.value(descriptor, row, at))
                    .collect();
                if equal(descriptor, &here, values) {
                    places.push(Tid::of_row(header.tid, row));
                }
            }
        }
    }
}

/// The time of a row as headers state times, if it has one.
fn time_of(descriptor: Descriptor<'_>, values: &Values, number: u16) -> Option<i64> {
    let at = usize::from(number) - 1;
    let attribute = descriptor.attributes().get(at)?;
    let &(value, null) = values.get(at)?;
    (!null).then(|| as_integer(value, attribute)).flatten()
}

/// A datum that is passed by value as an integer.
fn as_integer(value: Datum, attribute: &FormData_pg_attribute) -> Option<i64> {
    match (attribute.attbyval, attribute.attlen) {
        (true, 8) => Some(value.value() as i64),
        (true, 4) => Some(i64::from(value.value() as i32)),
        (true, 2) => Some(i64::from(value.value() as i16)),
        _ => None,
    }
}

/// Do the bounds of some column say that a chunk has no such row?
///
/// # Safety
/// `values` must be a row of this descriptor, which is that of the chunk's table.
unsafe fn excludes(descriptor: Descriptor<'_>, chunk: &Chunk, values: &Values) -> bool {
    // SAFETY: the caller's contract.
    unsafe {
        let attributes = descriptor.attributes();
        let columns = chunk.columns.columns();
        columns
            .iter()
            .zip(values)
            .zip(attributes)
            .filter(|(_, attribute)| !attribute.attisdropped)
            .any(|((head, &(value, null)), attribute)| {
                if null {
                    head.nulls == 0
                } else {
                    head.nulls == head.rows || is_outside(head, value, attribute)
                }
            })
    }
}

/// Is a value outside the bounds of a column?
///
/// # Safety
/// `value` must be of the attribute's type, and not null.
unsafe fn is_outside(head: &ColumnHeader, value: Datum, attribute: &FormData_pg_attribute) -> bool {
    let (min, max) = (&head.summary.min, &head.summary.max);
    match (head.kind, min, max) {
        (Kind::I16 | Kind::I32 | Kind::I64, Bound::Int(min), Bound::Int(max)) => {
            as_integer(value, attribute).is_some_and(|value| !(min..=max).contains(&&value))
        }
        // SAFETY: a value of the attribute; byte strings are bounded by their bytes.
        (Kind::Bytes, ..) if attribute.attlen < 0 => unsafe {
            crate::pg::varlena::with_body(value, attribute.attlen, |body| {
                prefix_excludes(min, max, body)
            })
        },
        _ => false,
    }
}
