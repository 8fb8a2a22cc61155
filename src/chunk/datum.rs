//! Datums to columns and back. The physical kind of a column follows from its type's storage; chunks
//! remember the kind they were written with.

use crate::pg::descriptor::Descriptor;
use crate::pg::types;
use crate::pg::varlena::with_body;
use crate::pg::{Datum, FormData_pg_attribute};
use varve_columns::column::{Column, Kind, Values};
use varve_columns::summary::Bound;

/// Kind in which new values of `attribute` are stored.
pub fn kind_of(attribute: &FormData_pg_attribute) -> Kind {
    if attribute.attisdropped {
        return Kind::Absent;
    }
    let base = types::base(attribute.atttypid);
    match (attribute.attlen, attribute.attbyval) {
        (1, true) if base == types::BOOLOID => Kind::Bool,
        (1 | 2, true) => Kind::I16,
        (4, true) if base == types::FLOAT4OID => Kind::F32,
        (4, true) => Kind::I32,
        (8, true) if base == types::FLOAT8OID => Kind::F64,
        (8, true) => Kind::I64,
        (len @ 1.., _) => Kind::Fixed(len as u16),
        (-1, _) if base == types::NUMERICOID => Kind::Numeric,
        _ => Kind::Bytes,
    }
}

/// An empty column of `kind`.
pub fn empty(kind: Kind) -> Column {
    Column {
        kind,
        values: Values::empty(kind),
        validity: None,
    }
}

/// Appends one value to `column` and returns the bytes that it takes in memory.
///
/// # Safety
/// `datum` must be a datum of the type that `column.kind` was derived from, with length `typlen`.
#[inline]
pub unsafe fn push(column: &mut Column, datum: Datum, isnull: bool, typlen: i16) -> usize {
    if isnull || column.validity.is_some() {
        let rows = rows_of(&column.values);
        let validity = column.validity.get_or_insert_with(|| vec![true; rows]);
        if column.kind != Kind::Absent {
            validity.push(!isnull);
        } else {
            column.validity = None;
        }
    }
    // SAFETY: by contract, and defaults stand in for nulls.
    unsafe {
        match &mut column.values {
            Values::Absent(rows) => {
                *rows += 1;
                0
            }
            Values::Bool(v) => {
                v.push(!isnull && datum.value() as u8 != 0);
                1
            }
            Values::I16(v) => {
                v.push(match (isnull, typlen) {
                    (true, _) => 0,
                    (_, 1) => i16::from(datum.value() as i8),
                    _ => datum.value() as i16,
                });
                2
            }
            Values::I32(v) => {
                v.push(if isnull { 0 } else { datum.value() as i32 });
                4
            }
            Values::I64(v) => {
                v.push(if isnull { 0 } else { datum.value() as i64 });
                8
            }
            Values::F32(v) => {
                v.push(if isnull {
                    0.0
                } else {
                    f32::from_bits(datum.value() as u32)
                });
                4
            }
            Values::F64(v) => {
                v.push(if isnull {
                    0.0
                } else {
                    f64::from_bits(datum.value() as u64)
                });
                8
            }
            Values::Fixed { width, data } => {
                let width = usize::from(*width);
                if isnull {
                    data.resize(data.len() + width, 0);
                } else {
                    let start: *const u8 = datum.cast_mut_ptr();
                    data.extend_from_slice(core::slice::from_raw_parts(start, width));
                }
                width
            }
            Values::Bytes { ends, data } => {
                let before = data.len();
                if !isnull {
                    with_body(datum, typlen, |body| extend(data, body));
                }
                ends.push(data.len() as u32);
                data.len() - before + 4
            }
        }
    }
}

/// More bytes get room for no more than themselves.
const LARGE_BYTES: usize = 1 << 20;

/// Appends bytes, which may be most of what there is room for in memory.
pub fn extend(data: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.len() >= LARGE_BYTES {
        data.reserve_exact(bytes.len());
    }
    data.extend_from_slice(bytes);
}

pub fn rows_of(values: &Values) -> usize {
    match values {
        Values::Absent(rows) => *rows,
        Values::Bool(v) => v.len(),
        Values::I16(v) => v.len(),
        Values::I32(v) => v.len(),
        Values::I64(v) => v.len(),
        Values::F32(v) => v.len(),
        Values::F64(v) => v.len(),
        Values::Fixed { width, data } => data.len() / usize::from((*width).max(1)),
        Values::Bytes { ends, .. } => ends.len(),
    }
}

/// The values of some rows of one column as datums. By-reference ones point into `arena`.
#[derive(Default)]
pub struct Datums {
    pub values: Vec<Datum>,
    /// Empty when there are no nulls.
    pub nulls: Vec<bool>,
    arena: Vec<u64>,
}

impl Datums {
    #[inline]
    pub fn get(&self, at: usize) -> (Datum, bool) {
        (self.values[at], !self.nulls.is_empty() && self.nulls[at])
    }

    /// Memory that the values take.
    pub fn bytes(&self) -> usize {
        8 * (self.values.capacity() + self.arena.capacity()) + self.nulls.capacity()
    }

    /// Converts a decoded column for an attribute of length `typlen`. The caller has checked that
    /// `fits(column.kind, attribute)`.
    pub fn from_column(column: &Column, typlen: i16) -> Datums {
        let mut out = Datums::default();
        if let Some(validity) = &column.validity {
            out.nulls = validity.iter().map(|valid| !valid).collect();
        }
        let datum = |value: i64| Datum::from(value as usize);
        match &column.values {
            Values::Absent(rows) => {
                out.values = vec![datum(0); *rows];
                out.nulls = vec![true; *rows];
            }
            Values::Bool(v) => out.values = v.iter().map(|&x| datum(i64::from(x))).collect(),
            Values::I16(v) => out.values = v.iter().map(|&x| datum(i64::from(x))).collect(),
            Values::I32(v) => out.values = v.iter().map(|&x| datum(i64::from(x))).collect(),
            Values::I64(v) => out.values = v.iter().map(|&x| datum(x)).collect(),
            Values::F32(v) => {
                out.values = v
                    .iter()
                    .map(|&x| datum(i64::from(x.to_bits() as i32)))
                    .collect();
            }
            Values::F64(v) => out.values = v.iter().map(|&x| datum(x.to_bits() as i64)).collect(),
            Values::Fixed { width, data } => {
                let width = usize::from(*width).max(1);
                out.fill_arena(data.chunks_exact(width).map(|value| (value, false)));
            }
            Values::Bytes { ends, data } => {
                let starts = core::iter::once(0).chain(ends.iter().copied());
                out.fill_arena(
                    starts
                        .zip(ends)
                        .map(|(start, &end)| (&data[start as usize..end as usize], typlen == -1)),
                );
            }
        }
        out
    }

    /// Lays values out at multiples of 8 bytes, with a four-byte length word where `varlena`.
    fn fill_arena<'a>(&mut self, values: impl Iterator<Item = (&'a [u8], bool)>) {
        let mut starts = Vec::new();
        for (value, varlena) in values {
            let start = self.arena.len();
            let head = if varlena { 4 } else { 0 };
            self.arena
                .resize(start + (value.len() + head).div_ceil(8), 0);
            // SAFETY: the arena was just extended by at least head + value.len() bytes.
            unsafe {
                let at = self.arena.as_mut_ptr().add(start).cast::<u8>();
                if varlena {
                    let word = ((value.len() + 4) as u32) << 2;
                    at.cast::<u32>().write_unaligned(word.to_le());
                }
                core::ptr::copy_nonoverlapping(value.as_ptr(), at.add(head), value.len());
            }
            starts.push(start);
        }
        let base = self.arena.as_ptr();
        self.values = starts
            .into_iter()
            // SAFETY: every start is within the arena, or one past its end for an empty value.
            .map(|start| Datum::from(unsafe { base.add(start) }))
            .collect();
    }
}

/// Can values stored as `kind` be handed out as this attribute's?
pub fn fits(kind: Kind, attribute: &FormData_pg_attribute) -> bool {
    match kind {
        Kind::Absent => true,
        Kind::Bool => attribute.attlen == 1 && attribute.attbyval,
        Kind::I16 => matches!(attribute.attlen, 1 | 2) && attribute.attbyval,
        Kind::I32 | Kind::F32 => attribute.attlen == 4 && attribute.attbyval,
        Kind::I64 | Kind::F64 => attribute.attlen == 8 && attribute.attbyval,
        Kind::Fixed(width) => attribute.attlen == width as i16 && !attribute.attbyval,
        Kind::Bytes | Kind::Numeric => attribute.attlen < 0,
    }
}

/// The first or last value of a summary, where it is exact and passed by value. (Widening an f32 changes
/// the bits of some NaNs.)
pub fn of_bound(kind: Kind, bound: Bound) -> Option<Datum> {
    let bits = match (kind, bound) {
        (Kind::Bool | Kind::I16 | Kind::I32 | Kind::I64, Bound::Int(value)) => value,
        (Kind::F32, Bound::Float(value)) if !value.is_nan() => {
            i64::from((value as f32).to_bits() as i32)
        }
        (Kind::F64, Bound::Float(value)) => value.to_bits() as i64,
        _ => return None,
    };
    Some(Datum::from(bits as usize))
}

/// Missing or null value of a column that a chunk does not have.
///
/// # Safety
/// `descriptor` must be valid and `attno` (from 1) one of its attributes.
pub unsafe fn missing(descriptor: Descriptor<'_>, attno: usize) -> (Datum, bool) {
    descriptor.missing(attno)
}
