//! Lanes: the columns that a query needs, decoded block by block as it walks through a chunk. Integers, times and booleans come
//! as 64-bit integers, floats as doubles; values of other types as datums.

use super::slice::Slice;
use crate::chunk::datum::{self, Datums};
use crate::chunk::kept_block::own;
use crate::chunk::read::{Chunk, Damage};
use crate::chunk::vectors::Budget;
use crate::pg::types;
use crate::pg::{Datum, FormData_pg_attribute, Oid};
use std::ops::Range;
use std::rc::Rc;
use varve_columns::chunk::{self, BlockEntry, ColumnDirectory, Layout};
use varve_columns::column::{Column, Kind, Values};
use varve_columns::summary::Bound;
use varve_columns::tuple::header::FLAG_SORTED;
use varve_columns::vector::Bitmap;

/// Most rows of a window.
pub const WINDOW_ROWS: u32 = 8_192;

/// Of a block such a part, or less, is decoded by itself: more takes as long as all of it.
const PART: (usize, usize) = (3, 4);

/// Of which rows beside a window it is known that nobody wants them.
#[derive(Clone, Copy, Default)]
pub struct Edges {
    /// Those before it.
    pub begins: bool,
    /// Those behind it.
    pub ends: bool,
}

/// How values of a column's type are compared and added.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Class {
    /// By the integer that they are stored as.
    Int,
    Single,
    Double,
    Other,
}

/// The class of a type.
pub fn class_of(typ: Oid) -> Class {
    match types::base(typ) {
        types::BOOLOID
        | types::INT2OID
        | types::INT4OID
        | types::INT8OID
        | types::DATEOID
        | types::TIMESTAMPOID
        | types::TIMESTAMPTZOID => Class::Int,
        types::FLOAT4OID => Class::Single,
        types::FLOAT8OID => Class::Double,
        _ => Class::Other,
    }
}

/// One column.
pub struct Lane {
    /// The attribute, from 0.
    pub at: usize,
    pub class: Class,
    pub length: i16,
    /// What may be kept of what is decoded, shared by the lanes of an execution.
    budget: Rc<Budget>,
    state: State,
}

/// Values of neighbouring rows that rise by equal steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    first: i64,
    step: i64,
}

impl Line {
    pub fn at(&self, row: usize) -> i64 {
        self.first + self.step * row as i64
    }

    /// The first of some rows whose value is not below another one; their end if there is none. Steps must not fall.
    pub fn first_from(&self, rows: Range<usize>, bound: i64) -> usize {
        let gap = bound.checked_sub(self.first);
        let row = match gap.filter(|_| self.step > 0) {
            Some(gap) if gap > 0 => (gap as u64).div_ceil(self.step as u64) as usize,
            Some(_) => 0,
            None => return self.partition(rows, |value| value >= bound),
        };
        row.clamp(rows.start, rows.end)
    }

    /// The first of some rows from which on `is_behind` holds, which has to rise with the values; their end if it holds for none.
    pub fn partition(&self, rows: Range<usize>, is_behind: impl Fn(i64) -> bool) -> usize {
        let (mut low, mut high) = (rows.start, rows.end);
        while low < high {
            let middle = low + (high - low) / 2;
            match is_behind(self.at(middle)) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        low
    }
}

struct State {
    directory: Option<Rc<ColumnDirectory>>,
    /// Where the next window begins and ends, neighbours of it are not wanted.
    edges: Edges,
    /// The block of which a part was decoded last, and the one whose kept values were taken last.
    parted: Option<usize>,
    restored: Option<usize>,
    /// The value is the same in all rows of the chunk; blocks are of no concern.
    constant: bool,
    /// What is decoded; empty before the first block.
    rows: Range<u32>,
    /// What the values are, where that is a line; and whether `column` has them all the same.
    line: Option<Line>,
    is_filled: bool,
    /// Shared with what the session keeps of the chunk, as a rule.
    column: Rc<Column>,
    ints: Vec<i64>,
    floats: Vec<f64>,
    datums: Option<Datums>,
}

impl Lane {
    pub fn new(at: usize, attribute: &FormData_pg_attribute, budget: Rc<Budget>) -> Lane {
        Lane {
            at,
            class: class_of(attribute.atttypid),
            length: attribute.attlen,
            budget,
            state: State {
                directory: None,
                edges: Edges::default(),
                parted: None,
                restored: None,
                constant: false,
                rows: 0..0,
                line: None,
                is_filled: true,
                column: Rc::new(Column::empty()),
                ints: Vec::new(),
                floats: Vec::new(),
                datums: None,
            },
        }
    }

    /// Turns to another chunk.
    pub fn enter(&mut self, chunk: &Chunk) {
        let state = &mut self.state;
        state.directory = None;
        state.edges = Edges::default();
        state.parted = None;
        state.restored = None;
        state.rows = 0..0;
        state.line = None;
        state.is_filled = true;
        state.datums = None;
        state.constant = match chunk.columns.columns().get(self.at) {
            None => true,
            Some(head) => matches!(head.layout, Layout::AllNull | Layout::Constant(_)),
        };
    }

    /// The only value of a chunk's rows, where the header tells it, or nobody has to decode much for it. By-reference ones live until the
    /// next block.
    pub fn only_value(&mut self, chunk: &Chunk) -> Option<(Datum, bool)> {
        let head = chunk.columns.columns().get(self.at);
        if let Some(head) = head.filter(|_| self.class == Class::Int) {
            if head.nulls == head.rows {
                return Some((Datum::from(0usize), true));
            }
            if head.nulls == 0 && head.summary.min == head.summary.max {
                let fits = datum::fits(head.kind, attribute_of(chunk, self.at));
                let value = fits.then(|| datum::of_bound(head.kind, head.summary.min));
                return value.flatten().map(|value| (value, false));
            }
        }
        if !self.state.constant {
            return None;
        }
        self.decode(chunk, &(0..1));
        self.make_datums();
        Some(self.datum(&(0..1), 0))
    }

    /// The only integer of a chunk's rows, where the header tells it.
    fn told(&self, chunk: &Chunk) -> Option<i64> {
        let head = chunk.columns.columns().get(self.at)?;
        match (head.summary.min, head.summary.max) {
            (Bound::Int(min), Bound::Int(max)) if min == max && head.nulls == 0 => {
                datum::fits(head.kind, attribute_of(chunk, self.at)).then_some(min)
            }
            _ => None,
        }
    }

    /// Has every row of the chunk the same value?
    pub fn is_constant(&self) -> bool {
        self.state.constant
    }

    /// Do its values rise through the chunk, none of them null? They do in the first column that rows are sorted by.
    pub fn rises(&self, chunk: &Chunk) -> bool {
        let head = chunk.columns.columns().get(self.at);
        self.class == Class::Int
            && head.is_some_and(|head| head.nulls == 0)
            && chunk.header_as_written().has(FLAG_SORTED)
            && chunk.statics.is_led_by(self.at)
    }

    /// The block that has a row of the chunk; None where blocks are of no concern.
    pub fn block(&mut self, chunk: &Chunk, row: u32) -> Option<&BlockEntry> {
        if self.state.constant {
            return None;
        }
        let directory = self.directory(chunk);
        Some(directory.block(directory.block_of_row(row)))
    }

    pub fn directory(&mut self, chunk: &Chunk) -> &ColumnDirectory {
        let state = &mut self.state;
        if state.directory.is_none() {
            match chunk.shared_directory(self.at) {
                Ok(directory) => state.directory = Some(directory),
                Err(damage) => chunk.raise(&damage),
            }
        }
        state.directory.as_ref().expect("BUG: directory just set")
    }

    /// Says of the next window whether neighbours of it are wanted, as far as is known.
    pub fn set_edges(&mut self, edges: Edges) {
        self.state.edges = edges;
    }

    /// Is a window of the block, which it lies in, to be decoded without the others, which nobody wants, or maybe somebody the next time?
    fn is_part(
        &self,
        chunk: &Chunk,
        block: usize,
        entry: &BlockEntry,
        window: &Range<u32>,
    ) -> bool {
        let Edges { begins, ends } = self.state.edges;
        let is_alone =
            (begins || window.start == entry.rows.start) && (ends || window.end == entry.rows.end);
        let rows = entry.rows.len();
        let is_short = is_alone && window.len() * PART.1 <= rows * PART.0;
        // Another series of the block is wanted, too.
        let is_first = self.state.parted != Some(block);
        // What is asked for again is worth keeping.
        is_short && is_first && !(self.budget.has_room(rows) && chunk.vectors.ask(self.at, block))
    }

    fn is_decoded(&self, window: &Range<u32>) -> bool {
        let rows = &self.state.rows;
        rows.start <= window.start && window.end <= rows.end && !rows.is_empty()
    }

    /// `decode`, but of a block whose values are a line, and of an only value, takes that alone: then there are datums and `line`, and no slices.
    pub fn decode_line(&mut self, chunk: &Chunk, window: &Range<u32>) -> bool {
        if self.is_decoded(window) {
            if self.state.constant && self.state.is_filled {
                self.stretch(window.len());
            }
            return false;
        }
        if self.class != Class::Int {
            return self.decode(chunk, window);
        }
        if self.state.constant {
            let Some(first) = self.told(chunk) else {
                return self.decode(chunk, window);
            };
            let state = &mut self.state;
            state.rows = 0..u32::MAX;
            state.line = Some(Line { first, step: 0 });
            state.is_filled = false;
            return false;
        }
        self.directory(chunk);
        let state = &mut self.state;
        let directory = state.directory.as_ref().expect("BUG: directory just set");
        let block = directory.block_of_row(window.start);
        let entry = directory.block(block);
        let head = chunk.columns.column(self.at);
        let fits =
            chunk::may_be_line(head, entry) && datum::fits(head.kind, attribute_of(chunk, self.at));
        let line = fits.then(|| {
            chunk.vectors.line(self.at, block, || {
                // Whoever decodes it says what is wrong with it.
                let bytes = chunk.payload(entry.bytes.clone()).ok()?;
                chunk::line(head, entry, &bytes).ok()?
            })
        });
        let Some((first, step)) = line.flatten().filter(|&(_, step)| step >= 0) else {
            return self.decode(chunk, window);
        };
        state.rows = entry.rows.clone();
        state.line = Some(Line { first, step });
        state.is_filled = false;
        true
    }

    /// The line that the values of a window are, if that is known.
    pub fn line(&self, window: &Range<u32>) -> Option<Line> {
        let line = self.state.line?;
        let first = line.at(self.range(window).start);
        Some(Line { first, ..line })
    }

    /// The integer of a row of a window that is read, where it has one.
    pub fn int(&self, window: &Range<u32>, row: usize) -> Option<i64> {
        if let Some(line) = self.line(window) {
            return Some(line.at(row));
        }
        match self.is_null(window, row) || self.class != Class::Int {
            true => None,
            false => Some(self.ints()[self.place(window, row)]),
        }
    }

    /// Makes the values of a line.
    fn fill(&mut self) {
        let state = &mut self.state;
        let Some(line) = state.line else {
            return;
        };
        let values = (0..state.rows.len()).map(|row| line.at(row)).collect();
        state.column = Rc::new(Column {
            kind: Kind::I64,
            values: Values::I64(values),
            validity: None,
        });
        state.is_filled = true;
    }

    /// Decodes what a window needs, which lies in one block; true where that had to be done now.
    pub fn decode(&mut self, chunk: &Chunk, window: &Range<u32>) -> bool {
        if self.state.constant {
            if !self.is_decoded(window) || !self.state.is_filled {
                self.decode_only(chunk);
            }
            self.stretch(window.len());
            return false;
        }
        if self.is_decoded(window) {
            if !self.state.is_filled {
                self.fill();
            }
            return false;
        }
        self.directory(chunk);
        let attribute = attribute_of(chunk, self.at);
        let state = &mut self.state;
        state.line = None;
        state.is_filled = true;
        let directory = state.directory.as_ref().expect("BUG: directory just set");
        let directory = Rc::clone(directory);
        let block = directory.block_of_row(window.start);
        let kind = chunk.columns.column(self.at).kind;
        if !datum::fits(kind, attribute) {
            chunk.raise(&Damage::new("another storage type").at(chunk.column_name(self.at)));
        }
        let start = directory.block(block).rows.start;
        let wanted = (window.start - start) as usize..(window.end - start) as usize;
        let kept = &chunk.vectors;
        if let Some(rows) = kept.restore(self.at, block, wanted, &mut state.column) {
            let is_first = state.restored != Some(block);
            state.restored = Some(block);
            state.rows = start + rows.start as u32..start + rows.end as u32;
            self.widen();
            return is_first;
        }
        if let Err(damage) = self.read(chunk, &directory, block, window) {
            chunk.raise(&damage);
        }
        self.widen();
        true
    }

    /// Decodes a block, or the part of it that a window needs.
    fn read(
        &mut self,
        chunk: &Chunk,
        directory: &ColumnDirectory,
        block: usize,
        window: &Range<u32>,
    ) -> Result<(), Damage> {
        let entry = directory.block(block);
        let is_part = self.is_part(chunk, block, entry, window);
        let kind = chunk.columns.column(self.at).kind;
        let state = &mut self.state;
        let column = own(&mut state.column, kind);
        state.rows = match is_part {
            true => chunk.decode_part(self.at, directory, block, window, column)?,
            false => chunk.decode_block(self.at, directory, block, column)?,
        };
        if state.rows == entry.rows {
            let kept = &chunk.vectors;
            kept.keep(self.at, block, &state.column, &self.budget);
        } else {
            state.parted = Some(block);
        }
        Ok(())
    }

    /// Decodes the only value.
    fn decode_only(&mut self, chunk: &Chunk) {
        let attribute = attribute_of(chunk, self.at);
        let descriptor = chunk.table().descriptor();
        let column = if self.at < chunk.columns.columns().len() {
            let kind = chunk.columns.column(self.at).kind;
            let mut one = datum::empty(kind);
            let directory = match chunk.shared_directory(self.at) {
                Ok(directory) => directory,
                Err(damage) => chunk.raise(&damage),
            };
            if let Err(damage) = chunk.decode_block(self.at, &directory, 0, &mut one) {
                chunk.raise(&damage);
            }
            one
        } else {
            // SAFETY: an attribute of the table that the chunk does not have.
            unsafe {
                let (value, isnull) = datum::missing(descriptor, self.at + 1);
                let mut one = datum::empty(datum::kind_of(attribute));
                datum::push(&mut one, value, isnull, attribute.attlen);
                one
            }
        };
        let state = &mut self.state;
        state.column = Rc::new(column);
        state.rows = 0..u32::MAX;
        state.line = None;
        state.is_filled = true;
        self.widen();
    }

    /// Has as many copies of the only value as a window has rows.
    fn stretch(&mut self, rows: usize) {
        let state = &mut self.state;
        match self.class {
            Class::Int => stretch(&mut state.ints, rows),
            Class::Single | Class::Double => stretch(&mut state.floats, rows),
            Class::Other => {}
        }
    }

    fn widen(&mut self) {
        let state = &mut self.state;
        state.datums = None;
        match (self.class, &state.column.values) {
            (Class::Other, _) => {}
            // Wide already: `ints` and `floats` take them from there.
            (Class::Int, Values::I64(_)) | (Class::Double, Values::F64(_)) if !state.constant => {}
            (Class::Int, values) => {
                let out = &mut state.ints;
                out.clear();
                match values {
                    Values::Absent(rows) => out.resize(*rows, 0),
                    Values::Bool(v) => out.extend(v.iter().map(|&x| i64::from(x))),
                    Values::I16(v) => out.extend(v.iter().map(|&x| i64::from(x))),
                    Values::I32(v) => out.extend(v.iter().map(|&x| i64::from(x))),
                    Values::I64(v) => out.extend_from_slice(v),
                    Values::F32(v) => out.extend(v.iter().map(|&x| i64::from(x.to_bits() as i32))),
                    Values::F64(v) => out.extend(v.iter().map(|&x| x.to_bits() as i64)),
                    _ => panic!("BUG: integers of another storage type"),
                }
            }
            (class, values) => {
                let out = &mut state.floats;
                out.clear();
                let single = class == Class::Single;
                match values {
                    Values::Absent(rows) => out.resize(*rows, 0.0),
                    Values::F32(v) if single => out.extend(v.iter().map(|&x| f64::from(x))),
                    Values::F64(v) if !single => out.extend_from_slice(v),
                    Values::I32(v) if single => {
                        out.extend(v.iter().map(|&x| f64::from(f32::from_bits(x as u32))));
                    }
                    Values::I64(v) if !single => {
                        out.extend(v.iter().map(|&x| f64::from_bits(x as u64)));
                    }
                    _ => panic!("BUG: floats of another storage type"),
                }
            }
        }
    }

    fn range(&self, window: &Range<u32>) -> Range<usize> {
        if self.state.constant {
            return 0..window.len();
        }
        let first = (window.start - self.state.rows.start) as usize;
        first..first + window.len()
    }

    #[inline]
    fn ints(&self) -> &[i64] {
        match &self.state.column.values {
            Values::I64(values) if !self.state.constant => values,
            _ => &self.state.ints,
        }
    }

    #[inline]
    fn floats(&self) -> &[f64] {
        match &self.state.column.values {
            Values::F64(values) if !self.state.constant => values,
            _ => &self.state.floats,
        }
    }

    /// The values of a window that is decoded.
    pub fn slice(&self, window: &Range<u32>) -> Slice<'_> {
        assert!(self.state.is_filled, "BUG: a slice of a line");
        let range = self.range(window);
        match self.class {
            Class::Int => Slice::Ints(&self.ints()[range]),
            Class::Single | Class::Double => Slice::Floats(&self.floats()[range]),
            Class::Other => Slice::Others(range.len()),
        }
    }

    /// Where a row of a window is in what is decoded.
    fn place(&self, window: &Range<u32>, row: usize) -> usize {
        match self.state.constant {
            true => 0,
            false => (window.start - self.state.rows.start) as usize + row,
        }
    }

    /// Which rows of a window have a value; None: all of them.
    pub fn valid(&self, window: &Range<u32>) -> Option<Bitmap> {
        if self.state.constant {
            return self.is_null(window, 0).then(|| Bitmap::none(window.len()));
        }
        if self.state.line.is_some() {
            return None;
        }
        if let Values::Absent(_) = self.state.column.values {
            return Some(Bitmap::none(window.len()));
        }
        let flags = self.state.column.validity.as_ref()?;
        let flags = &flags[self.range(window)];
        (!flags.iter().all(|&valid| valid)).then(|| Bitmap::from_flags(flags))
    }

    pub fn is_null(&self, window: &Range<u32>, row: usize) -> bool {
        if self.state.line.is_some() {
            return false;
        }
        match (&self.state.column.values, &self.state.column.validity) {
            (Values::Absent(_), _) => true,
            (_, Some(valid)) => !valid[self.place(window, row)],
            (_, None) => false,
        }
    }

    /// Has a row the bytes of the row before it, or are both null?
    pub fn same_as_before(&self, window: &Range<u32>, row: usize) -> bool {
        if let Some(line) = self.state.line {
            return line.step == 0;
        }
        self.state.constant || self.state.column.same_as_before(self.place(window, row))
    }

    /// The bytes of a row's value, where it is kept as bytes and not null.
    pub fn bytes(&self, window: &Range<u32>, row: usize) -> Option<&[u8]> {
        if self.is_null(window, row) {
            return None;
        }
        let at = self.place(window, row);
        match &self.state.column.values {
            Values::Bytes { ends, data } => {
                let start = if at == 0 { 0 } else { ends[at - 1] as usize };
                Some(&data[start..ends[at] as usize])
            }
            _ => None,
        }
    }

    /// Makes datums of what is decoded, where that takes any making.
    pub fn make_datums(&mut self) {
        let state = &mut self.state;
        if self.class == Class::Other && state.datums.is_none() {
            state.datums = Some(Datums::from_column(&state.column, self.length));
        }
    }

    /// The datum of a row, once datums were made; by-reference ones live until the next block.
    #[inline]
    pub fn datum(&self, window: &Range<u32>, row: usize) -> (Datum, bool) {
        let at = self.place(window, row);
        let state = &self.state;
        if let Some(line) = state.line {
            return (Datum::from(line.at(at) as usize), false);
        }
        let isnull = match (&state.column.values, &state.column.validity) {
            (Values::Absent(_), _) => true,
            (_, Some(valid)) => !valid[at],
            (_, None) => false,
        };
        if isnull {
            return (Datum::from(0usize), true);
        }
        let bits = match self.class {
            Class::Int => self.ints()[at],
            Class::Double => self.floats()[at].to_bits() as i64,
            Class::Single => i64::from((self.floats()[at] as f32).to_bits() as i32),
            Class::Other => {
                let datums = state.datums.as_ref().expect("BUG: no datums were made");
                return datums.get(at);
            }
        };
        (Datum::from(bits as usize), false)
    }
}

/// Makes so many copies of the only value, if there are not; of a null's place as well.
fn stretch<T: Copy + Default>(values: &mut Vec<T>, rows: usize) {
    if values.len() < rows {
        let only = values.first().copied().unwrap_or_default();
        values.resize(rows, only);
    }
}

pub fn attribute_of(chunk: &Chunk, at: usize) -> &FormData_pg_attribute {
    &chunk.table().attributes()[at]
}
