//! The notes of headers that a session has seen, from one transaction to the next, where they were committed: the slot of such a note stays
//! what it is as long as its header version is there, and so does the note. Whether a snapshot sees one is asked of its writer. Those of
//! others are read again, since the place of a note that was rolled back may be that of a new one.

use super::notes::{self, Note, Notes, View};
use super::read::Damage;
use super::session_cache::Place;
use crate::guc;
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::transaction;
use crate::pg::TransactionId;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::rc::Rc;
use varve_columns::tuple::{header, note};

/// Headers whose notes are kept.
const MOST_KEPT: usize = 256;
/// Transaction ids do not come round while notes are kept, in microseconds.
const MOST_AGE: i64 = 3_600_000_000;

struct Kept {
    /// Who wrote the header: the place of one that is gone may be that of a later version.
    writer: TransactionId,
    slots: Rc<[u8]>,
    /// The committed ones of those that the slots name, in their order.
    committed: Rc<[Note]>,
    /// There were no others.
    is_all: bool,
    /// The stamp of them alone.
    stamp: u64,
    /// When the first of them were read.
    since: i64,
}

thread_local! {
    static KEPT: RefCell<FxHashMap<Place, Kept>> = RefCell::default();
}

/// The notes of the header at `place` that `writer` has written and whose bytes are `body`.
pub fn find(
    table: Table<'_>,
    place: Place,
    writer: TransactionId,
    body: &[u8],
    view: View,
) -> Result<Notes, Damage> {
    let slots = &body[header::slots_start(body)..];
    let snapshot = match view {
        View::Written => return Ok(Notes::default()),
        View::Naming(_) => Snapshot::NONE,
        View::Snapshot(snapshot) | View::Check(snapshot) => snapshot,
    };
    if note::are_empty(slots) {
        return Ok(Notes::default());
    }
    let read = |view, known: &[Note]| {
        notes::of_header(table, place.2, body, header::row_count(body), view, known)
    };
    let (is_mvcc, is_serializable) = {
        let is_mvcc = snapshot.is_mvcc();
        (is_mvcc, transaction::is_serializable())
    };
    // Serializable transactions note what they read, and what they miss.
    if snapshot.is_none() || is_mvcc && is_serializable {
        return read(view, &[]);
    }
    let (known, complete) = known(place, writer, slots);
    let now = if let Some(complete) = complete {
        complete
    } else {
        // As they are before the notes are looked at: what is filled meanwhile is asked for again.
        let slots: Rc<[u8]> = slots.into();
        let any = Snapshot::any();
        let mut now = read(View::Check(any), &known)?;
        keep(place, writer, &slots, &now);
        if is_mvcc && !now.are_committed {
            return read(view, &known);
        }
        if now.are_committed {
            now.slots = Some(slots);
        }
        now
    };
    Ok(if is_mvcc { seen_by(now, snapshot) } else { now })
}

impl Kept {
    /// Are they what `writer` has written, and no transaction id of them is used again at `now`?
    fn is_good(&self, writer: TransactionId, now: i64) -> bool {
        let ages = self.since..self.since.saturating_add(MOST_AGE);
        self.writer == writer && ages.contains(&now)
    }
}

/// Those of the notes that are known to be committed, and, where the slots are what they were when there were no others, all that there is to know.
fn known(place: Place, writer: TransactionId, slots: &[u8]) -> (Rc<[Note]>, Option<Notes>) {
    let now = transaction::started();
    let known = KEPT.with_borrow(|kept| {
        let kept = kept.get(&place).filter(|kept| kept.is_good(writer, now))?;
        let is_all = kept.is_all && *kept.slots == *slots;
        let complete = is_all.then(|| Notes {
            seen: Rc::clone(&kept.committed),
            slots: Some(Rc::clone(&kept.slots)),
            stamp: Some(kept.stamp),
            ..Notes::default()
        });
        Some((Rc::clone(&kept.committed), complete))
    });
    known.unwrap_or_else(|| (Rc::from([]), None))
}

fn keep(place: Place, writer: TransactionId, slots: &Rc<[u8]>, notes: &Notes) {
    let (now, is_own) = {
        let is_own = |note: &Note| transaction::is_current(note.xmin());
        let now = transaction::started();
        (now, !notes.are_committed && notes.seen.iter().any(is_own))
    };
    if is_own || guc::session_cache_bytes() == 0 {
        return;
    }
    KEPT.with_borrow_mut(|kept| {
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        let before = kept.get(&place).filter(|kept| kept.is_good(writer, now));
        let of_header = Kept {
            writer,
            slots: Rc::clone(slots),
            committed: Rc::clone(&notes.seen),
            is_all: notes.are_committed,
            stamp: notes.stamp(),
            since: before.map_or(now, |kept| kept.since),
        };
        kept.insert(place, of_header);
    });
}

/// Those of committed notes that an MVCC snapshot sees.
fn seen_by(committed: Notes, snapshot: Snapshot<'_>) -> Notes {
    let is_seen = |note: &&Note| !snapshot.is_running(note.xmin());
    if committed.seen.iter().all(|note| is_seen(&note)) {
        return committed;
    }
    let seen: Vec<Note> = committed.seen.iter().filter(is_seen).cloned().collect();
    Notes {
        seen: seen.into(),
        are_committed: false,
        slots: None,
        stamp: None,
        ..committed
    }
}
