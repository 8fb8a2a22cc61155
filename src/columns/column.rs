//! Values of one column in memory: what a chunk is built from and what a block decodes to.
//! Shapes: `Values` has one slot per row; the slot of a null row holds a default and means nothing.

/// Physical type of a column. Logical types of SQL map onto these by storage, never by name, so that
/// a change of type without a rewrite (varchar to text) leaves old chunks readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A column that has no values here (dropped, or not yet added): every row is null.
    Absent,
    Bool,
    I16,
    I32,
    I64,
    F32,
    F64,
    /// Values of a fixed number of bytes (uuid, macaddr, name, interval, …), ordered bytewise.
    Fixed(u16),
    /// Values of any length, ordered bytewise (text, bytea, jsonb, arrays, …).
    Bytes,
    /// The body (without length word) of PostgreSQL's `numeric`; kept bit for bit.
    Numeric,
}

/// One slot per row. Floats are kept as given, NaN payloads and -0.0 included.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// `Kind::Absent`; the number of rows.
    Absent(usize),
    Bool(Vec<bool>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    /// `data.len() == width * rows`
    Fixed { width: u16, data: Vec<u8> },
    /// `Kind::Bytes` and `Kind::Numeric`: row `i` is `data[ends[i - 1]..ends[i]]` (`ends[-1]` = 0).
    Bytes { ends: Vec<u32>, data: Vec<u8> },
}

/// A column of `rows()` rows. `validity[i]` is false where row `i` is null; `None`: no nulls.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub kind: Kind,
    pub values: Values,
    pub validity: Option<Vec<bool>>,
}
