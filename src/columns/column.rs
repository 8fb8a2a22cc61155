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
    Fixed {
        width: u16,
        data: Vec<u8>,
    },
    /// `Kind::Bytes` and `Kind::Numeric`: row `i` is `data[ends[i - 1]..ends[i]]` (`ends[-1]` = 0).
    Bytes {
        ends: Vec<u32>,
        data: Vec<u8>,
    },
}

impl Values {
    /// No values of a kind.
    pub fn empty(kind: Kind) -> Values {
        match kind {
            Kind::Absent => Values::Absent(0),
            Kind::Bool => Values::Bool(Vec::new()),
            Kind::I16 => Values::I16(Vec::new()),
            Kind::I32 => Values::I32(Vec::new()),
            Kind::I64 => Values::I64(Vec::new()),
            Kind::F32 => Values::F32(Vec::new()),
            Kind::F64 => Values::F64(Vec::new()),
            Kind::Fixed(width) => Values::Fixed {
                width,
                data: Vec::new(),
            },
            Kind::Bytes | Kind::Numeric => Values::Bytes {
                ends: Vec::new(),
                data: Vec::new(),
            },
        }
    }
}

/// A column of `rows()` rows. `validity[i]` is false where row `i` is null; `None`: no nulls.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub kind: Kind,
    pub values: Values,
    pub validity: Option<Vec<bool>>,
}

impl Column {
    /// A column of no rows, to decode into.
    pub fn empty() -> Column {
        Column {
            kind: Kind::Absent,
            values: Values::Absent(0),
            validity: None,
        }
    }

    pub fn rows(&self) -> usize {
        match &self.values {
            Values::Absent(rows) => *rows,
            Values::Bool(v) => v.len(),
            Values::I16(v) => v.len(),
            Values::I32(v) => v.len(),
            Values::I64(v) => v.len(),
            Values::F32(v) => v.len(),
            Values::F64(v) => v.len(),
            Values::Fixed { width, data } => data.len() / usize::from(*width).max(1),
            Values::Bytes { ends, .. } => ends.len(),
        }
    }

    /// Rows that are null.
    pub fn nulls(&self) -> usize {
        match (&self.values, &self.validity) {
            (Values::Absent(rows), _) => *rows,
            (_, None) => 0,
            (_, Some(valid)) => valid.iter().filter(|&&v| !v).count(),
        }
    }

    /// Whether `row`, not the first one, has the bits of the row before, or both are null.
    pub fn same_as_before(&self, row: usize) -> bool {
        if let Some(valid) = &self.validity {
            if valid[row] != valid[row - 1] || !valid[row] {
                return valid[row] == valid[row - 1];
            }
        }
        match &self.values {
            Values::Absent(_) => true,
            Values::Bool(v) => v[row] == v[row - 1],
            Values::I16(v) => v[row] == v[row - 1],
            Values::I32(v) => v[row] == v[row - 1],
            Values::I64(v) => v[row] == v[row - 1],
            Values::F32(v) => v[row].to_bits() == v[row - 1].to_bits(),
            Values::F64(v) => v[row].to_bits() == v[row - 1].to_bits(),
            Values::Fixed { width, data } => {
                let width = usize::from(*width);
                let (before, here) = data[(row - 1) * width..][..2 * width].split_at(width);
                before == here
            }
            Values::Bytes { ends, data } => {
                let start = if row == 1 { 0 } else { ends[row - 2] as usize };
                let (middle, end) = (ends[row - 1] as usize, ends[row] as usize);
                data[start..middle] == data[middle..end]
            }
        }
    }

    /// Kind, values and validity describe `rows` rows of one column.
    pub(crate) fn check(&self, rows: usize) {
        assert!(
            self.rows() == rows,
            "BUG: columns of {rows} and {} rows",
            self.rows()
        );
        assert!(
            self.validity.as_ref().is_none_or(|v| v.len() == rows),
            "BUG: validity of another length"
        );
        let fits = match (self.kind, &self.values) {
            (Kind::Absent, Values::Absent(_))
            | (Kind::Bool, Values::Bool(_))
            | (Kind::I16, Values::I16(_))
            | (Kind::I32, Values::I32(_))
            | (Kind::I64, Values::I64(_))
            | (Kind::F32, Values::F32(_))
            | (Kind::F64, Values::F64(_)) => true,
            (Kind::Fixed(kind), Values::Fixed { width, data }) => {
                kind == *width && kind > 0 && data.len() == rows * usize::from(kind)
            }
            (Kind::Bytes | Kind::Numeric, Values::Bytes { ends, data }) => {
                ends.is_sorted() && ends.last().map_or(0, |&e| e as usize) == data.len()
            }
            _ => false,
        };
        assert!(
            fits,
            "BUG: the values of a column are not of its kind {:?}",
            self.kind
        );
    }
}
