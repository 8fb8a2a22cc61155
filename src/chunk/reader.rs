//! A chunk with what was decoded of it: block by block, when somebody asks for a value.

use super::datum::{self, Datums};
use super::read::{Chunk, Damage};
use super::series_runs::SeriesRuns;
use crate::pg::descriptor::Descriptor;
use crate::pg::error;
use crate::pg::{Datum, FormData_pg_attribute};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use varve_columns::chunk::{self, ColumnDirectory};
use varve_columns::column::Column;

/// Blocks that are left for others stay decoded up to this many bytes of each reader: rows may be fetched in any order.
const RETIRED_BYTES: usize = 4 << 20;

/// Blocks of each column of values that are passed by value that stay decoded besides the current one: those of a whole chunk, as a rule.
const RETIRED_BY_VALUE: usize = 64;

/// Blocks that somebody comes to one behind the other from which on he is taken for one who reads all of them, and leaves those behind him.
const IN_A_ROW: u32 = 4;

/// Searches for series of a chunk from which on it pays to know where all of them are.
const SEARCHES: u32 = 3;

/// Blocks of each column of which single values stay.
const SINGLES: usize = 64;

/// What an entry of a directory takes, about.
const DIRECTORY_ENTRY: usize = 64;

/// Decoded rows of one column.
#[derive(Default)]
struct Block {
    rows: Range<u32>,
    datums: Datums,
    /// By-reference values of it were handed out to live as long as the reader.
    lent: bool,
}

impl Block {
    #[inline]
    fn get(&self, row: u32) -> (Datum, bool) {
        self.datums.get((row - self.rows.start) as usize)
    }
}

/// A value, passed by value and not null, that was read without its block.
#[derive(Clone, Copy)]
struct Single {
    block: u32,
    row: u32,
    value: Datum,
}

#[derive(Default)]
struct ColumnState {
    directory: Option<ColumnDirectory>,
    block: Block,
    /// Blocks decoded before whose by-reference values somebody may still point to.
    retired: Vec<Block>,
    /// How many blocks before the current one were each left for the one behind it.
    in_a_row: u32,
    /// A row whose value, passed by value and not null, is known without its block.
    known: Option<(u32, Datum)>,
    /// Of blocks that were asked for one row alone; each in the only place that its number allows, or nothing yet.
    singles: Vec<Option<Single>>,
    /// The block of which such a value was asked last, and its bytes: who decodes it need not read them again.
    read: Option<(u32, Vec<u8>)>,
}

impl ColumnState {
    /// Makes `block` the current one; returns how many more bytes have retired. Values that are passed by value are copied by
    /// whoever wants them: blocks of theirs retire, some of them, but where rows are read one after the other, only the last few.
    fn switch(&mut self, block: Block, by_value: bool) -> isize {
        let left = core::mem::replace(&mut self.block, block);
        if left.rows.is_empty() {
            return 0;
        }
        let is_next = self.block.rows.start == left.rows.end;
        self.in_a_row = if is_next { self.in_a_row + 1 } else { 0 };
        let before = self.retired.last();
        let goes_on = self.in_a_row >= IN_A_ROW
            && before.is_some_and(|before| before.rows.end == left.rows.start);
        let mut bytes = left.datums.bytes() as isize;
        let passed = if !by_value {
            None
        } else if goes_on {
            self.retired.pop()
        } else {
            let is_full = self.retired.len() >= RETIRED_BY_VALUE;
            is_full.then(|| self.retired.remove(0))
        };
        bytes -= passed.map_or(0, |block| block.datums.bytes() as isize);
        self.retired.push(left);
        bytes
    }
}

/// What has been decoded of a header version. It is the same for all who see that, so their readers share it.
pub struct Decoded {
    columns: RefCell<Vec<ColumnState>>,
    scratch: RefCell<Option<Column>>,
    /// Readers that may have handed out what points to it.
    readers: Cell<usize>,
    /// Slots that show a row of it. What each may point to is in the blocks of its row.
    slots: Cell<usize>,
    retired_bytes: Cell<usize>,
    /// How often a series was searched for, and where all of them are.
    searches: Cell<u32>,
    series: RefCell<Option<Rc<SeriesRuns>>>,
    /// The first rows of the runs of equal values of some columns, for who has asked: each header that takes the place of this one is
    /// entered by them.
    runs: RefCell<Vec<ColumnRuns>>,
}

/// Columns (from 0), and the first row of each run of equal values of them.
type ColumnRuns = (Vec<usize>, Rc<[u32]>);

impl Decoded {
    /// Nothing yet of a header version with so many columns.
    pub fn new(columns: usize) -> Decoded {
        let columns = (0..columns).map(|_| ColumnState::default()).collect();
        Decoded {
            columns: RefCell::new(columns),
            scratch: RefCell::new(None),
            readers: Cell::new(0),
            slots: Cell::new(0),
            retired_bytes: Cell::new(0),
            searches: Cell::new(0),
            series: RefCell::new(None),
            runs: RefCell::default(),
        }
    }

    /// Memory that decoded values take.
    pub fn bytes(&self) -> usize {
        let columns = self.columns.borrow();
        let blocks = columns
            .iter()
            .flat_map(|state| state.retired.iter().chain([&state.block]));
        let bytes = blocks.map(|block| block.datums.bytes()).sum::<usize>();
        let directories = columns.iter().filter_map(|state| state.directory.as_ref());
        let of_directories = directories.map(ColumnDirectory::len).sum::<usize>();
        let of_singles = columns.iter().map(|state| {
            let read = state.read.as_ref();
            size_of_val(&state.singles[..]) + read.map_or(0, |(_, bytes)| bytes.capacity())
        });
        let series = self.series.borrow();
        let of_series = series.as_ref().map_or(0, |series| series.bytes());
        let runs = self.runs.borrow();
        let of_runs = runs.iter().map(|(_, starts)| size_of_val(&starts[..]));
        bytes
            + of_singles.sum::<usize>()
            + of_series
            + of_runs.sum::<usize>()
            + DIRECTORY_ENTRY * of_directories
            + size_of_val(&columns[..])
    }

    /// Can it be used? An error may have struck while it was written to.
    pub fn is_sound(&self) -> bool {
        self.columns.try_borrow_mut().is_ok()
            && self.scratch.try_borrow_mut().is_ok()
            && self.series.try_borrow_mut().is_ok()
            && self.runs.try_borrow_mut().is_ok()
    }

    /// A transaction that has used it ends.
    pub fn settle(&self) {
        *self.scratch.borrow_mut() = None;
        let mut columns = self.columns.borrow_mut();
        columns.iter_mut().for_each(|state| state.read = None);
        let is_idle = self.readers.get() == 0 && self.slots.get() == 0;
        if is_idle && self.retired_bytes.get() > RETIRED_BYTES {
            self.drop_retired(&mut columns, |_| true);
        }
    }

    /// Lets go of blocks that nobody points to.
    pub fn forget_blocks(&self) {
        if self.slots.get() > 0 {
            return;
        }
        *self.scratch.borrow_mut() = None;
        let mut columns = self.columns.borrow_mut();
        for state in columns.iter_mut() {
            state.read = None;
            if !state.block.lent {
                state.block = Block::default();
            }
        }
        self.drop_retired(&mut columns, |_| true);
    }

    /// Drops the retired blocks that are `unused` and not lent.
    fn drop_retired(&self, columns: &mut [ColumnState], unused: impl Fn(&Block) -> bool) {
        let mut bytes = 0;
        for state in columns {
            state.retired.retain(|block| block.lent || !unused(block));
            let kept = state.retired.iter().map(|block| block.datums.bytes());
            bytes += kept.sum::<usize>();
        }
        self.retired_bytes.set(bytes);
    }

    /// Nobody reads it any more, so nobody points to values that were handed out.
    fn take_back(&self) {
        let Ok(mut columns) = self.columns.try_borrow_mut() else {
            return;
        };
        for state in columns.iter_mut() {
            let blocks = state.retired.iter_mut().chain([&mut state.block]);
            blocks.for_each(|block| block.lent = false);
        }
    }
}

/// A chunk as somebody sees it, with the blocks that were decoded so far. Slots share it.
pub struct Reader {
    pub chunk: Chunk,
    decoded: Rc<Decoded>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        let left = self.decoded.readers.get() - 1;
        self.decoded.readers.set(left);
        if left == 0 {
            self.decoded.take_back();
        }
    }
}

impl Reader {
    pub fn new(chunk: Chunk) -> Rc<Reader> {
        let decoded = Decoded::new(chunk.columns.columns().len());
        Reader::with(chunk, Rc::new(decoded))
    }

    /// A reader that goes on with what has been decoded of the header version already.
    pub fn with(chunk: Chunk, decoded: Rc<Decoded>) -> Rc<Reader> {
        decoded.readers.set(decoded.readers.get() + 1);
        Rc::new(Reader { chunk, decoded })
    }

    pub fn rows(&self) -> u32 {
        self.chunk.header.rows
    }

    /// A slot begins to show rows of the chunk.
    pub fn enter_slot(&self) {
        self.decoded.slots.set(self.decoded.slots.get() + 1);
    }

    /// A slot shows no row of the chunk any more: nobody uses what it pointed to.
    pub fn leave_slot(&self) {
        self.decoded.slots.set(self.decoded.slots.get() - 1);
    }

    /// Memory that decoded values and pieces of payload take.
    pub fn kept_bytes(&self) -> usize {
        self.decoded.bytes() + self.chunk.kept_bytes()
    }

    /// Where the series of these key columns (from 0) are, once it was asked a few times.
    pub fn series(&self, columns: &[usize]) -> Option<Rc<SeriesRuns>> {
        let searches = self.decoded.searches.get() + 1;
        if searches == SEARCHES {
            // Damage is reported by who comes to it.
            let series = SeriesRuns::read(self, columns).ok().flatten();
            *self.decoded.series.borrow_mut() = series.map(Rc::new);
        }
        self.decoded.searches.set(searches.min(SEARCHES));
        let series = self.decoded.series.borrow();
        series
            .as_ref()
            .filter(|series| series.is_of(columns))
            .cloned()
    }

    /// The first row of each run of equal values of some columns (from 0), where that is known.
    pub fn runs(&self, columns: &[usize]) -> Option<Rc<[u32]>> {
        let runs = self.decoded.runs.borrow();
        let known = runs.iter().find(|(of, _)| of == columns);
        known.map(|(_, starts)| Rc::clone(starts)).or_else(|| {
            let series = self.decoded.series.borrow();
            let series = series.as_ref().filter(|series| series.is_of(columns))?;
            Some(series.first_rows().into())
        })
    }

    /// Keeps them.
    pub fn know_runs(&self, columns: &[usize], starts: Rc<[u32]>) {
        let mut runs = self.decoded.runs.borrow_mut();
        runs.push((columns.to_vec(), starts));
    }

    /// Says the value of a row in a column (from 0) that is passed by value.
    pub fn know(&self, at: usize, row: u32, value: Datum) {
        if let Some(state) = self.decoded.columns.borrow_mut().get_mut(at) {
            state.known = Some((row, value));
        }
    }

    /// Lets go of everything decoded that nobody points to.
    pub fn shrink(&self) {
        if self.decoded.slots.get() == 0 {
            self.forget_rows();
            self.chunk.forget_pieces();
        }
    }

    /// Lets go of what was decoded to show rows, and nobody points to, and of the pieces that it was read from.
    pub fn forget_rows(&self) {
        self.decoded.forget_blocks();
        self.chunk.forget_bytes();
    }

    /// The same, but keeps the current block of each column.
    pub fn trim(&self) {
        *self.decoded.scratch.borrow_mut() = None;
        if self.decoded.slots.get() == 0 {
            self.decoded
                .drop_retired(&mut self.decoded.columns.borrow_mut(), |_| true);
        }
    }

    /// Writes some attributes (from 0) of `row` to `values` and `nulls`. By-reference values live as
    /// long as the reader.
    ///
    /// # Safety
    /// Both arrays must have room for all of them; `descriptor` is the table's or one that is
    /// compatible with it.
    pub unsafe fn fill(
        &self,
        descriptor: Descriptor<'_>,
        row: u32,
        wanted: impl Iterator<Item = usize>,
        values: *mut Datum,
        nulls: *mut bool,
    ) {
        let mut columns = self.decoded.columns.borrow_mut();
        // SAFETY: by contract.
        unsafe { self.fill_from(&mut columns, descriptor, row, wanted, (values, nulls), true) }
    }

    /// `fill` for a slot that shows `row`: by-reference values live as long as it does.
    ///
    /// # Safety
    /// As `fill`; the slot must have entered.
    pub unsafe fn fill_slot(
        &self,
        descriptor: Descriptor<'_>,
        row: u32,
        wanted: impl Iterator<Item = usize>,
        values: *mut Datum,
        nulls: *mut bool,
    ) {
        let mut columns = self.decoded.columns.borrow_mut();
        // SAFETY: by contract.
        unsafe {
            self.fill_from(
                &mut columns,
                descriptor,
                row,
                wanted,
                (values, nulls),
                false,
            )
        }
        if self.decoded.retired_bytes.get() > RETIRED_BYTES && self.decoded.slots.get() == 1 {
            self.decoded
                .drop_retired(&mut columns, |block| !block.rows.contains(&row));
        }
    }

    /// Writes some attributes. Where it does not `lend`, by-reference values live only as long as a slot shows `row`.
    ///
    /// # Safety
    /// As `fill`; without `lend` as `fill_slot`.
    unsafe fn fill_from(
        &self,
        columns: &mut [ColumnState],
        descriptor: Descriptor<'_>,
        row: u32,
        wanted: impl Iterator<Item = usize>,
        (values, nulls): (*mut Datum, *mut bool),
        lend: bool,
    ) {
        for at in wanted {
            // SAFETY: the callers' contract.
            unsafe {
                let (value, null) = self.value_in(columns, descriptor, row, at, lend);
                values.add(at).write(value);
                nulls.add(at).write(null);
            }
        }
    }

    /// `fill_slot` where every wanted block is decoded already; false, with some of the attributes written, where one is not.
    /// Raises no error.
    ///
    /// # Safety
    /// As `fill_slot`.
    #[inline]
    pub unsafe fn fill_decoded(
        &self,
        row: u32,
        wanted: impl Iterator<Item = usize>,
        values: *mut Datum,
        nulls: *mut bool,
    ) -> bool {
        let Ok(columns) = self.decoded.columns.try_borrow() else {
            return false;
        };
        for at in wanted {
            let decoded = |state: &&ColumnState| state.block.rows.contains(&row);
            let Some(state) = columns.get(at).filter(decoded) else {
                return false;
            };
            let (value, null) = state.block.get(row);
            // SAFETY: by contract.
            unsafe {
                values.add(at).write(value);
                nulls.add(at).write(null);
            }
        }
        true
    }

    /// One attribute (from 0) of one row; a by-reference value lives as long as the reader.
    ///
    /// # Safety
    /// See `fill`.
    pub unsafe fn value(&self, descriptor: Descriptor<'_>, row: u32, at: usize) -> (Datum, bool) {
        let mut columns = self.decoded.columns.borrow_mut();
        // SAFETY: by contract.
        unsafe { self.value_in(&mut columns, descriptor, row, at, true) }
    }

    /// One attribute, as `fill_from` writes it.
    ///
    /// # Safety
    /// `descriptor` as for `fill`; without `lend` a slot that shows `row` must have entered.
    #[inline]
    unsafe fn value_in(
        &self,
        columns: &mut [ColumnState],
        descriptor: Descriptor<'_>,
        row: u32,
        at: usize,
        lend: bool,
    ) -> (Datum, bool) {
        let attribute = &descriptor.attributes()[at];
        match columns.get_mut(at) {
            Some(state) if !attribute.attisdropped => self.get(state, at, row, attribute, lend),
            Some(_) => (Datum::from(0), true),
            // SAFETY: as above.
            None => unsafe { datum::missing(descriptor, at + 1) },
        }
    }

    #[inline]
    fn get(
        &self,
        state: &mut ColumnState,
        at: usize,
        row: u32,
        attribute: &FormData_pg_attribute,
        lend: bool,
    ) -> (Datum, bool) {
        if !state.block.rows.contains(&row) {
            if let Some((_, value)) = state.known.filter(|&(known, _)| known == row) {
                return (value, false);
            }
            if let Some(last) = self.last_value(at, row, attribute) {
                return (last, false);
            }
            if let Some(single) = self.single(state, at, row, attribute) {
                return (single, false);
            }
            self.decode(state, at, row, attribute);
        }
        state.block.lent |= lend && !attribute.attbyval;
        state.block.get(row)
    }

    /// A value of the last row that the header has: newest points need no block.
    #[cold]
    fn last_value(&self, at: usize, row: u32, attribute: &FormData_pg_attribute) -> Option<Datum> {
        let head = self.chunk.columns.column(at);
        let known = row + 1 == self.rows() && head.nulls == 0 && datum::fits(head.kind, attribute);
        known.then(|| datum::of_bound(head.kind, head.summary.last))?
    }

    /// A value of a block that was not asked for another one before: who looks for single rows decodes no blocks. None where the block
    /// is decoded, or it takes the block to know. Damage is reported by who decodes it.
    #[cold]
    fn single(
        &self,
        state: &mut ColumnState,
        at: usize,
        row: u32,
        attribute: &FormData_pg_attribute,
    ) -> Option<Datum> {
        let head = self.chunk.columns.column(at);
        let is_decoded = || state.retired.iter().any(|block| block.rows.contains(&row));
        if !chunk::may_tell_value(head) || !datum::fits(head.kind, attribute) || is_decoded() {
            return None;
        }
        if state.directory.is_none() {
            state.directory = Some(self.chunk.directory(at).ok()?);
        }
        let directory = state.directory.as_ref()?;
        let block = directory.block_of_row(row);
        let (block, place) = (block as u32, block % SINGLES);
        let met = state.singles.get(place).copied().flatten();
        if let Some(met) = met.filter(|met| met.block == block) {
            return (met.row == row).then_some(met.value);
        }
        let bytes = self.chunk.block_bytes(at, directory, block as usize);
        let (bytes, number) = (bytes.ok()?, block as usize);
        let bound = (self.chunk).value_in_bytes(at, directory, number, &bytes, row);
        state.read = Some((block, bytes));
        let value = datum::of_bound(head.kind, bound.ok()??)?;
        if state.singles.is_empty() {
            state.singles.resize(SINGLES, None);
        }
        state.singles[place] = Some(Single { block, row, value });
        Some(value)
    }

    /// Shows the directory of a column (from 0) that the chunk has.
    pub fn with_directory<R>(&self, at: usize, body: impl FnOnce(&ColumnDirectory) -> R) -> R {
        let mut columns = self.decoded.columns.borrow_mut();
        let state = &mut columns[at];
        if state.directory.is_none() {
            match self.chunk.directory(at) {
                Ok(directory) => state.directory = Some(directory),
                Err(damage) => self.chunk.raise(&damage),
            }
        }
        body(state.directory.as_ref().expect("BUG: directory just set"))
    }

    #[cold]
    fn decode(
        &self,
        state: &mut ColumnState,
        at: usize,
        row: u32,
        attribute: &FormData_pg_attribute,
    ) {
        error::check_interrupts();
        let known = state
            .retired
            .iter()
            .position(|block| block.rows.contains(&row));
        if let Some(known) = known {
            let block = state.retired.swap_remove(known);
            let back = block.datums.bytes();
            let retired = state.switch(block, attribute.attbyval);
            self.count_retired(retired - back as isize);
            return;
        }
        if let Err(damage) = self.try_decode(state, at, row, attribute) {
            self.chunk.raise(&damage);
        }
    }

    fn try_decode(
        &self,
        state: &mut ColumnState,
        at: usize,
        row: u32,
        attribute: &FormData_pg_attribute,
    ) -> Result<(), Damage> {
        let kind = self.chunk.columns.column(at).kind;
        if !datum::fits(kind, attribute) {
            let name = self.chunk.column_name(at);
            return Err(Damage::new("another storage type").at(name));
        }
        if state.directory.is_none() {
            state.directory = Some(self.chunk.directory(at)?);
        }
        let directory = state.directory.as_ref().expect("BUG: directory just set");
        let block = directory.block_of_row(row);
        let mut scratch = self.decoded.scratch.borrow_mut();
        let column = match scratch.as_mut() {
            Some(column) if column.kind == kind => column,
            _ => scratch.insert(datum::empty(kind)),
        };
        let read = state.read.take().filter(|&(of, _)| of as usize == block);
        let bytes = match read {
            Some((_, bytes)) => bytes,
            None => self.chunk.block_bytes(at, directory, block)?,
        };
        let rows = (self.chunk).decode_bytes(at, directory, block, &bytes, column)?;
        let datums = Datums::from_column(column, attribute.attlen);
        let block = Block {
            rows,
            datums,
            lent: false,
        };
        let retired = state.switch(block, attribute.attbyval);
        self.count_retired(retired);
        Ok(())
    }

    fn count_retired(&self, more: isize) {
        let bytes = self.decoded.retired_bytes.get().saturating_add_signed(more);
        self.decoded.retired_bytes.set(bytes);
    }
}
