//! Changes of rows of one chunk that are not in its header yet: which rows, by which command, and where updated ones went. The rows
//! of the first command, which may be most of the chunk, take a bit each; those of later ones an entry of a map, so that a row of
//! many commands is found as fast as one of a few. Scans that have opened the chunk share it.

use crate::pg::tid::Tid;
use crate::pg::{CommandId, SubTransactionId};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::rc::Rc;
use varve_columns::tuple::delete_map::set_bits;
use varve_columns::tuple::note::{self, Run as NoteRun};

/// Who has changed rows.
#[derive(Clone, Copy, PartialEq)]
pub struct Stamp {
    pub command: CommandId,
    /// The command as which the change shows: snapshots that are older do not see it.
    pub shown_as: CommandId,
    pub sub: SubTransactionId,
}

/// Rows that were changed one after the other by one command of one subtransaction.
struct Run {
    stamp: Stamp,
    /// Where its rows begin in `later`; those of the first run are in `rows` alone.
    start: usize,
}

/// Subtransactions nest, and what one of them changes comes after what those around it have changed: the runs of the current one
/// are the last.
#[derive(Default)]
pub struct Unwritten {
    /// A bit for each row, in words from the first one that has any.
    rows: Vec<u64>,
    first_word: usize,
    count: usize,
    successors: FxHashMap<u32, Tid>,
    runs: Vec<Run>,
    /// Rows of all runs but the first, in their order, and the run of each.
    later: Vec<u32>,
    run_of: FxHashMap<u32, u32>,
    /// No run shows as a later command than this.
    latest: CommandId,
}

impl Unwritten {
    /// Rows that were changed.
    pub fn count(&self) -> usize {
        self.count
    }

    #[inline]
    fn contains(&self, row: u32) -> bool {
        let word = self.rows.get(self.word_of(row));
        word.is_some_and(|word| word >> (row % 64) & 1 != 0)
    }

    /// Where the bit of a row is in `rows`, if it is.
    #[inline]
    fn word_of(&self, row: u32) -> usize {
        ((row / 64) as usize).wrapping_sub(self.first_word)
    }

    /// Makes room for the bit of a row, and says where it is.
    fn word_for(&mut self, row: u32) -> usize {
        let word = (row / 64) as usize;
        if self.rows.is_empty() {
            self.first_word = word;
        } else if word < self.first_word {
            let missing = self.first_word - word;
            self.rows.splice(..0, core::iter::repeat_n(0, missing));
            self.first_word = word;
        }
        let at = word - self.first_word;
        if at >= self.rows.len() {
            self.rows.resize(at + 1, 0);
        }
        at
    }

    fn remove(&mut self, row: u32) {
        let word = self.word_of(row);
        self.rows[word] &= !(1 << (row % 64));
        self.count -= 1;
        self.successors.remove(&row);
    }

    /// Adds the change of a row; false where it is there already.
    pub fn add(&mut self, row: u32, stamp: Stamp, successor: Option<Tid>) -> bool {
        if self.contains(row) {
            return false;
        }
        let word = self.word_for(row);
        self.rows[word] |= 1 << (row % 64);
        self.count += 1;
        if let Some(successor) = successor {
            self.successors.insert(row, successor);
        }
        if self.runs.last().is_none_or(|run| run.stamp != stamp) {
            let start = self.later.len();
            self.runs.push(Run { stamp, start });
            self.latest = self.latest.max(stamp.shown_as);
        }
        if self.runs.len() > 1 {
            self.later.push(row);
            self.run_of.insert(row, self.runs.len() as u32 - 1);
        }
        true
    }

    /// Who has changed a row, and where it went.
    pub fn change(&self, row: u32) -> Option<(Stamp, Option<Tid>)> {
        if !self.contains(row) {
            return None;
        }
        let run = self.run_of.get(&row).copied().unwrap_or_default();
        let successor = self.successors.get(&row).copied();
        Some((self.runs[run as usize].stamp, successor))
    }

    /// Is a row gone for a snapshot that sees changes of commands before `horizon`?
    #[inline]
    pub fn hides(&self, row: u32, horizon: CommandId) -> bool {
        self.contains(row)
            && (self.latest < horizon
                || self
                    .change(row)
                    .is_some_and(|(stamp, _)| stamp.shown_as < horizon))
    }

    /// Has the subtransaction changed rows?
    pub fn has_of(&self, sub: SubTransactionId) -> bool {
        self.runs.last().is_some_and(|run| run.stamp.sub == sub)
    }

    /// The first of the runs of a subtransaction, which is the current one or has just ended.
    fn first_of(&self, sub: SubTransactionId) -> usize {
        let others = self.runs.iter().rev();
        self.runs.len() - others.take_while(|run| run.stamp.sub == sub).count()
    }

    /// Makes the changes of a subtransaction those of its parent.
    pub fn hand_up(&mut self, sub: SubTransactionId, parent: SubTransactionId) {
        let first = self.first_of(sub);
        for run in &mut self.runs[first..] {
            run.stamp.sub = parent;
        }
    }

    /// Drops the changes of a subtransaction.
    pub fn drop_of(&mut self, sub: SubTransactionId) {
        let first = self.first_of(sub);
        if first == self.runs.len() {
            return;
        }
        if first == 0 {
            *self = Self::default();
            return;
        }
        let start = self.runs[first].start;
        for row in self.later.split_off(start) {
            self.run_of.remove(&row);
            self.remove(row);
        }
        self.runs.truncate(first);
    }

    /// The rows that a subtransaction has changed, ascending, and where updated ones went.
    pub fn runs_of(&self, sub: SubTransactionId) -> Vec<NoteRun> {
        let first = self.first_of(sub);
        let wanted = |row: &u32| match first {
            0 => true,
            _ => self
                .run_of
                .get(row)
                .is_some_and(|&run| run as usize >= first),
        };
        let rows = self.each_row().filter(wanted);
        note::runs(rows.map(|row| (row, self.successors.get(&row).copied())))
    }

    fn each_row(&self) -> impl Iterator<Item = u32> + '_ {
        let before = self.first_word as u32 * 64;
        set_bits(&self.rows).map(move |row| before + row)
    }

    /// What is left without the changes of a subtransaction.
    pub fn without(&self, sub: SubTransactionId) -> Unwritten {
        let mut left = Unwritten::default();
        let first = self.first_of(sub);
        if first == 0 {
            return left;
        }
        for row in self.each_row().filter(|row| !self.run_of.contains_key(row)) {
            left.add(row, self.runs[0].stamp, self.successors.get(&row).copied());
        }
        for (at, run) in self.runs[..first].iter().enumerate().skip(1) {
            for &row in &self.later[run.start
                ..self
                    .runs
                    .get(at + 1)
                    .map_or(self.later.len(), |next| next.start)]
            {
                left.add(row, run.stamp, self.successors.get(&row).copied());
            }
        }
        left
    }
}

/// Unwritten changes as a snapshot sees them. They stay what they are here when they are written, or dropped, meanwhile: the
/// snapshot goes on seeing the header that it has seen.
#[derive(Clone)]
pub struct Overlay {
    changes: Rc<RefCell<Unwritten>>,
    horizon: CommandId,
}

impl Overlay {
    pub fn new(changes: Rc<RefCell<Unwritten>>, horizon: CommandId) -> Self {
        Overlay { changes, horizon }
    }

    #[inline]
    pub fn hides(&self, row: u32) -> bool {
        self.changes.borrow().hides(row, self.horizon)
    }
}
