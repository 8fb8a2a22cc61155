//! Fingerprints of rows: a number that follows from all values of a row, the same for a tail row and for a row
//! of a chunk. The fingerprints of a chunk, sorted, find a row of it by its values in a few steps; they are kept,
//! since many rows that moved together are looked for one after the other. Equal fingerprints prove nothing.

use crate::chunk::datum::{self, Datums};
use crate::chunk::read::{Chunk, Damage};
use crate::pg::descriptor::Descriptor;
use crate::pg::error;
use crate::pg::tid::Tid;
use crate::pg::transaction::{Access, PerTransaction};
use crate::pg::varlena;
use crate::pg::{Datum, FormData_pg_attribute, Oid, TransactionId};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::Hasher;
use std::rc::Rc;

/// Values and nulls of a row.
pub type Values = Vec<(Datum, bool)>;

/// Fingerprints of the rows of a chunk that are not deleted, sorted, with the rows' numbers.
pub type Order = Rc<[(u32, u32)]>;

/// The version of a header that a transaction wrote or deleted: file, transaction, place. For as long as the
/// transaction that asks runs it names one version only.
pub type VersionKey = (Oid, TransactionId, Tid);

/// Memory for the orders that are kept: eight million rows.
const KEPT_BYTES: usize = 64 << 20;

struct Kept {
    order: Order,
    used: u64,
}

#[derive(Default)]
struct Orders {
    kept: FxHashMap<VersionKey, Kept>,
    bytes: usize,
    /// Counts uses, so that the one longest unused goes first.
    uses: u64,
}

thread_local! {
    static ORDERS: PerTransaction<Orders> = PerTransaction::default();
}

/// The order of a header version, where it is kept.
pub fn kept(key: VersionKey) -> Option<Order> {
    ORDERS.with_borrow_mut(|orders| {
        orders.uses += 1;
        let kept = orders.kept.get_mut(&key)?;
        kept.used = orders.uses;
        Some(Rc::clone(&kept.order))
    })
}

/// Makes the order of a header version, and keeps it.
///
/// # Safety
/// `chunk`'s table must be open.
pub unsafe fn make(key: VersionKey, chunk: &Chunk) -> Order {
    // SAFETY: by contract.
    let order: Order = match unsafe { sorted(chunk) } {
        Ok(order) => order.into(),
        Err(damage) => chunk.raise(&damage),
    };
    ORDERS.with_borrow_mut(|orders| orders.keep(key, Rc::clone(&order)));
    order
}

impl Orders {
    fn keep(&mut self, key: VersionKey, order: Order) {
        let bytes = |order: &Order| core::mem::size_of_val::<[(u32, u32)]>(order);
        self.bytes += bytes(&order);
        while self.bytes > KEPT_BYTES {
            let Some(oldest) = self.kept.iter().min_by_key(|(_, kept)| kept.used) else {
                break;
            };
            let oldest = *oldest.0;
            if let Some(gone) = self.kept.remove(&oldest) {
                self.bytes -= bytes(&gone.order);
            }
        }
        self.uses += 1;
        let used = self.uses;
        self.kept.insert(key, Kept { order, used });
    }
}

/// The rows of an order with this fingerprint.
pub fn rows_with(order: &Order, print: u32) -> impl Iterator<Item = u32> + '_ {
    let first = order.partition_point(|&(other, _)| other < print);
    order[first..]
        .iter()
        .take_while(move |&&(other, _)| other == print)
        .map(|&(_, row)| row)
}

/// The fingerprint of a row.
///
/// # Safety
/// `values` must be a row of this descriptor.
pub unsafe fn of_row(descriptor: Descriptor<'_>, values: &Values) -> u32 {
    // SAFETY: by contract.
    unsafe {
        let attributes = descriptor.attributes();
        let row = values.iter().zip(attributes);
        finish(
            row.filter(|(_, attribute)| !attribute.attisdropped)
                .fold(0, |print, (&(value, null), attribute)| {
                    mix(print, of_value(value, null, attribute))
                }),
        )
    }
}

/// The fingerprint of some attributes (by number) of a row.
///
/// # Safety
/// As `of_row`.
pub unsafe fn of_attributes(
    descriptor: Descriptor<'_>,
    numbers: &[u16],
    mut value_at: impl FnMut(usize) -> (Datum, bool),
) -> u64 {
    // SAFETY: by contract.
    unsafe {
        let attributes = descriptor.attributes();
        numbers.iter().fold(0, |print, &number| {
            let at = usize::from(number) - 1;
            let (value, null) = value_at(at);
            mix(print, of_value(value, null, &attributes[at]))
        })
    }
}

/// The fingerprints of a chunk's living rows, sorted.
///
/// # Safety
/// As `make`.
unsafe fn sorted(chunk: &Chunk) -> Result<Vec<(u32, u32)>, Damage> {
    let rows = chunk.header.rows;
    if chunk.map.deleted() == rows {
        return Ok(Vec::new()); // Perhaps a tombstone, without payload.
    }
    let mut prints = vec![0u64; rows as usize];
    // SAFETY: the caller's contract.
    unsafe {
        let descriptor = chunk.table().descriptor();
        for (at, attribute) in descriptor.attributes().iter().enumerate() {
            if attribute.attisdropped {
                continue;
            }
            if at < chunk.columns.columns().len() {
                add_column(chunk, at, attribute, &mut prints)?;
            } else {
                let (value, null) = datum::missing(descriptor, at + 1);
                let same = of_value(value, null, attribute);
                prints
                    .iter_mut()
                    .for_each(|print| *print = mix(*print, same));
            }
        }
    }
    let mut order: Vec<(u32, u32)> = prints
        .into_iter()
        .map(finish)
        .zip(0..)
        .filter(|&(_, row)| !chunk.map.contains(row))
        .collect();
    order.sort_unstable();
    Ok(order)
}

/// Mixes the values of a column (from 0) into the fingerprints of a chunk's rows.
///
/// # Safety
/// `attribute` must be that of the column in the chunk's table.
unsafe fn add_column(
    chunk: &Chunk,
    at: usize,
    attribute: &FormData_pg_attribute,
    prints: &mut [u64],
) -> Result<(), Damage> {
    let kind = chunk.columns.column(at).kind;
    if !datum::fits(kind, attribute) {
        return Err(Damage::new(format!(
            "column {} has another storage type",
            at + 1
        )));
    }
    let directory = chunk.directory(at)?;
    let mut column = datum::empty(kind);
    for block in 0..directory.len() {
        error::check_interrupts();
        let rows = chunk.decode_block(at, &directory, block, &mut column)?;
        let datums = Datums::from_column(&column, attribute.attlen);
        for row in rows.clone() {
            let (value, null) = datums.get((row - rows.start) as usize);
            let print = &mut prints[row as usize];
            // SAFETY: the kind fits the attribute.
            *print = mix(*print, unsafe { of_value(value, null, attribute) });
        }
    }
    Ok(())
}

/// A number for a value, the same for all that `image::same_image` calls the same.
///
/// # Safety
/// `value` must be of the attribute's type, unless it is null.
unsafe fn of_value(value: Datum, null: bool, attribute: &FormData_pg_attribute) -> u64 {
    const NULL: u64 = 0x6e75_6c6c;
    if null {
        return NULL;
    }
    // SAFETY: a value of this attribute, by the callers' contracts.
    unsafe {
        match (attribute.attbyval, attribute.attlen) {
            (true, len @ 1..=7) => value.value() as u64 & ((1 << (8 * len)) - 1),
            (true, _) => value.value() as u64,
            (false, len @ 1..) => {
                let start: *const u8 = value.cast_mut_ptr();
                of_bytes(core::slice::from_raw_parts(start, len as usize))
            }
            (false, len) => varlena::with_body(value, len, of_bytes),
        }
    }
}

fn of_bytes(bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

fn mix(print: u64, value: u64) -> u64 {
    let mixed = (print.rotate_left(25) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

fn finish(print: u64) -> u32 {
    (mix(print, 0) >> 32) as u32
}
