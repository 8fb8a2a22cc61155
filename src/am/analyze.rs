//! ANALYZE: all rows of a sampled page are counted, its tail rows as heap does it and those of the chunks whose
//! headers are on it. Each of them is shown with the same chance, so that core's sample is one of rows, and
//! whatever repeats in them does not repeat in the sample. In a table that may have chunks rows are numbered in
//! the order of time instead of their places: core sorts its sample by that before it computes correlations. Where
//! compact puts a chunk says nothing.

use super::scan::{classify_slot, VarveScan};
use crate::catalog::{keys, layout};
use crate::chunk::chunk_cache;
use crate::chunk::slot;
use crate::chunk::tuple_kind::TupleKind;
use crate::pg::heap::heap_callback;
use crate::pg::relation::Table;
use crate::pg::snapshot::{self, Snapshot};
use crate::pg::tid::{self, Tid};
use crate::pg::wake;
use crate::table::visible::OpenChunk;
use pgrx::pg_sys;
use pgrx::prelude::*;
use std::collections::VecDeque;

/// Rows that core samples per unit of the statistics target, and pages that it looks at.
const SAMPLED_PER_TARGET: f64 = 300.0;
/// Rows to show for each one that core samples: its sample is full, and sorted, where the table's estimate is not
/// far off.
const SHOWN_PER_SAMPLED: f64 = 2.0;

/// Which rows are shown: each with the same chance, whatever was chosen before.
struct Choice {
    chance: f64,
    /// Rows to pass over before the next one that is shown.
    skip: u64,
}

impl Choice {
    fn new(table: Table<'_>) -> Choice {
        // SAFETY: the table is open.
        let (pages, total, sampled) = unsafe {
            let (mut pages, mut total, mut visible) = (0, 0.0, 0.0);
            let widths = core::ptr::null_mut();
            super::ddl::relation_estimate_size(
                table.as_ptr(),
                widths,
                &mut pages,
                &mut total,
                &mut visible,
            );
            (
                f64::from(pages),
                total,
                SAMPLED_PER_TARGET * f64::from(statistics_target(table)),
            )
        };
        let on_sampled_pages = total * (sampled / pages.max(1.0)).min(1.0);
        let mut choice = Choice {
            chance: SHOWN_PER_SAMPLED * sampled / on_sampled_pages.max(1.0),
            skip: 0,
        };
        choice.draw();
        choice
    }

    /// Chooses the next row.
    fn draw(&mut self) {
        self.skip = 0;
        if self.chance < 1.0 {
            // SAFETY: core's generator, as its own sampling uses it.
            let fraction = unsafe { pg_sys::anl_random_fract() };
            self.skip = (fraction.ln() / (-self.chance).ln_1p()) as u64;
        }
    }

    /// Is the next row chosen?
    fn takes_next(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        self.draw();
        true
    }

    /// The first row that is chosen of those from `row` to `end`.
    fn next_of(&mut self, row: u32, end: u32) -> Option<u32> {
        let left = u64::from(end.saturating_sub(row));
        if self.skip >= left {
            self.skip -= left;
            return None;
        }
        let chosen = row + self.skip as u32;
        self.draw();
        Some(chosen)
    }
}

/// The greatest statistics target of a table's columns.
fn statistics_target(table: Table<'_>) -> i32 {
    // SAFETY: the table is open; syscache look-ups.
    unsafe {
        let mut most = pg_sys::default_statistics_target;
        for attribute in table.attributes() {
            let cache = pg_sys::SysCacheIdentifier::ATTNUM as i32;
            let found = pg_sys::SearchSysCache2(cache, table.oid().into(), attribute.attnum.into());
            if found.is_null() {
                continue;
            }
            let mut isnull = false;
            let number = pg_sys::Anum_pg_attribute_attstattarget as pg_sys::AttrNumber;
            let target = pg_sys::SysCacheGetAttr(cache, found, number, &mut isnull);
            if !isnull {
                most = most.max(target.value() as i32);
            }
            pg_sys::ReleaseSysCache(found);
        }
        most
    }
}

/// Numbers rows in the order of their times, as TIDs.
struct Clock {
    /// The time column, from 1, and its length.
    column: i16,
    length: i16,
    /// The first time that was seen.
    origin: Option<i64>,
}

/// Numbers up to here are of times before the origin.
const ORIGIN: u64 = 1 << 45;
const OFFSET_BITS: u32 = 15;

impl Clock {
    /// None for a table that has no chunks.
    fn new(table: Table<'_>) -> Option<Clock> {
        let column = layout::of(table)
            .time
            .filter(|_| keys::may_have_chunks(table))?;
        let attribute = &table.attributes()[usize::from(column) - 1];
        Some(Clock {
            column: column as i16,
            length: attribute.attlen,
            origin: None,
        })
    }

    /// A time's number: the nearer to the first one, the finer. Nulls come last.
    fn number(&mut self, value: pg_sys::Datum, isnull: bool) -> Tid {
        let time = match self.length {
            2 => i64::from(value.value() as i16),
            4 => i64::from(value.value() as i32),
            _ => value.value() as i64,
        };
        let number = if isnull {
            2 * ORIGIN - 1
        } else {
            let origin = *self.origin.get_or_insert(time);
            // Bits of positive doubles are in their order.
            let distance = (time.abs_diff(origin) as f64).to_bits() >> (64 - 46);
            if time < origin {
                ORIGIN - distance
            } else {
                ORIGIN + distance
            }
        };
        Tid {
            block: (number >> OFFSET_BITS) as u32,
            offset: 1 + (number & ((1 << OFFSET_BITS) - 1)) as u16,
        }
    }

    /// Numbers the row that the slot shows.
    ///
    /// # Safety
    /// `slot` must be of ours, with a row of the clock's table.
    unsafe fn stamp(&mut self, slot: *mut pg_sys::TupleTableSlot) {
        // SAFETY: by contract. Heap's scan put its tuple's head into the slot.
        unsafe {
            let mut isnull = false;
            let time = slot::attribute(slot, self.column, &mut isnull);
            let number = tid::to_pg(self.number(time, isnull));
            if slot::row_of(slot).is_some() {
                (*slot).tts_tid = number;
            } else {
                (*(*slot::heap_part(slot)).base.tuple).t_self = number;
            }
        }
    }
}

#[derive(Default)]
pub struct AnalyzeState {
    choice: Option<Choice>,
    clock: Option<Clock>,
    page: PageState,
}

#[derive(Default)]
struct PageState {
    tail_done: bool,
    headers: VecDeque<Tid>,
    /// The chunk being shown, and the first row of it that was not asked about.
    chunk: Option<(OpenChunk, u32)>,
}

impl AnalyzeState {
    /// Goes to another page. To be called before that is locked, since other pages are looked at for the first one.
    fn next_page(&mut self, table: Table<'_>) {
        if self.choice.is_none() {
            self.choice = Some(Choice::new(table));
            self.clock = Clock::new(table);
        }
        self.page = PageState::default();
    }

    /// Numbers the row in the slot; says that there is one.
    ///
    /// # Safety
    /// As `Clock::stamp`.
    unsafe fn show(&mut self, slot: *mut pg_sys::TupleTableSlot) -> bool {
        if let Some(clock) = &mut self.clock {
            // SAFETY: the callers' contract.
            unsafe { clock.stamp(slot) };
        }
        true
    }
}

#[cfg(feature = "pg15")]
#[pg_guard]
pub unsafe extern "C-unwind" fn scan_analyze_next_block(
    scan: pg_sys::TableScanDesc,
    block: pg_sys::BlockNumber,
    strategy: pg_sys::BufferAccessStrategy,
) -> bool {
    // SAFETY: called by core for a scan of ours.
    unsafe {
        let own = VarveScan::of(scan);
        own.state()
            .analyze
            .next_page(Table::from_ptr(own.base.rs_rd));
        wake::after_visit();
        heap_callback!(scan_analyze_next_block, own.heap, block, strategy)
    }
}

#[cfg(feature = "pg17")]
#[pg_guard]
pub unsafe extern "C-unwind" fn scan_analyze_next_block(
    scan: pg_sys::TableScanDesc,
    stream: *mut pg_sys::ReadStream,
) -> bool {
    // SAFETY: called by core for a scan of ours.
    unsafe {
        let own = VarveScan::of(scan);
        own.state()
            .analyze
            .next_page(Table::from_ptr(own.base.rs_rd));
        wake::after_visit();
        heap_callback!(scan_analyze_next_block, own.heap, stream)
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn scan_analyze_next_tuple(
    scan: pg_sys::TableScanDesc,
    oldest: pg_sys::TransactionId,
    live: *mut f64,
    dead: *mut f64,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: called by core for a scan of ours with a slot of ours.
    unsafe {
        let own = VarveScan::of(scan);
        let table = Table::from_ptr(own.base.rs_rd);
        let state = &mut own.state().analyze;
        let AnalyzeState { choice, page, .. } = state;
        let choice = choice.as_mut().expect("BUG: no page to analyze");
        let heap = own.heap;
        // Heap keeps its page locked from call to call: headers are opened when it is through.
        while !page.tail_done {
            let found = slot::as_heap(slot, || {
                heap_callback!(scan_analyze_next_tuple, heap, oldest, live, dead, slot)
            });
            if !found {
                page.tail_done = true;
                break;
            }
            match classify_slot(slot) {
                TupleKind::Row if choice.takes_next() => return state.show(slot),
                TupleKind::Row => {}
                TupleKind::Skip => *live -= 1.0,
                TupleKind::Header => {
                    *live -= 1.0;
                    let found = &*(*slot::heap_part(slot)).base.tuple;
                    page.headers.push_back(tid::from_pg(&found.t_self));
                }
            }
        }
        slot::clear_slot(slot);
        loop {
            if let Some((open, next)) = &mut page.chunk {
                while let Some(row) = choice.next_of(*next, open.reader.rows()) {
                    *next = row + 1;
                    if !open.is_hidden(row) {
                        slot::store_row(slot, &open.reader, row, table.oid());
                        return state.show(slot);
                    }
                }
                slot::clear_slot(slot);
                // The session's queries need the room that it keeps more than the next ANALYZE does.
                open.reader.forget_rows();
                page.chunk = None;
            }
            let Some(at) = page.headers.pop_front() else {
                return false;
            };
            let any = Snapshot::any();
            if let Some(reader) = chunk_cache::reader_at(table, at, any) {
                let rows = reader.rows();
                *live += f64::from(rows - reader.chunk.header.deleted);
                *dead += f64::from(reader.chunk.header.deleted);
                let mut self_snapshot = snapshot::dirty();
                let open = OpenChunk::new(reader, Snapshot::from_ptr(&mut self_snapshot));
                page.chunk = Some((open, 0));
            }
        }
    }
}
