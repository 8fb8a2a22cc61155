//! Batches: rows of COPY and INSERT … SELECT go into chunks without ever being tail rows. A batch
//! belongs to one table, subtransaction and command; it is written when its statement ends, when it is
//! the largest and memory runs short, or before a scan that must see it. One budget is for all of them.

use crate::catalog::chunk_marker;
use crate::catalog::layout::{self, Layout};
use crate::chunk::datum::Datums;
use crate::chunk::encode;
use crate::chunk::index_entries::SeriesIndexes;
use crate::chunk::row_set::RowSet;
use crate::chunk::write::{self, Target};
use crate::guc;
use crate::ingest::crowd;
use crate::ingest::fresh;
use crate::pg::error::{self, Code};
use crate::pg::heap;
use crate::pg::lock_mode::LockMode;
use crate::pg::open::Open;
use crate::pg::plain_entries::OrdinaryIndexes;
use crate::pg::relation::{Kind, Table};
use crate::pg::replication;
use crate::pg::row_size;
use crate::pg::slot::Slot;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::transaction::{self, Access, PerTransaction};
use crate::pg::tuple::Formed;
use crate::pg::wake;
use crate::pg::{CommandId, Oid, SubTransactionId};
use crate::table::{statements, tail_page};
use crate::unique::batch as entering;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::rc::Rc;

struct Batch {
    name: Name,
    layout: Layout,
    rows: RowSet,
    /// Heap might refuse rows of the table.
    may_be_too_long: bool,
}

/// What tells batches apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Name {
    table: Oid,
    command: CommandId,
    sub: SubTransactionId,
    options: i32,
}

#[derive(Default)]
struct State {
    batches: Vec<Batch>,
    /// Where in `batches` some of them are: until one is taken out.
    places: FxHashMap<Name, usize>,
    /// What all rows take.
    bytes: usize,
    /// What was found out about tables that statements in progress fill.
    answers: FxHashMap<(Oid, CommandId), bool>,
    /// The command of the INSERT that the executor hook has approved, innermost last.
    approved: SmallVec<[Option<CommandId>; 4]>,
    /// Nesting depths of executor runs at which COPY statements in progress began, innermost last.
    copies: Vec<usize>,
    /// Nesting depths of executor runs and COPY statements at which each open subtransaction began.
    depths: Vec<(SubTransactionId, usize, usize)>,
}

impl State {
    /// The place of a batch, if there is one.
    fn place(&mut self, name: Name) -> Option<usize> {
        if let Some(&at) = self.places.get(&name) {
            return Some(at);
        }
        let at = self.batches.iter().position(|batch| batch.name == name)?;
        self.places.insert(name, at);
        Some(at)
    }

    fn add(&mut self, batch: Batch) -> usize {
        let at = self.batches.len();
        self.places.insert(batch.name, at);
        self.batches.push(batch);
        at
    }

    fn take(&mut self, at: usize) -> Batch {
        self.places.clear();
        let batch = self.batches.swap_remove(at);
        self.bytes -= batch.rows.bytes;
        batch
    }
}

thread_local! {
    static STATE: PerTransaction<State> = PerTransaction::default();
}

/// An executor run begins; `command` is set when it is an INSERT whose rows may be collected.
pub fn enter_statement(command: Option<CommandId>) {
    STATE.with_borrow_mut(|state| state.approved.push(command));
    statements::begin();
}

/// Nesting depth of executor runs.
pub fn depth() -> usize {
    STATE.with_borrow(|state| state.approved.len())
}

/// The executor run at this depth has ended.
pub fn truncate_depth(depth: usize) {
    STATE.with_borrow_mut(|state| {
        state.approved.truncate(depth);
        state.answers.clear();
    });
}

/// A COPY begins.
pub fn enter_copy() {
    STATE.with_borrow_mut(|state| {
        let depth = state.approved.len();
        state.copies.push(depth);
    });
}

/// A COPY has read all of its rows: what is left of them is written.
pub fn leave_copy() {
    flush_all();
    STATE.with_borrow_mut(|state| {
        state.copies.pop();
        state.answers.clear();
    });
}

/// Is a row that the executor inserts under `command` to be collected?
pub fn collects(table: Table<'_>, command: CommandId) -> bool {
    let is_approved = STATE.with_borrow(|state| state.approved.last() == Some(&Some(command)));
    is_approved && collects_all(table, command)
}

/// May the rows that a statement brings into `table` under `command`, a COPY for example, be collected?
pub fn collects_all(table: Table<'_>, command: CommandId) -> bool {
    ask(table, command, || accepts(table))
}

/// Is a row that core inserts under `command` by itself, into a table that the statement makes and fills, to be collected?
pub fn fills(table: Table<'_>, command: CommandId, options: i32) -> bool {
    // A COPY whose rows go one by one may have its reasons.
    let is_of_copy = |state: &State| state.copies.last() == Some(&state.approved.len());
    if !heap::fills_new_pages(options) || STATE.with_borrow(is_of_copy) {
        return false;
    }
    ask(table, command, || fresh::accepts(table, options))
}

/// Asks once for a statement.
fn ask(table: Table<'_>, command: CommandId, question: impl FnOnce() -> bool) -> bool {
    let asked = (table.oid(), command);
    let known = STATE.with_borrow(|state| state.answers.get(&asked).copied());
    known.unwrap_or_else(|| {
        let answer = question();
        STATE.with_borrow_mut(|state| state.answers.insert(asked, answer));
        answer
    })
}

/// Does nothing about the table need rows with real TIDs at once?
fn accepts(table: Table<'_>) -> bool {
    table.kind() == Kind::Table
        && !replication::is_streamed(table)
        && !has_insert_triggers(table)
        && !ancestors_watch_inserts(table)
        && indexes_allow(table)
        && !layout::keeps_rows_in_tail(table)
        && !layout::loses_unique_index(table)
        && (layout::of(table).time.is_some()
            || guc::compresses_everything() && table.descriptor().len() > 0)
}

/// Are the indexes, but for series indexes, unique ones whose keys a batch can enter, or ordinary ones that no plan can be using? As long as
/// a table could get no chunks, plans use these, and only compact waits for such plans; marks tell that it has, or had no need to.
fn indexes_allow(table: Table<'_>) -> bool {
    let has_keys = layout::has_constraint_index(table);
    if has_keys && !entering::takes_batches(table) {
        return false;
    }
    !layout::has_ordinary_index(table)
        || !has_keys && layout::has_calendar_column(table)
        || chunk_marker::is_marked(table)
}

fn has_insert_triggers(table: Table<'_>) -> bool {
    table.triggers().is_some_and(|triggers| {
        triggers.trig_insert_before_row
            || triggers.trig_insert_after_row
            || triggers.trig_insert_instead_row
            || triggers.trig_insert_after_statement
            || triggers.trig_insert_new_table
    })
}

/// Statement triggers of the partitioned tables above may look at the rows.
fn ancestors_watch_inserts(table: Table<'_>) -> bool {
    if !table.class().relispartition {
        return false;
    }
    table.partition_ancestors().into_iter().any(|oid| {
        let parent = Open::table(oid, LockMode::AccessShare);
        has_insert_triggers(parent.rel())
    })
}

/// Takes a row into the table's batch; writes batches when they outgrow `varve.batch_memory`.
///
/// # Safety
/// `table` must be open for writing, the slot show a row of it.
pub unsafe fn collect(table: Table<'_>, slot: Slot<'_>, command: CommandId, options: i32) {
    // SAFETY: by contract.
    unsafe {
        let name = Name {
            table: table.oid(),
            command,
            sub: transaction::part(),
            options,
        };
        let full = STATE.with_borrow_mut(|state| {
            let at = match state.place(name) {
                Some(at) => at,
                None => state.add(Batch {
                    name,
                    layout: fresh::layout_for(table),
                    rows: RowSet::new(table.descriptor()),
                    may_be_too_long: row_size::may_be_too_long(table.descriptor()),
                }),
            };
            let batch = &mut state.batches[at];
            if batch.may_be_too_long {
                row_size::check(table.descriptor(), slot);
            }
            let rows = &mut batch.rows;
            let before = rows.bytes;
            rows.push_slot(slot);
            state.bytes += rows.bytes - before;
            state.bytes >= guc::batch_memory_bytes()
        });
        if full {
            flush_largest();
        }
    }
}

/// Makes room: writes the batch of the current subtransaction that takes the most memory. Those of outer ones wait for these.
fn flush_largest() {
    let sub = transaction::part();
    let largest = STATE.with_borrow_mut(|state| {
        let own = (0..state.batches.len()).filter(|&at| state.batches[at].name.sub == sub);
        let at = own.max_by_key(|&at| state.batches[at].rows.bytes)?;
        Some(state.take(at))
    });
    if let Some(batch) = largest {
        write(batch);
    }
}

/// The end of a bulk load into a table: writes what waits for it. COPY into a partitioned table says so each time that it turns
/// from one partition to others; its end is told by `leave_copy`.
pub fn finish_table(table: Table<'_>) {
    let is_part = table.class().relispartition;
    if !(is_part && STATE.with_borrow(|state| !state.copies.is_empty())) {
        flush_table(table);
    }
}

/// Writes what waits for a table.
pub fn flush_table(table: Table<'_>) {
    let oid = table.oid();
    flush_where(|batch| batch.name.table == oid);
}

/// Writes everything that waits in the current subtransaction.
pub fn flush_all() {
    if STATE.with_borrow(|state| state.batches.is_empty()) {
        return;
    }
    let sub = transaction::part();
    flush_where(|batch| batch.name.sub == sub);
}

fn flush_where(wanted: impl Fn(&Batch) -> bool) {
    loop {
        let next = STATE.with_borrow_mut(|state| {
            let at = state.batches.iter().position(&wanted)?;
            // An error that somebody catches leaves the rows where they are.
            check_is_current(&state.batches[at]);
            Some(state.take(at))
        });
        match next {
            Some(batch) => write(batch),
            None => return,
        }
    }
}

/// Do rows wait for being written? A scan that comes to them writes them, which nobody may while parallel workers run.
pub fn any_waits() -> bool {
    STATE.with_borrow(|state| !state.batches.is_empty())
}

/// Writes the table's batch if a scan with `snapshot` must see it.
pub fn flush_before_scan(table: Table<'_>, snapshot: Snapshot<'_>) {
    let oid = table.oid();
    let horizon = if !snapshot.is_mvcc() {
        CommandId::MAX
    } else {
        snapshot.command()
    };
    let waits = |batch: &Batch| batch.name.table == oid && batch.name.command < horizon;
    if STATE.with_borrow(|state| state.batches.iter().any(waits)) {
        flush_where(waits);
    }
}

/// Raises an error where a batch is one of an outer subtransaction: what is written now could be undone alone.
fn check_is_current(batch: &Batch) {
    if batch.name.sub != transaction::part() {
        error::raise(
            Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            "rows of an unfinished statement cannot be written from within a subtransaction",
            "A function with an EXCEPTION block, called by a COPY or INSERT, reads the table that the statement fills.",
            "Load the rows into a temporary table first.",
        );
    }
}

fn write(batch: Batch) {
    if batch.rows.rows == 0 {
        return;
    }
    wake::note_rows(batch.rows.rows as u64);
    let table = Open::table(batch.name.table, LockMode::RowExclusive);
    let target = Target {
        table: table.rel(),
        command: batch.name.command,
        options: batch.name.options,
    };
    // SAFETY: the table is open for writing.
    unsafe {
        let indexes = SeriesIndexes::open(table.rel());
        let rows = &batch.rows;
        let order = Rc::new(rows.order(&batch.layout));
        let to_tail = rows.rows < guc::batch_rows()
            || became_streamed(table.rel())
            || crowd::is_crowded(table.rel(), rows, &batch.layout, &order);
        let keys = entering::Batch::new(table.rel(), rows, &batch.layout, &order);
        match keys {
            None if to_tail => write_tail(&target, rows, &indexes, |_, _| {}),
            None => encode::write_fresh(&target, rows, &order, &batch.layout, &indexes),
            Some(keys) if to_tail => keys.enter(|| {
                let mut tail = Vec::with_capacity(rows.rows);
                let mut alone = true;
                let others = indexes.without(&keys.companions());
                write_tail(&target, rows, &others, |row, at| {
                    alone &= keys.enter_tail_row(row as u32, at);
                    tail.push(at);
                });
                entering::Entered {
                    tail,
                    alone,
                    ..entering::Entered::default()
                }
            }),
            Some(keys) => {
                keys.announce();
                // Others wait while keys are entered: what takes long comes before.
                let chunks = encode::encode_all_fresh(rows, &order, &batch.layout);
                keys.enter(|| entering::Entered {
                    headers: encode::write_all(&target, chunks, &indexes),
                    ..entering::Entered::default()
                });
            }
        }
    }
}

/// Has logical replication begun to read the table since the rows were collected? From the transaction's id
/// on nobody can begin without waiting for the end of the transaction.
fn became_streamed(table: Table<'_>) -> bool {
    transaction::id();
    fresh::is_streamed(table)
}

/// Writes the rows as ordinary tail rows, and shows the place of each to `written`.
fn write_tail(
    target: &Target,
    rows: &RowSet,
    indexes: &SeriesIndexes,
    mut written: impl FnMut(usize, Tid),
) {
    // SAFETY: the table is open for writing; values are of its columns.
    unsafe {
        let descriptor = target.table.descriptor();
        let ordinary = OrdinaryIndexes::open(target.table, layout::is_ordinary);
        let columns: Vec<Datums> = rows
            .columns
            .iter()
            .zip(descriptor.attributes())
            .map(|(column, attribute)| Datums::from_column(column, attribute.attlen))
            .collect();
        for row in 0..rows.rows {
            error::check_interrupts();
            let (mut values, mut nulls): (Vec<_>, Vec<_>) =
                columns.iter().map(|column| column.get(row)).unzip();
            let tuple = Formed::new(descriptor, &mut values, &mut nulls);
            let options = tail_page::choose(target.table, target.options);
            let at = heap::insert(target.table, &tuple, target.command, options);
            tail_page::note(target.table, at);
            write::expect_real(target.table, at);
            indexes.enter_row(&values, &nulls, at);
            ordinary.enter(&tuple);
            written(row, at);
        }
    }
}

/// Remembers how deep executor runs and COPY statements are nested, for an error that the subtransaction catches.
pub fn begin_subtransaction(sub: SubTransactionId) {
    STATE.with_borrow_mut(|state| {
        let depths = (sub, state.approved.len(), state.copies.len());
        state.depths.push(depths);
    });
}

/// A subtransaction ended: its batches go up to its parent, or away.
pub fn end_subtransaction(sub: SubTransactionId, parent: SubTransactionId, committed: bool) {
    STATE.with_borrow_mut(|state| {
        state.answers.clear();
        state.places.clear();
        if let Some(at) = state.depths.iter().position(|known| known.0 == sub) {
            if !committed {
                let (_, approved, copies) = state.depths[at];
                state.approved.truncate(approved);
                state.copies.truncate(copies);
            }
            state.depths.truncate(at);
        }
        if committed {
            let names = state.batches.iter_mut().map(|batch| &mut batch.name);
            names
                .filter(|name| name.sub == sub)
                .for_each(|name| name.sub = parent);
        } else {
            state.batches.retain(|batch| batch.name.sub != sub);
            state.bytes = state.batches.iter().map(|batch| batch.rows.bytes).sum();
        }
    });
}
