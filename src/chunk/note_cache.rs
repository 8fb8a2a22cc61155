//! The notes of headers that a session has seen, from one transaction to the next, where all of them were committed: as long as the
//! slots of a header version are the same, no note comes to it and none goes. Whether a snapshot sees one is asked of its writer.

use super::notes::{self, Note, Notes, View};
use super::read::Damage;
use super::session_cache::Place;
use crate::guc;
use pgrx::pg_sys;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use varve_columns::tuple::header;

/// Headers whose notes are kept.
const MOST_KEPT: usize = 256;
/// Transaction ids do not come round while notes are kept, in microseconds.
const MOST_AGE: i64 = 3_600_000_000;

struct Kept {
    /// Who wrote the header: the place of one that is gone may be that of a later version.
    writer: pg_sys::TransactionId,
    slots: Box<[u8]>,
    notes: Notes,
    since: pg_sys::TimestampTz,
}

thread_local! {
    static KEPT: RefCell<FxHashMap<Place, Kept>> = RefCell::default();
}

/// The notes of the header at `place` that `writer` has written and whose bytes are `body`.
///
/// # Safety
/// `table` must be open, the header's tuple pinned, the view's snapshot valid.
pub unsafe fn find(
    table: pg_sys::Relation,
    place: Place,
    writer: pg_sys::TransactionId,
    body: &[u8],
    view: View,
) -> Result<Notes, Damage> {
    let slots = &body[header::slots_start(body)..];
    let snapshot = match view {
        View::Written => return Ok(Notes::default()),
        View::Snapshot(snapshot) | View::Check(snapshot) => snapshot,
    };
    if slots.iter().all(|&byte| byte == 0) {
        return Ok(Notes::default());
    }
    let read = |view| {
        // SAFETY: by contract.
        unsafe { notes::of_header(table, place.2, body, header::row_count(body), view) }
    };
    // SAFETY: by contract.
    let (is_mvcc, is_serializable) = unsafe {
        let is_mvcc =
            !snapshot.is_null() && (*snapshot).snapshot_type == pg_sys::SnapshotType::SNAPSHOT_MVCC;
        let level = pg_sys::XactIsoLevel as u32;
        (is_mvcc, level == pg_sys::XACT_SERIALIZABLE)
    };
    // Serializable transactions note what they read, and what they miss.
    if snapshot.is_null() || is_mvcc && is_serializable {
        return read(view);
    }
    let committed = match known(place, writer, slots) {
        Some(known) => known,
        None => {
            let slots = slots.into();
            let any = core::ptr::addr_of_mut!(pg_sys::SnapshotAnyData);
            let now = read(View::Check(any))?;
            if now.is_final {
                keep(place, writer, slots, &now);
            } else if is_mvcc {
                return read(view);
            }
            now
        }
    };
    Ok(if is_mvcc {
        // SAFETY: by contract.
        unsafe { seen_by(committed, snapshot) }
    } else {
        committed
    })
}

fn known(place: Place, writer: pg_sys::TransactionId, slots: &[u8]) -> Option<Notes> {
    // SAFETY: inside a transaction.
    let now = unsafe { pg_sys::GetCurrentTransactionStartTimestamp() };
    KEPT.with_borrow(|kept| {
        let kept = kept.get(&place)?;
        let is_same = kept.writer == writer && *kept.slots == *slots;
        let is_young = (kept.since..kept.since.saturating_add(MOST_AGE)).contains(&now);
        (is_same && is_young).then(|| kept.notes.clone())
    })
}

fn keep(place: Place, writer: pg_sys::TransactionId, slots: Box<[u8]>, notes: &Notes) {
    if guc::session_cache_bytes() == 0 {
        return;
    }
    // SAFETY: inside a transaction.
    let since = unsafe { pg_sys::GetCurrentTransactionStartTimestamp() };
    KEPT.with_borrow_mut(|kept| {
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        let notes = notes.clone();
        let of_header = Kept {
            writer,
            slots,
            notes,
            since,
        };
        kept.insert(place, of_header);
    });
}

/// Those of committed notes that an MVCC snapshot sees.
unsafe fn seen_by(committed: Notes, snapshot: pg_sys::Snapshot) -> Notes {
    // SAFETY: the caller's contract.
    let is_seen = |note: &&Note| unsafe { !pg_sys::XidInMVCCSnapshot(note.xmin(), snapshot) };
    if committed.seen.iter().all(|note| is_seen(&note)) {
        return committed;
    }
    let seen: Vec<Note> = committed.seen.iter().filter(is_seen).cloned().collect();
    Notes {
        seen: seen.into(),
        ..committed
    }
}
