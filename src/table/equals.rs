//! Finding rows by their values in the chunks that one transaction wrote: how rows that it moved are found.
//! Rows with equal times are compared in full; times of a chunk are kept in order, since many rows that moved
//! together are looked for one after the other.

use crate::pg::relation;
use crate::pg::tid::Tid;
use crate::storage::read::{Chunk, Reader};
use crate::storage::registry;
use pgrx::pg_sys;
use std::cell::RefCell;
use std::rc::Rc;

/// Values and nulls of a row.
pub type Values = Vec<(pg_sys::Datum, bool)>;

/// Values of a heap tuple.
///
/// # Safety
/// `found` must be a tuple of this descriptor.
pub unsafe fn deform(found: pg_sys::HeapTuple, descriptor: pg_sys::TupleDesc) -> Values {
    // SAFETY: the caller's contract.
    unsafe {
        let natts = (*descriptor).natts as usize;
        let mut values = vec![pg_sys::Datum::from(0usize); natts];
        let mut nulls = vec![true; natts];
        pg_sys::heap_deform_tuple(found, descriptor, values.as_mut_ptr(), nulls.as_mut_ptr());
        values.into_iter().zip(nulls).collect()
    }
}

/// Are two rows the same bytes?
///
/// # Safety
/// Both must be rows of this descriptor.
pub unsafe fn equal(descriptor: pg_sys::TupleDesc, a: &Values, b: &Values) -> bool {
    // SAFETY: both are rows of this descriptor.
    unsafe {
        let attributes = relation::attributes(descriptor);
        a.iter().zip(b).zip(attributes).all(|((a, b), attribute)| {
            a.1 == b.1 && (a.1 || relation::same_image(a.0, b.0, attribute))
        })
    }
}

/// The row of `values` in the chunks that `mover` wrote. Of several, the one with as many equals before
/// it as `earlier` counts among the rows that moved.
///
/// # Safety
/// `table` must be open; a snapshot that is older than the mover's commit protects what it wrote.
pub unsafe fn find_by_value(
    table: pg_sys::Relation,
    mover: pg_sys::TransactionId,
    values: &Values,
    earlier: impl Fn() -> usize,
) -> Option<Tid> {
    // SAFETY: the caller's contract.
    unsafe {
        let mut places = Vec::new();
        let any = core::ptr::addr_of_mut!(pg_sys::SnapshotAnyData);
        let mut wanted = None;
        for header in registry::headers_by(table, mover).iter() {
            let covers = |&time: &i64| (header.min_time..=header.max_time).contains(&time);
            if !wanted.as_ref().is_none_or(covers) {
                continue;
            }
            if let Some(reader) = registry::reader_at(table, header.tid, any) {
                // The chunks of one mover have one time column.
                wanted = wanted_time(table, &reader.chunk, values);
                if wanted.as_ref().is_none_or(covers) {
                    rows_equal(table, &reader, values, &mut places);
                }
            }
        }
        if places.len() <= 1 {
            return places.first().copied();
        }
        places.get(earlier()).copied()
    }
}

/// The time of a row of these values as the chunk's header states times, if it has one.
unsafe fn wanted_time(table: pg_sys::Relation, chunk: &Chunk, values: &Values) -> Option<i64> {
    let at = usize::from(chunk.statics.time?) - 1;
    // SAFETY: the caller's contract.
    let attribute = unsafe { relation::attributes((*table).rd_att) }.get(at)?;
    let &(value, null) = values.get(at)?;
    (!null).then(|| as_time(value, attribute)).flatten()
}

/// A datum of a time type as an integer.
fn as_time(value: pg_sys::Datum, attribute: &pg_sys::FormData_pg_attribute) -> Option<i64> {
    match (attribute.attbyval, attribute.attlen) {
        (true, 8) => Some(value.value() as i64),
        (true, 4) => Some(i64::from(value.value() as i32)),
        (true, 2) => Some(i64::from(value.value() as i16)),
        _ => None,
    }
}

/// Rows of a chunk with their times, in the order of these; those without one are not in it.
type TimeOrder = Rc<[(i64, u32)]>;

thread_local! {
    static ORDERS: RefCell<Vec<(Rc<Reader>, TimeOrder)>> = const { RefCell::new(Vec::new()) };
}

/// Chunks of which the rows' times are kept in order.
const KEPT_ORDERS: usize = 8;

/// Forgets all orders; at the end of each transaction.
pub fn forget() {
    ORDERS.with_borrow_mut(Vec::clear);
}

/// The rows of a chunk by time. Many rows that moved together are looked for one after the other.
unsafe fn time_order(table: pg_sys::Relation, reader: &Rc<Reader>, at: usize) -> TimeOrder {
    let known = ORDERS.with_borrow(|orders| {
        let known = orders.iter().find(|known| Rc::ptr_eq(&known.0, reader));
        known.map(|known| Rc::clone(&known.1))
    });
    known.unwrap_or_else(|| {
        // SAFETY: the caller's contract.
        let (descriptor, attribute) = unsafe {
            let descriptor = (*table).rd_att;
            (descriptor, &relation::attributes(descriptor)[at])
        };
        let time_of = |row| {
            // SAFETY: as above.
            let (value, null) = unsafe { reader.value(descriptor, row, at) };
            let time = if null {
                None
            } else {
                as_time(value, attribute)
            };
            time.map(|time| (time, row))
        };
        let mut order: Vec<(i64, u32)> = (0..reader.rows()).filter_map(time_of).collect();
        order.sort_unstable();
        let order: TimeOrder = order.into();
        ORDERS.with_borrow_mut(|orders| {
            if orders.len() == KEPT_ORDERS {
                orders.remove(0);
            }
            orders.push((Rc::clone(reader), Rc::clone(&order)));
        });
        order
    })
}

/// Appends the places of the chunk's rows that have these values and are not deleted.
///
/// # Safety
/// `table` must be open.
pub unsafe fn rows_equal(
    table: pg_sys::Relation,
    reader: &Rc<Reader>,
    values: &Values,
    places: &mut Vec<Tid>,
) {
    // SAFETY: the caller's contract.
    unsafe {
        let chunk: &Chunk = &reader.chunk;
        let descriptor = (*table).rd_att;
        let mut add = |row: u32| {
            let here = (0..values.len())
                .map(|at| reader.value(descriptor, row, at))
                .collect();
            if !chunk.map.contains(row) && equal(descriptor, &here, values) {
                places.push(Tid::of_row(chunk.tid, row));
            }
        };
        // Time tells most rows apart.
        match (chunk.statics.time, wanted_time(table, chunk, values)) {
            (Some(number), Some(time)) => {
                let order = time_order(table, reader, usize::from(number) - 1);
                let first = order.partition_point(|&(other, _)| other < time);
                let same = order[first..]
                    .iter()
                    .take_while(|&&(other, _)| other == time);
                same.for_each(|&(_, row)| add(row));
            }
            _ => (0..reader.rows()).for_each(add),
        }
    }
}
