//! Blocks and directories of columns that were decoded for whoever folds columns, kept with the content of a header version: the next
//! query of the session need not decode them again. Who reads much keeps nothing here (`Budget`), or each query would push out what it needs next.

use crate::guc;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use varve_columns::chunk::ColumnDirectory;
use varve_columns::column::{Column, Values};

/// What an entry of a directory takes, about.
const DIRECTORY_ENTRY: usize = 64;

/// A block that is longer is decoded anew each time.
const MOST_BLOCK_BYTES: usize = 256 << 10;

/// What one execution may leave to the next ones: a quarter of what a session keeps.
pub struct Budget(Cell<usize>);

impl Default for Budget {
    fn default() -> Budget {
        Budget(Cell::new(guc::session_cache_bytes() / 4))
    }
}

#[derive(Default)]
struct Kept {
    directories: Vec<(usize, Rc<ColumnDirectory>)>,
    /// Column, block, values.
    blocks: Vec<(usize, usize, Rc<Column>)>,
    bytes: usize,
}

#[derive(Default)]
pub struct Vectors(RefCell<Kept>);

impl Vectors {
    /// The directory of a column, which `read` reads if it has to be.
    pub fn directory<E>(
        &self,
        column: usize,
        read: impl FnOnce() -> Result<ColumnDirectory, E>,
    ) -> Result<Rc<ColumnDirectory>, E> {
        if let Some(known) = self.known_directory(column) {
            return Ok(known);
        }
        let directory = Rc::new(read()?);
        let mut kept = self.0.borrow_mut();
        kept.bytes += DIRECTORY_ENTRY * directory.len();
        kept.directories.push((column, Rc::clone(&directory)));
        Ok(directory)
    }

    fn known_directory(&self, column: usize) -> Option<Rc<ColumnDirectory>> {
        let kept = self.0.borrow();
        let mut all = kept.directories.iter();
        let found = all.find(|known| known.0 == column)?;
        Some(Rc::clone(&found.1))
    }

    /// The values of a block, if they are kept.
    pub fn block(&self, column: usize, block: usize) -> Option<Rc<Column>> {
        let kept = self.0.borrow();
        let mut all = kept.blocks.iter();
        let found = all.find(|known| (known.0, known.1) == (column, block))?;
        Some(Rc::clone(&found.2))
    }

    /// Keeps the values of a block that is not kept yet, while there is room for it.
    pub fn keep(&self, column: usize, block: usize, values: &Rc<Column>, budget: &Budget) {
        let (bytes, room) = (bytes_of(values), budget.0.get());
        if bytes > MOST_BLOCK_BYTES || bytes > room {
            return;
        }
        budget.0.set(room - bytes);
        let mut kept = self.0.borrow_mut();
        kept.bytes += bytes;
        kept.blocks.push((column, block, Rc::clone(values)));
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        self.0.borrow().bytes
    }

    pub fn forget(&self) {
        *self.0.borrow_mut() = Kept::default();
    }

    /// Can it be used? An error may have struck while it was written to.
    pub fn is_sound(&self) -> bool {
        self.0.try_borrow_mut().is_ok()
    }
}

fn bytes_of(column: &Column) -> usize {
    let of_values = match &column.values {
        Values::Absent(_) => 0,
        Values::Bool(values) => values.capacity(),
        Values::I16(values) => 2 * values.capacity(),
        Values::I32(values) => 4 * values.capacity(),
        Values::I64(values) => 8 * values.capacity(),
        Values::F32(values) => 4 * values.capacity(),
        Values::F64(values) => 8 * values.capacity(),
        Values::Fixed { data, .. } => data.capacity(),
        Values::Bytes { ends, data } => 4 * ends.capacity() + data.capacity(),
    };
    let of_nulls = column.validity.as_ref().map_or(0, Vec::capacity);
    size_of::<Column>() + of_values + of_nulls
}
