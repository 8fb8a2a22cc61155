//! Blocks and directories of columns that were decoded for whoever folds columns, kept with the content of a header version: the next
//! query of the session need not decode them again. Who reads much keeps nothing here (`Budget`), or each query would push out what it needs next.

use super::kept_block::{self, KeptBlock};
use crate::guc;
use crate::pg::custom_scan::is_worker;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use varve_columns::chunk::ColumnDirectory;
use varve_columns::column::Column;
use varve_columns::summary::Summary;
use varve_columns::tuple::delete_map::DeleteMap;

/// What an entry of a directory takes, about.
const DIRECTORY_ENTRY: usize = 64;

/// A block that is longer is decoded anew each time.
const MOST_BLOCK_BYTES: usize = 256 << 10;
/// Memory that serves one block after the other has up to twice the room that a block needs.
const MOST_BUFFER_BYTES: usize = 2 * MOST_BLOCK_BYTES;

/// What one execution may leave to the next ones: a quarter of what a session keeps.
pub struct Budget(Cell<usize>);

impl Budget {
    /// May a block of so many values of eight bytes be left to the next executions?
    pub fn has_room(&self, values: usize) -> bool {
        size_of::<Column>() + 8 * values <= self.0.get().min(MOST_BLOCK_BYTES)
    }
}

impl Default for Budget {
    fn default() -> Budget {
        // A worker has no next execution.
        let most = match is_worker() {
            true => 0,
            false => guc::session_cache_bytes() / 4,
        };
        Budget(Cell::new(most))
    }
}

/// First value and step of a block whose values rise by equal steps.
type Line = (i64, i64);

#[derive(Default, Clone)]
struct Block {
    line: Option<Line>,
    values: Option<KeptBlock>,
    /// Somebody wanted a part of it.
    was_asked: bool,
}

#[derive(Default)]
struct OfColumn {
    directory: Option<Rc<ColumnDirectory>>,
    /// All of them once one is kept.
    blocks: Vec<Block>,
}

/// What is known of a column in the rows of a chunk that a delete map leaves.
#[derive(Clone, Copy)]
pub struct Left {
    pub rows: u32,
    pub nulls: u32,
    pub summary: Summary,
    /// Squares of floats were asked for.
    pub has_squares: bool,
}

/// Columns, and what is known of each, in the rows that one map leaves.
type LeftBy = (Rc<DeleteMap>, Vec<(usize, Left)>);

#[derive(Default)]
struct Kept {
    columns: Vec<OfColumn>,
    left: Option<LeftBy>,
    bytes: usize,
}

impl Kept {
    fn column(&mut self, column: usize) -> &mut OfColumn {
        if self.columns.len() <= column {
            self.bytes += size_of::<OfColumn>() * (column + 1 - self.columns.len());
            self.columns.resize_with(column + 1, OfColumn::default);
        }
        &mut self.columns[column]
    }

    fn block(&mut self, column: usize, block: usize) -> &mut Block {
        let of_column = self.column(column);
        let before = of_column.blocks.len();
        if before <= block {
            let all = of_column.directory.as_ref().map_or(0, |all| all.len());
            let count = all.max(block + 1);
            of_column.blocks.resize(count, Block::default());
            self.bytes += size_of::<Block>() * (count - before);
        }
        &mut self.columns[column].blocks[block]
    }
}

#[derive(Default)]
pub struct Vectors {
    kept: RefCell<Kept>,
    /// Since somebody asked.
    has_grown: Cell<bool>,
}

impl Vectors {
    /// The directory of a column, which `read` reads if it has to be.
    pub fn directory<E>(
        &self,
        column: usize,
        read: impl FnOnce() -> Result<ColumnDirectory, E>,
    ) -> Result<Rc<ColumnDirectory>, E> {
        let kept = self.kept.borrow();
        let known = kept
            .columns
            .get(column)
            .and_then(|own| own.directory.as_ref());
        if let Some(known) = known {
            return Ok(Rc::clone(known));
        }
        drop(kept);
        let directory = Rc::new(read()?);
        self.has_grown.set(true);
        let mut kept = self.kept.borrow_mut();
        kept.bytes += DIRECTORY_ENTRY * directory.len();
        kept.column(column).directory = Some(Rc::clone(&directory));
        Ok(directory)
    }

    /// The line that a block is, which `read` reads if it has to be.
    pub fn line(
        &self,
        column: usize,
        block: usize,
        read: impl FnOnce() -> Option<Line>,
    ) -> Option<Line> {
        let known = self.with_block(column, block, |known| known.line);
        known.or_else(|| {
            let line = read()?;
            self.has_grown.set(true);
            self.kept.borrow_mut().block(column, block).line = Some(line);
            Some(line)
        })
    }

    /// Puts the values of a block in the place of what was decoded before, if they are kept: those of some of its rows at least. Returns
    /// of which.
    pub fn restore(
        &self,
        column: usize,
        block: usize,
        rows: Range<usize>,
        out: &mut Rc<Column>,
    ) -> Option<Range<usize>> {
        let known = self.with_block(column, block, |known| known.values.clone())?;
        // As a rule the next one is wanted next.
        self.with_block(column, block + 1, |next| {
            next.values.as_ref().map(KeptBlock::prefetch)
        });
        Some(known.restore(rows, out))
    }

    /// Notes that a part of a block is wanted. Was one before? Then it is worth keeping.
    pub fn ask(&self, column: usize, block: usize) -> bool {
        let known = self.with_block(column, block, |known| Some(known.was_asked));
        if known == Some(true) {
            return true;
        }
        self.has_grown.set(true);
        self.kept.borrow_mut().block(column, block).was_asked = true;
        false
    }

    fn with_block<R>(
        &self,
        column: usize,
        block: usize,
        body: impl FnOnce(&Block) -> Option<R>,
    ) -> Option<R> {
        let kept = self.kept.borrow();
        body(kept.columns.get(column)?.blocks.get(block)?)
    }

    /// Keeps the values of a block that is not kept yet, while there is room for it.
    pub fn keep(&self, column: usize, block: usize, values: &Rc<Column>, budget: &Budget) {
        let room = budget.0.get();
        if room == 0 || kept_block::bytes_of(values) > MOST_BUFFER_BYTES {
            return;
        }
        let values = KeptBlock::of(values);
        let bytes = values.bytes();
        if bytes > MOST_BLOCK_BYTES {
            return;
        }
        if bytes > room {
            // Whoever reads more than there is room for does not try again with each block.
            return budget.0.set(0);
        }
        budget.0.set(room - bytes);
        self.has_grown.set(true);
        let mut kept = self.kept.borrow_mut();
        kept.bytes += bytes;
        kept.block(column, block).values = Some(values);
    }

    /// What is known of a column in the rows that this map leaves: the map itself, not one like it.
    pub fn left(&self, map: &Rc<DeleteMap>, column: usize) -> Option<Left> {
        let kept = self.kept.borrow();
        let (of_map, columns) = kept.left.as_ref()?;
        let known = columns.iter().find(|(of_column, _)| *of_column == column);
        known
            .filter(|_| Rc::ptr_eq(of_map, map))
            .map(|&(_, left)| left)
    }

    /// Keeps what is known of a column in the rows that this map leaves, and forgets what others left.
    pub fn keep_left(&self, map: &Rc<DeleteMap>, column: usize, left: Left) {
        self.has_grown.set(true);
        let mut kept = self.kept.borrow_mut();
        let same = kept
            .left
            .take()
            .filter(|(of_map, _)| Rc::ptr_eq(of_map, map));
        let (of_map, mut columns) = same.unwrap_or_else(|| (Rc::clone(map), Vec::new()));
        columns.retain(|(of_column, _)| *of_column != column);
        columns.push((column, left));
        kept.left = Some((of_map, columns));
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        let kept = self.kept.borrow();
        let left = kept.left.as_ref().map_or(0, |(map, columns)| {
            // As a rule it is the map of the content, which counts it.
            let is_own = Rc::strong_count(map) == 1;
            (if is_own { map.bytes() } else { 0 }) + columns.capacity() * size_of::<(usize, Left)>()
        });
        kept.bytes + left
    }

    /// Has it grown since this was asked last?
    pub fn has_grown(&self) -> bool {
        self.has_grown.take()
    }

    pub fn forget(&self) {
        *self.kept.borrow_mut() = Kept::default();
    }

    /// Lets go of the blocks' values.
    pub fn forget_values(&self) {
        let mut kept = self.kept.borrow_mut();
        let blocks = kept.columns.iter_mut().flat_map(|own| &mut own.blocks);
        let values = blocks.filter_map(|block| block.values.take());
        let bytes: usize = values.map(|values| values.bytes()).sum();
        kept.bytes -= bytes;
    }

    /// Can it be used? An error may have struck while it was written to.
    pub fn is_sound(&self) -> bool {
        self.kept.try_borrow_mut().is_ok()
    }
}
