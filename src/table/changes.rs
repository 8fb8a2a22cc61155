//! Deletes and updates of compressed rows. Changes collect in memory, by chunk, until the transaction ends or many have collected; then
//! notes or new headers say them (`flush`, docs/design/0036). Until then our own scans overlay them. Each entry knows its command and subtransaction.

use super::unwritten::{Overlay, Stamp, Unwritten};
use crate::chunk::read::Chunk;
use crate::pg::error::{self, Code};
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use crate::pg::transaction::{self, Access, PerTransaction};
use pgrx::pg_sys;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use std::rc::Rc;
use varve_columns::tuple::delete_map::DeleteMap;

/// Rows of a chunk from which on the end of a statement writes them; twice as many for each version that this transaction has written
/// already, since each of them is one more for its scans to pass by.
const RIPE_ROWS: usize = 64;
/// Where the newest header of a chunk is, as far as this transaction has changed it.
#[derive(Clone, Copy, PartialEq)]
pub enum Newest {
    At(Tid),
    /// Deleted with all its rows.
    Gone,
}

/// A header version that a flush left.
pub(super) struct Written {
    pub(super) sub: pg_sys::SubTransactionId,
    pub(super) newest: Newest,
    /// The version that it replaced, and what was to be laid over that, where a cursor may go on seeing it.
    pub(super) replaced: Tid,
    pub(super) laid_over: Option<Rc<RefCell<Unwritten>>>,
}

/// What this transaction knows and holds of one chunk.
pub(super) struct Touched {
    pub(super) file: pg_sys::Oid,
    /// The chunk's state under our lock: it tells which rows were gone before we came.
    before: Rc<DeleteMap>,
    /// The header that we locked first, and then what each of our flushes left.
    base: Tid,
    pub(super) versions: Vec<Written>,
    /// Subtransaction whose note says what has become of rows, though the transaction goes on.
    pub(super) noted: Option<pg_sys::SubTransactionId>,
    /// Subtransaction that holds the exclusive lock on the newest header, if any. Without it the transaction has locked single
    /// rows: what it changes is written when it ends.
    pub(super) locked: Option<pg_sys::SubTransactionId>,
    pub(super) unwritten: Rc<RefCell<Unwritten>>,
    /// The subtransactions that have done something to the chunk, each around the next one.
    pub(super) subs: Vec<Level>,
    /// The transaction's snapshot is older than `base`, so that its scans see an earlier version. They must
    /// not see ours beside it: what we change stays in memory, laid over that version, until we commit.
    pub(super) foreign: bool,
    /// Among the ripe ones of `State`.
    pub(super) is_listed: bool,
}

/// What a subtransaction has done to a chunk.
pub(super) struct Level {
    pub(super) sub: pg_sys::SubTransactionId,
    pub(super) unwritten: usize,
}

impl Touched {
    pub(super) fn newest(&self) -> Newest {
        self.versions
            .last()
            .map_or(Newest::At(self.base), |version| version.newest)
    }

    /// The changes that are laid over a version of the header.
    fn laid_over(&self, header: Tid) -> &Rc<RefCell<Unwritten>> {
        let versions = self.versions.iter().rev();
        let mut of_header = versions.filter(|version| version.replaced == header);
        let kept = of_header.find_map(|version| version.laid_over.as_ref());
        kept.unwrap_or(&self.unwritten)
    }

    /// Nobody else can lock or change rows of the chunk.
    pub(super) fn is_whole(&self) -> bool {
        self.locked.is_some() || !self.versions.is_empty()
    }

    /// May the end of a statement write what the chunk has got?
    pub(super) fn is_ripe(&self) -> bool {
        !self.foreign
            && self.is_whole()
            && self.subs.last().map_or(0, |level| level.unwritten)
                >= RIPE_ROWS << self.versions.len().min(10)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) table: pg_sys::Oid,
    pub(super) chunk: u64,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) touched: FxHashMap<Key, Touched>,
    /// Number of unwritten rows in all of `touched`.
    pub(super) rows: usize,
    /// Chunks that have become ripe.
    pub(super) ripe: Vec<Key>,
    /// The subtransactions in progress that have done something to chunks, and to which: the current one last.
    levels: Vec<(pg_sys::SubTransactionId, Vec<Key>)>,
    /// In the order in which it was done: the current subtransaction's last.
    followed: Vec<Followed>,
}

/// A row of a table was followed into a chunk that the transaction's snapshot does not see.
#[derive(PartialEq)]
struct Followed {
    table: pg_sys::Oid,
    command: pg_sys::CommandId,
    /// Who moved it there.
    mover: pg_sys::TransactionId,
    sub: pg_sys::SubTransactionId,
}

thread_local! {
    pub(super) static STATE: PerTransaction<State> = PerTransaction::default();
    static PASSED_BY: PerTransaction<PassedBy> = PerTransaction::until_a_part_ends();
}

fn key_of(chunk: &Chunk) -> Key {
    Key {
        table: chunk.table().oid(),
        chunk: chunk.header.chunk,
    }
}

fn file_of(chunk: &Chunk) -> pg_sys::Oid {
    chunk.table().file_number()
}

/// Up to which command a snapshot sees our own unwritten changes.
///
/// # Safety
/// `snapshot` must be null or valid.
unsafe fn horizon(snapshot: Snapshot<'_>) -> pg_sys::CommandId {
    if snapshot.is_none() || snapshot.is_any() {
        0
    } else if snapshot.is_mvcc() {
        snapshot.command()
    } else {
        pg_sys::CommandId::MAX
    }
}

/// What a snapshot does not see of a chunk.
pub enum Hidden {
    /// What its delete map says.
    Deleted,
    /// More than that.
    Also(Overlay),
    Nothing,
    /// All of it: `pass_by`.
    All,
}

/// What a snapshot does not see of a chunk, be it written or not.
///
/// # Safety
/// `snapshot` must be null or valid.
pub unsafe fn hidden(chunk: &Chunk, snapshot: Snapshot<'_>) -> Hidden {
    // SAFETY: by contract.
    let (horizon, any) = unsafe {
        let any = snapshot.is_any();
        (horizon(snapshot), any)
    };
    if any {
        return Hidden::Nothing;
    }
    STATE.with_borrow(|state| {
        if state.touched.is_empty() {
            return Hidden::Deleted;
        }
        let key = key_of(chunk);
        if PASSED_BY.with_borrow(|passed| passed.has(key, snapshot)) {
            return Hidden::All;
        }
        let touched = state.touched.get(&key);
        match touched.map(|touched| touched.laid_over(chunk.tid)) {
            Some(changes) if changes.borrow().count() > 0 => {
                Hidden::Also(Overlay::new(Rc::clone(changes), horizon))
            }
            _ => Hidden::Deleted,
        }
    })
}

/// Has this transaction changed no compressed row? Then headers and their notes say all of what a snapshot sees.
pub fn are_none() -> bool {
    STATE.with_borrow(|state| state.touched.is_empty())
}

/// Chunks that the scan of a statement passes by: the statement has deleted the rows that it wants of them already.
#[derive(Default)]
struct PassedBy {
    /// The address of the statement's own snapshot, of which no other scan has this copy.
    snapshot: usize,
    chunks: FxHashSet<Key>,
}

impl PassedBy {
    fn has(&self, key: Key, snapshot: Snapshot<'_>) -> bool {
        snapshot.address() == self.snapshot && self.chunks.contains(&key)
    }
}

/// Hides a chunk, which this transaction has changed, from the scan of a statement that reads by its own copy of a snapshot. Others that
/// read by a snapshot of the same command, as cursors do, go on seeing it.
///
/// # Safety
/// `snapshot` must stay where it is until `pass_by_nothing` is called, or an error ends the subtransaction.
pub unsafe fn pass_by(chunk: &Chunk, snapshot: Snapshot<'_>) {
    PASSED_BY.with_borrow_mut(|passed| {
        if passed.snapshot != snapshot.address() {
            passed.chunks.clear();
            passed.snapshot = snapshot.address();
        }
        passed.chunks.insert(key_of(chunk));
    });
}

/// Ends what `pass_by` has begun.
pub fn pass_by_nothing() {
    PASSED_BY.replace(PassedBy::default());
}

/// Is one row hidden from a snapshot that sees its chunk's header?
///
/// # Safety
/// `snapshot` must be null or valid.
pub unsafe fn is_hidden(chunk: &Chunk, row: u32, snapshot: Snapshot<'_>) -> bool {
    // SAFETY: by contract.
    let horizon = unsafe { horizon(snapshot) };
    chunk.map.contains(row) || change(chunk, row).is_some_and(|(stamp, _)| stamp.shown_as < horizon)
}

/// The unwritten change of a row, and where it went.
pub fn change(chunk: &Chunk, row: u32) -> Option<(Stamp, Option<Tid>)> {
    STATE.with_borrow(|state| {
        if state.touched.is_empty() {
            return None;
        }
        let touched = state.touched.get(&key_of(chunk))?;
        touched.laid_over(chunk.tid).borrow().change(row)
    })
}

/// Where an updated row went, written or not.
pub fn successor(chunk: &Chunk, row: u32) -> Option<Tid> {
    match change(chunk, row) {
        Some((_, successor)) => successor,
        None => chunk.map.successor(row),
    }
}

/// The newest header of a chunk that this transaction has locked as a whole.
pub fn newest(chunk: &Chunk) -> Option<Newest> {
    STATE.with_borrow(|state| {
        let touched = state.touched.get(&key_of(chunk))?;
        (touched.file == file_of(chunk) && touched.is_whole()).then(|| touched.newest())
    })
}

/// Was the row gone when this transaction first locked the chunk? `None` where it has not written the chunk.
pub fn gone_before(chunk: &Chunk, row: u32) -> Option<bool> {
    STATE.with_borrow(|state| {
        let touched = state.touched.get(&key_of(chunk))?;
        let has_written = touched.noted.is_some() || !touched.versions.is_empty();
        has_written.then(|| touched.before.contains(row))
    })
}

/// Remembers that we hold the exclusive lock on `newest`, the newest header version of its chunk.
pub fn note_locked(newest: &Chunk) {
    STATE.with_borrow_mut(|state| {
        let sub = state.note(newest);
        if let Some(touched) = state.touched.get_mut(&key_of(newest)) {
            touched.locked.get_or_insert(sub);
        }
    });
}

/// Remembers that we have locked a row, to change it, of the chunk of which `newest` is the newest header version.
pub fn note_row_locked(newest: &Chunk) {
    STATE.with_borrow_mut(|state| {
        state.note(newest);
    });
}

impl State {
    /// Notes that the current subtransaction does something to a chunk, whose newest version has just been found under a lock.
    fn note(&mut self, newest: &Chunk) -> pg_sys::SubTransactionId {
        let (key, file) = (key_of(newest), file_of(newest));
        if self.touched.get(&key).is_some_and(|old| old.file != file) {
            if let Some(old) = self.touched.remove(&key) {
                self.rows -= old.unwritten.borrow().count();
            }
        }
        let touched = self.touched.entry(key).or_insert_with(|| Touched {
            file,
            before: Rc::clone(&newest.map),
            base: newest.tid,
            versions: Vec::new(),
            noted: None,
            locked: None,
            unwritten: Rc::default(),
            subs: Vec::new(),
            foreign: false,
            is_listed: false,
        });
        let is_known = touched.base == newest.tid && Rc::ptr_eq(&touched.before, &newest.map);
        if touched.subs.is_empty() || !(is_known || touched.is_whole()) {
            touched.before = Rc::clone(&newest.map);
            touched.base = newest.tid;
            touched.foreign = is_foreign(newest);
            touched.noted = None;
        }
        self.enter(key)
    }

    /// Lets the current subtransaction's end know of a chunk that it does something to.
    pub(super) fn enter(&mut self, key: Key) -> pg_sys::SubTransactionId {
        let sub = transaction::part();
        self.enter_as(key, sub, 0);
        sub
    }

    fn enter_as(&mut self, key: Key, sub: pg_sys::SubTransactionId, unwritten: usize) {
        let Some(touched) = self.touched.get_mut(&key) else {
            return;
        };
        if let Some(level) = touched.subs.last_mut().filter(|level| level.sub == sub) {
            level.unwritten += unwritten;
            return;
        }
        touched.subs.push(Level { sub, unwritten });
        match self.levels.last_mut().filter(|level| level.0 == sub) {
            Some(level) => level.1.push(key),
            None => self.levels.push((sub, vec![key])),
        }
    }
}

/// Does the transaction read by one snapshot, which does not see this version?
pub(super) fn is_foreign(newest: &Chunk) -> bool {
    // SAFETY: inside a transaction; with one snapshot for all of it, GetTransactionSnapshot returns that.
    uses_one_snapshot()
        && unsafe {
            !transaction::is_current(newest.xmin)
                && pg_sys::XidInMVCCSnapshot(newest.xmin, pg_sys::GetTransactionSnapshot())
        }
}

/// IsolationUsesXactSnapshot.
pub(super) fn uses_one_snapshot() -> bool {
    transaction::keeps_its_snapshot()
}

/// Remembers that a row of the table was followed to where `mover` moved it. A transaction with one snapshot
/// still sees it at its old place, whatever it then does to it.
pub fn note_followed(table: Table<'_>, mover: pg_sys::TransactionId) {
    if uses_one_snapshot() {
        let followed = Followed {
            table: table.oid(),
            command: transaction::command(false),
            mover,
            sub: transaction::part(),
        };
        STATE.with_borrow_mut(|state| {
            if state.followed.last() != Some(&followed) {
                state.followed.push(followed);
            }
        });
    }
}

/// Raises a serialization failure where a scan would show rows as they were before this transaction
/// changed them. Checks of foreign keys have later snapshots, that show the rows where they are.
///
/// # Safety
/// `table` must be open, `snapshot` null or valid.
pub unsafe fn check_readable(table: Table<'_>, snapshot: Snapshot<'_>) {
    if STATE.with_borrow(|state| state.followed.is_empty()) {
        return;
    }
    if !snapshot.is_mvcc() {
        return;
    }
    let (oid, horizon) = (table.oid(), snapshot.command());
    let is_stale = STATE.with_borrow(|state| {
        state.followed.iter().any(|followed| {
            followed.table == oid
                && followed.command < horizon
                && snapshot.is_running(followed.mover)
        })
    });
    if is_stale {
        error::raise(
            Code::ERRCODE_T_R_SERIALIZATION_FAILURE,
            "could not serialize access due to concurrent update",
            "Rows that this transaction has changed were compacted after its snapshot was taken.",
            "Retry the transaction.",
        )
    }
}

/// Records the change of a row of a chunk that `note_locked` knows, by a command, seen from another or the
/// same on.
pub fn record(
    chunk: &Chunk,
    row: u32,
    command: pg_sys::CommandId,
    shown_as: pg_sys::CommandId,
    successor: Option<Tid>,
) {
    record_each(chunk, (command, shown_as), [(row, successor)]);
}

/// Records that a command deletes rows of a chunk, as `record` does for one; returns how many of them no entry had been made of.
pub fn record_all(
    chunk: &Chunk,
    rows: impl IntoIterator<Item = u32>,
    command: pg_sys::CommandId,
) -> usize {
    let deleted = rows.into_iter().map(|row| (row, None));
    record_each(chunk, (command, command), deleted)
}

/// Rows, with where they went, that a command changes which shows as another.
fn record_each(
    chunk: &Chunk,
    (command, shown_as): (pg_sys::CommandId, pg_sys::CommandId),
    rows: impl IntoIterator<Item = (u32, Option<Tid>)>,
) -> usize {
    let key = key_of(chunk);
    STATE.with_borrow_mut(|state| {
        let sub = state.enter(key);
        let touched = state
            .touched
            .get_mut(&key)
            .expect("BUG: change of a chunk that is not locked");
        let stamp = Stamp {
            command,
            shown_as,
            sub,
        };
        let mut unwritten = touched.unwritten.borrow_mut();
        let is_new = |(row, successor)| unwritten.add(row, stamp, successor);
        let added = rows.into_iter().map(is_new).filter(|&added| added).count();
        drop(unwritten);
        if added == 0 {
            return 0;
        }
        state.rows += added;
        if let Some(level) = touched.subs.last_mut() {
            level.unwritten += added;
        }
        if !touched.is_listed && touched.is_ripe() {
            touched.is_listed = true;
            state.ripe.push(key);
        }
        added
    })
}

/// Are there changes that other processes, such as parallel workers, cannot know of?
pub fn any_unwritten() -> bool {
    STATE.with_borrow(|state| state.rows > 0)
}

/// Forgets the chunks of a table whose file is emptied in place: the current subtransaction has made it, so all that was done to them goes with that, or
/// with this subtransaction.
pub fn forget(table: Table<'_>) {
    let (oid, file) = (table.oid(), table.file_number());
    STATE.with_borrow_mut(|state| {
        let gone = state
            .touched
            .extract_if(|key, touched| key.table == oid && touched.file == file);
        let rows = gone.map(|(_, touched)| touched.unwritten.borrow().count());
        state.rows -= rows.sum::<usize>();
    });
}

/// A subtransaction ended: its changes and locks go up to its parent, or away.
pub fn end_subtransaction(
    sub: pg_sys::SubTransactionId,
    parent: pg_sys::SubTransactionId,
    committed: bool,
) {
    STATE.with_borrow_mut(|state| {
        let outer = state.followed.iter().rposition(|entry| entry.sub != sub);
        let first = outer.map_or(0, |at| at + 1);
        if committed {
            let own = &mut state.followed[first..];
            own.iter_mut().for_each(|entry| entry.sub = parent);
        } else {
            state.followed.truncate(first);
        }
        let Some((_, keys)) = state.levels.pop_if(|level| level.0 == sub) else {
            return;
        };
        for key in keys {
            let Some(touched) = state.touched.get_mut(&key) else {
                continue;
            };
            let level = touched.subs.pop_if(|level| level.sub == sub);
            let mut unwritten = touched.unwritten.borrow_mut();
            if committed {
                unwritten.hand_up(sub, parent);
                let versions = touched.versions.iter_mut().rev();
                let owned = versions.take_while(|version| version.sub == sub);
                owned.for_each(|version| version.sub = parent);
                for owner in [&mut touched.locked, &mut touched.noted]
                    .into_iter()
                    .flatten()
                {
                    if *owner == sub {
                        *owner = parent;
                    }
                }
                drop(unwritten);
                state.enter_as(key, parent, level.map_or(0, |level| level.unwritten));
            } else {
                let before = unwritten.count();
                unwritten.drop_of(sub);
                state.rows -= before - unwritten.count();
                let kept = |version: &Written| version.sub != sub;
                let kept = touched.versions.iter().rposition(kept);
                touched.versions.truncate(kept.map_or(0, |at| at + 1));
                touched.locked.take_if(|at| *at == sub);
                touched.noted.take_if(|at| *at == sub);
            }
        }
    });
}
