//! Deletes and updates of compressed rows. Changes collect in memory per chunk and are written as one
//! new header version when the outermost statement ends; until then our own scans overlay them
//! (docs/design/0001). Each entry knows its command and subtransaction.

use super::{handover, locks, series};
use crate::pg::error::{self, Code};
use crate::pg::relation::{self, Open};
use crate::pg::tid::Tid;
use crate::pg::transaction::{Access, PerTransaction};
use crate::storage::read::Chunk;
use crate::storage::registry;
use crate::storage::write::{self, Target, DELETE_MAP_BASE};
use pgrx::pg_sys;
use std::collections::HashMap;
use varve_columns::tuple::delete_map::DeleteMap;
use varve_columns::tuple::header::{Section, FLAG_TOMBSTONE};

/// A change of one row that is not written yet.
#[derive(Clone, Copy)]
pub struct Entry {
    pub successor: Option<Tid>,
    pub command: pg_sys::CommandId,
    shown_as: pg_sys::CommandId,
}

/// Unwritten changes of one command in one subtransaction.
struct Group {
    command: pg_sys::CommandId,
    /// The command as which the changes show: snapshots that are older do not see them.
    shown_as: pg_sys::CommandId,
    sub: pg_sys::SubTransactionId,
    rows: DeleteMap,
}

/// Where the newest header of a chunk is, as far as this transaction has changed it.
#[derive(Clone, Copy, PartialEq)]
pub enum Newest {
    At(Tid),
    /// Deleted with all its rows.
    Gone,
}

/// What this transaction knows and holds of one chunk.
struct Touched {
    file: pg_sys::Oid,
    /// The chunk's state under our lock: which rows were gone before we came.
    before: DeleteMap,
    /// The header that we locked first, and then what each of our flushes left.
    base: Tid,
    versions: Vec<(pg_sys::SubTransactionId, Newest)>,
    /// Subtransaction that holds the exclusive lock on the newest header, if any. Without it the transaction has locked single
    /// rows: what it changes is written when it ends.
    locked: Option<pg_sys::SubTransactionId>,
    groups: Vec<Group>,
    /// The transaction's snapshot is older than `base`, so that its scans see an earlier version. They must
    /// not see ours beside it: what we change stays in memory, laid over that version, until we commit.
    foreign: bool,
}

impl Touched {
    fn newest(&self) -> Newest {
        self.versions
            .last()
            .map_or(Newest::At(self.base), |version| version.1)
    }

    /// Nobody else can lock or change rows of the chunk.
    fn is_whole(&self) -> bool {
        self.locked.is_some() || !self.versions.is_empty()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    table: pg_sys::Oid,
    chunk: u64,
}

#[derive(Default)]
struct State {
    touched: HashMap<Key, Touched>,
    /// Number of rows in all groups of `touched`.
    rows: usize,
    /// Tables of which a row was followed into a chunk that the transaction's snapshot does not see, and who moved it there.
    followed: Vec<(pg_sys::Oid, pg_sys::CommandId, pg_sys::TransactionId)>,
}

thread_local! {
    static STATE: PerTransaction<State> = PerTransaction::default();
}

fn key_of(chunk: &Chunk) -> Key {
    Key {
        // SAFETY: the table is open while its chunks are used.
        table: unsafe { relation::oid(chunk.table.get()) },
        chunk: chunk.header.chunk,
    }
}

fn file_of(chunk: &Chunk) -> pg_sys::Oid {
    // SAFETY: as above.
    unsafe { relation::file_number(chunk.table.get()) }
}

/// Up to which command a snapshot sees our own unwritten changes.
unsafe fn horizon(snapshot: pg_sys::Snapshot) -> pg_sys::CommandId {
    // SAFETY: null or valid by the callers' contracts.
    unsafe {
        if snapshot.is_null() {
            return 0;
        }
        match (*snapshot).snapshot_type {
            pg_sys::SnapshotType::SNAPSHOT_MVCC => (*snapshot).curcid,
            pg_sys::SnapshotType::SNAPSHOT_ANY => 0,
            _ => pg_sys::CommandId::MAX,
        }
    }
}

/// The rows of a chunk that a snapshot does not see, where they are more than the chunk's own map says.
///
/// # Safety
/// `snapshot` must be null or valid.
pub unsafe fn overlay(chunk: &Chunk, snapshot: pg_sys::Snapshot) -> Option<DeleteMap> {
    // SAFETY: by contract.
    let (horizon, any) = unsafe {
        let any =
            !snapshot.is_null() && (*snapshot).snapshot_type == pg_sys::SnapshotType::SNAPSHOT_ANY;
        (horizon(snapshot), any)
    };
    if any {
        return Some(DeleteMap::default());
    }
    STATE.with_borrow(|state| {
        if state.rows == 0 {
            return None;
        }
        let touched = state.touched.get(&key_of(chunk))?;
        let mut map = chunk.map.clone();
        for group in touched
            .groups
            .iter()
            .filter(|group| group.shown_as < horizon)
        {
            map.merge(&group.rows);
        }
        Some(map)
    })
}

/// Is one row hidden from a snapshot that sees its chunk's header?
///
/// # Safety
/// `snapshot` must be null or valid.
pub unsafe fn is_hidden(chunk: &Chunk, row: u32, snapshot: pg_sys::Snapshot) -> bool {
    // SAFETY: by contract.
    let horizon = unsafe { horizon(snapshot) };
    chunk.map.contains(row) || entry(chunk, row).is_some_and(|entry| entry.shown_as < horizon)
}

/// The unwritten change of a row.
pub fn entry(chunk: &Chunk, row: u32) -> Option<Entry> {
    STATE.with_borrow(|state| {
        if state.rows == 0 {
            return None;
        }
        let groups = &state.touched.get(&key_of(chunk))?.groups;
        let group = groups.iter().find(|group| group.rows.contains(row))?;
        Some(Entry {
            successor: group.rows.successor(row),
            command: group.command,
            shown_as: group.shown_as,
        })
    })
}

/// Where an updated row went, written or not.
pub fn successor(chunk: &Chunk, row: u32) -> Option<Tid> {
    match entry(chunk, row) {
        Some(entry) => entry.successor,
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
        (!touched.versions.is_empty()).then(|| touched.before.contains(row))
    })
}

/// Remembers that we hold the exclusive lock on `newest`, the newest header version of its chunk.
pub fn note_locked(newest: &Chunk) {
    // SAFETY: inside a transaction.
    let sub = unsafe { pg_sys::GetCurrentSubTransactionId() };
    STATE.with_borrow_mut(|state| {
        state.touch(newest).locked.get_or_insert(sub);
    });
}

/// Remembers that we have locked a row, to change it, of the chunk of which `newest` is the newest header version.
pub fn note_row_locked(newest: &Chunk) {
    STATE.with_borrow_mut(|state| {
        state.touch(newest);
    });
}

impl State {
    /// The entry of a chunk whose newest version has just been found under a lock.
    fn touch(&mut self, newest: &Chunk) -> &mut Touched {
        let (key, file) = (key_of(newest), file_of(newest));
        if self.touched.get(&key).is_some_and(|old| old.file != file) {
            if let Some(old) = self.touched.remove(&key) {
                self.rows -= rows_in(&old.groups);
            }
        }
        let touched = self.touched.entry(key).or_insert_with(|| Touched {
            file,
            before: DeleteMap::default(),
            base: newest.tid,
            versions: Vec::new(),
            locked: None,
            groups: Vec::new(),
            foreign: false,
        });
        if !touched.is_whole() {
            touched.before = newest.map.clone();
            touched.base = newest.tid;
            touched.foreign = is_foreign(newest);
        }
        touched
    }
}

/// Does the transaction read by one snapshot, which does not see this version?
fn is_foreign(newest: &Chunk) -> bool {
    let xmin = newest.xmin;
    // SAFETY: inside a transaction; with one snapshot for all of it, GetTransactionSnapshot returns that.
    unsafe {
        uses_one_snapshot()
            && !pg_sys::TransactionIdIsCurrentTransactionId(xmin)
            && pg_sys::XidInMVCCSnapshot(xmin, pg_sys::GetTransactionSnapshot())
    }
}

/// IsolationUsesXactSnapshot.
fn uses_one_snapshot() -> bool {
    // SAFETY: a global of this backend.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32 }
}

/// Remembers that a row of the table was followed to where `mover` moved it. A transaction with one snapshot
/// still sees it at its old place, whatever it then does to it.
///
/// # Safety
/// `table` must be open.
pub unsafe fn note_followed(table: pg_sys::Relation, mover: pg_sys::TransactionId) {
    if uses_one_snapshot() {
        // SAFETY: by contract.
        let command = unsafe { pg_sys::GetCurrentCommandId(false) };
        // SAFETY: as above.
        let entry = unsafe { (relation::oid(table), command, mover) };
        STATE.with_borrow_mut(|state| {
            if state.followed.last() != Some(&entry) {
                state.followed.push(entry);
            }
        });
    }
}

/// Raises a serialization failure where a scan would show rows as they were before this transaction
/// changed them. Checks of foreign keys have later snapshots, that show the rows where they are.
///
/// # Safety
/// `table` must be open, `snapshot` null or valid.
pub unsafe fn check_readable(table: pg_sys::Relation, snapshot: pg_sys::Snapshot) {
    if STATE.with_borrow(|state| state.followed.is_empty()) {
        return;
    }
    // SAFETY: by contract.
    let (oid, horizon) = unsafe {
        if snapshot.is_null() || (*snapshot).snapshot_type != pg_sys::SnapshotType::SNAPSHOT_MVCC {
            return;
        }
        (relation::oid(table), (*snapshot).curcid)
    };
    let is_stale = STATE.with_borrow(|state| {
        state.followed.iter().any(|&(table, command, mover)| {
            // SAFETY: an MVCC snapshot.
            table == oid
                && command < horizon
                && unsafe { pg_sys::XidInMVCCSnapshot(mover, snapshot) }
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
    // SAFETY: inside a transaction.
    let sub = unsafe { pg_sys::GetCurrentSubTransactionId() };
    STATE.with_borrow_mut(|state| {
        let touched = state
            .touched
            .get_mut(&key_of(chunk))
            .expect("BUG: change of a chunk that is not locked");
        let fits =
            |group: &Group| (group.command, group.shown_as, group.sub) == (command, shown_as, sub);
        let at = match touched.groups.iter().position(fits) {
            Some(at) => at,
            None => {
                touched.groups.push(Group {
                    command,
                    shown_as,
                    sub,
                    rows: DeleteMap::default(),
                });
                touched.groups.len() - 1
            }
        };
        let rows = &mut touched.groups[at].rows;
        match successor {
            Some(successor) => rows.update(row, successor),
            None => rows.delete(row),
        };
        state.rows += 1;
    });
}

/// Are there changes that other processes, such as parallel workers, cannot know of?
pub fn any_unwritten() -> bool {
    STATE.with_borrow(|state| state.rows > 0)
}

/// Writes the changes that the current subtransaction has collected: one new header version per chunk,
/// in the order of chunks. Those of outer ones stay: what is written now may be rolled back alone. So
/// do those of chunks of which the transaction sees an earlier version, and of which it has locked single rows.
pub fn flush() {
    flush_where(|touched| !touched.foreign && touched.is_whole());
}

/// Writes everything before the transaction ends: nothing is read after this.
pub fn flush_finally() {
    flush_where(|_| true);
}

/// Writes all changes of a table that is about to get another file.
///
/// # Safety
/// `table` must be open and locked exclusively.
pub unsafe fn flush_before_rewrite(table: pg_sys::Relation) {
    flush_finally();
    // SAFETY: by contract.
    let oid = unsafe { relation::oid(table) };
    let is_left = STATE.with_borrow(|state| {
        let of_table =
            |(key, touched): (&Key, &Touched)| key.table == oid && !touched.groups.is_empty();
        state.touched.iter().any(of_table)
    });
    if is_left {
        error::raise(
            Code::ERRCODE_OBJECT_IN_USE,
            "cannot rewrite a table with changes of an outer subtransaction",
            "They can be written only when that subtransaction is the current one.",
            "Release the savepoint first.",
        )
    }
}

fn flush_where(wanted: impl Fn(&Touched) -> bool) {
    if !any_unwritten() {
        return;
    }
    // SAFETY: inside a transaction.
    let sub = unsafe { pg_sys::GetCurrentSubTransactionId() };
    let mut work: Vec<Key> = STATE.with_borrow(|state| {
        state
            .touched
            .iter()
            .filter(|(_, touched)| {
                wanted(touched)
                    && touched.newest() != Newest::Gone
                    && touched.groups.iter().any(|group| group.sub == sub)
            })
            .map(|(key, _)| *key)
            .collect()
    });
    // All transactions lock headers to write in this order.
    work.sort_unstable_by_key(|key| (key.table.to_u32(), key.chunk));
    for key in work {
        error::check_interrupts();
        write_chunk(key, sub);
    }
}

/// Writes what a subtransaction has changed of a chunk.
fn write_chunk(key: Key, sub: pg_sys::SubTransactionId) {
    let (groups, file, newest, is_whole) = STATE.with_borrow_mut(|state| {
        let touched = state
            .touched
            .get_mut(&key)
            .expect("BUG: a chunk was forgotten");
        let (groups, rest): (Vec<_>, Vec<_>) = core::mem::take(&mut touched.groups)
            .into_iter()
            .partition(|group| group.sub == sub);
        touched.groups = rest;
        state.rows -= rows_in(&groups);
        (groups, touched.file, touched.newest(), touched.is_whole())
    });
    let Some(table) = Open::existing_table(key.table, pg_sys::RowExclusiveLock) else {
        return; // Dropped since.
    };
    // SAFETY: the table is open.
    if unsafe { relation::file_number(table.rel()) } != file {
        return; // Rewritten or truncated since: the rows are gone with the file.
    }
    let Newest::At(mut tid) = newest else {
        return;
    };
    if !is_whole {
        // SAFETY: the table is open for writing.
        tid = unsafe { locks::lock_to_write(table.rel(), key.chunk, tid) }
            .expect("BUG: a chunk with locked rows is gone");
    }
    write_changes(key, &table, tid, &groups);
    if !is_whole {
        // SAFETY: as above.
        unsafe { handover::hand_over(table.rel(), key.chunk) };
    }
}

fn rows_in(groups: &[Group]) -> usize {
    groups
        .iter()
        .map(|group| group.rows.deleted() as usize)
        .sum()
}

fn write_changes(key: Key, table: &Open, tid: Tid, groups: &[Group]) {
    // SAFETY: the table is open.
    let reader = unsafe {
        let any = core::ptr::addr_of_mut!(pg_sys::SnapshotAnyData);
        registry::reader_at(table.rel(), tid, any)
    };
    let reader = reader.expect("BUG: a locked header is gone");
    let chunk = &reader.chunk;
    let mut map = chunk.map.clone();
    groups.iter().for_each(|group| map.merge(&group.rows));
    advance_past_own_header(chunk);
    // SAFETY: the table is open with RowExclusiveLock.
    let target = unsafe { Target::current(table.rel()) };
    let newest = if map.deleted() < chunk.header.rows {
        let tid = target.replace_header(chunk.tid, &chunk.header, &map);
        series::index_header(table.rel(), &reader, tid);
        Newest::At(tid)
    } else if map.has_successors() {
        Newest::At(bury(&target, chunk, &map))
    } else {
        delete_chunk(table.rel(), chunk, target.command, false);
        Newest::Gone
    };
    for _ in 0..rows_in(groups) {
        // SAFETY: the table is open.
        unsafe { pg_sys::pgstat_count_heap_delete(table.rel()) };
    }
    // SAFETY: inside a transaction.
    let sub = unsafe { pg_sys::GetCurrentSubTransactionId() };
    STATE.with_borrow_mut(|state| {
        if let Some(touched) = state.touched.get_mut(&key) {
            touched.versions.push((sub, newest));
            // What we inserted ourselves nobody else can lock before we end.
            touched.locked.get_or_insert(sub);
        }
    });
}

/// A header that this very command inserted cannot be deleted by it: start a new command.
fn advance_past_own_header(chunk: &Chunk) {
    // SAFETY: inside a transaction.
    unsafe {
        let own = pg_sys::TransactionIdIsCurrentTransactionId(chunk.xmin);
        if own && chunk.raw_command >= pg_sys::GetCurrentCommandId(false) {
            pg_sys::CommandCounterIncrement();
        }
    }
}

/// Keeps a header of which all rows are gone but some were updated: whoever waits for one of those
/// finds its new version. The payload goes, and no index names the header any more.
fn bury(target: &Target, chunk: &Chunk, map: &DeleteMap) -> Tid {
    let mut header = chunk.header.clone();
    header.flags |= FLAG_TOMBSTONE;
    let tid = target.replace_header(chunk.tid, &header, map);
    for &piece in &chunk.statics.payload.tids {
        write::delete_tuple(target.table, piece, target.command, false);
    }
    tid
}

/// Deletes header and pieces; `moved` when the rows live on in another chunk.
pub fn delete_chunk(
    table: pg_sys::Relation,
    chunk: &Chunk,
    command: pg_sys::CommandId,
    moved: bool,
) {
    write::delete_tuple(table, chunk.tid, command, moved);
    delete_pieces(table, chunk, command);
}

/// Deletes the pieces of a chunk whose header is gone.
pub fn delete_pieces(table: pg_sys::Relation, chunk: &Chunk, command: pg_sys::CommandId) {
    let id = chunk.header.chunk;
    if !chunk.header.has(FLAG_TOMBSTONE) {
        for &piece in &chunk.statics.payload.tids {
            write::delete_tuple(table, piece, command, false);
        }
    }
    let sections: [(u32, &Section); 2] = [
        (write::STATICS_BASE, &chunk.header.statics),
        (DELETE_MAP_BASE, &chunk.header.delete_map),
    ];
    for (base, section) in sections {
        write::delete_section(table, id, base, section, command);
    }
}

/// A subtransaction ended: its changes and locks go up to its parent, or away.
pub fn end_subtransaction(
    sub: pg_sys::SubTransactionId,
    parent: pg_sys::SubTransactionId,
    committed: bool,
) {
    STATE.with_borrow_mut(|state| {
        for touched in state.touched.values_mut() {
            if committed {
                for group in touched.groups.iter_mut().filter(|group| group.sub == sub) {
                    group.sub = parent;
                }
                if touched.locked == Some(sub) {
                    touched.locked = Some(parent);
                }
                for version in touched
                    .versions
                    .iter_mut()
                    .filter(|version| version.0 == sub)
                {
                    version.0 = parent;
                }
            } else {
                touched.groups.retain(|group| group.sub != sub);
                touched.versions.retain(|version| version.0 != sub);
                if touched.locked == Some(sub) {
                    touched.locked = None;
                }
            }
        }
        state.rows = state
            .touched
            .values()
            .map(|touched| rows_in(&touched.groups))
            .sum();
    });
}
