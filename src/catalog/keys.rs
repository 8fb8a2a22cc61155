//! What a session knows about the unique indexes of a varve table, until the catalogs tell it otherwise.

use crate::catalog::access_method;
use crate::catalog::{chunk_marker, layout};
use crate::guc;
use crate::pg::lock_mode::LockMode;
use crate::pg::open::OpenIndex;
use crate::pg::relation::{self, Index, Kind, Table};
use crate::pg::{Datum, InvalidOid, Oid};
use pgrx::prelude::*;
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A unique index whose keys may be in chunks.
pub struct Unique {
    pub index: Oid,
    /// Checked row by row, and never later.
    pub immediate: bool,
    /// Table columns of its key, from 0.
    pub columns: Vec<usize>,
    /// The series index that finds its keys, and where in the key that one's columns are; without one, the whole table is walked.
    pub series: Option<(Oid, Vec<usize>)>,
    /// The series indexes whose entries settle its keys (`companions_of`).
    pub companions: Vec<Companion>,
    /// Whoever writes the table knows the index.
    is_valid: bool,
}

/// A series index of the columns of a key, which are thus where a row of the tail and its key have their entry.
pub struct Companion {
    pub index: Oid,
    /// Where in the key its columns are.
    pub places: Vec<usize>,
    /// It has all rows.
    is_valid: bool,
}

impl Unique {
    /// Has a row its key whose series and time are those of the key?
    pub fn is_series_and_time(&self) -> bool {
        let series = self.series.as_ref();
        series.is_some_and(|(_, places)| places.len() == self.columns.len())
    }

    /// Has its btree no entries of rows, as those of series indexes settle its keys, if the table `has_chunks`? Nobody reads it then.
    pub fn does_without_btree(&self, has_chunks: bool) -> bool {
        has_chunks && self.is_valid && self.complete_companion().is_some()
    }

    /// A series index of its columns that has all rows.
    pub fn complete_companion(&self) -> Option<&Companion> {
        self.companions.iter().find(|companion| companion.is_valid)
    }

    /// Is a series index the only one that settles its keys?
    pub fn hangs_on(&self, series: Oid) -> bool {
        let mut valid = self
            .companions
            .iter()
            .filter(|companion| companion.is_valid);
        valid.next().is_some_and(|first| first.index == series) && valid.next().is_none()
    }
}

/// The unique indexes of a table.
pub struct Keys {
    pub unique: Vec<Unique>,
    /// Indexes that are neither among these nor series indexes.
    pub ordinary: Vec<Oid>,
    indexes: Vec<Oid>,
    /// Others may write the table's first chunk at any time.
    can_get_chunks: bool,
    has_chunks: Cell<bool>,
    /// Found out in torture mode, where more is possible.
    torture: bool,
}

impl Keys {
    /// May the table have chunks, now or at any time before this transaction ends?
    pub fn concern_chunks(&self) -> bool {
        !self.unique.is_empty() && (self.can_get_chunks || self.has_chunks.get())
    }

    /// Is it known that the table has chunks, or that others may write its first one at any time?
    pub fn may_have_chunks(&self) -> bool {
        self.can_get_chunks || self.has_chunks.get()
    }

    /// Has the table chunks at this moment? A table that has had one has; else the marks are asked.
    ///
    /// # Safety
    /// `table` must be open, and the one whose keys these are.
    pub unsafe fn has_chunks(&self, table: Table<'_>) -> bool {
        if !self.has_chunks.get() && self.can_get_chunks {
            self.has_chunks.set(chunk_marker::is_marked(table));
        }
        self.has_chunks.get()
    }

    /// The valid keys that enter rows into a series index. Every statement that runs knows these, and so enters them.
    pub fn that_enter_into(&self, series: Oid) -> impl Iterator<Item = Oid> + '_ {
        let has = move |unique: &&Unique| {
            let mut companions = unique.companions.iter();
            unique.is_valid && companions.any(|companion| companion.index == series)
        };
        self.unique.iter().filter(has).map(|unique| unique.index)
    }

    /// Do the entries of a series index settle keys?
    pub fn is_companion(&self, series: Oid) -> bool {
        let mut companions = self.unique.iter().flat_map(|unique| &unique.companions);
        companions.any(|companion| companion.index == series)
    }

    pub fn of_index(&self, index: Oid) -> Option<&Unique> {
        self.unique.iter().find(|unique| unique.index == index)
    }
}

thread_local! {
    static KNOWN: RefCell<FxHashMap<Oid, Rc<Keys>>> = RefCell::default();
    /// Counts what the catalogs have told.
    static CHANGES: Cell<u64> = const { Cell::new(0) };
}

/// Registers for changes of the catalogs. Called once.
pub fn init() {
    relation::tell_of_changes(relation_changed);
}

#[pg_guard]
unsafe extern "C-unwind" fn relation_changed(_arg: Datum, changed: Oid) {
    CHANGES.set(CHANGES.get() + 1);
    KNOWN.with_borrow_mut(|known| {
        if changed == InvalidOid {
            known.clear();
        } else if !known.is_empty() {
            known.retain(|&table, keys| table != changed && !keys.indexes.contains(&changed));
        }
    });
}

/// The keys of a varve table.
pub fn of(table: Table<'_>) -> Rc<Keys> {
    let oid = table.oid();
    if let Some(keys) = KNOWN.with_borrow(|known| known.get(&oid).map(Rc::clone)) {
        if keys.torture == guc::is_torture() {
            return keys;
        }
    }
    let before = CHANGES.get();
    let keys = Rc::new(look_up(table));
    if CHANGES.get() == before {
        KNOWN.with_borrow_mut(|known| known.insert(oid, Rc::clone(&keys)));
    }
    keys
}

fn look_up(table: Table<'_>) -> Keys {
    let mut keys = Keys {
        unique: Vec::new(),
        ordinary: Vec::new(),
        indexes: Vec::new(),
        can_get_chunks: false,
        has_chunks: Cell::new(false),
        torture: guc::is_torture(),
    };
    {
        if !access_method::is_varve(table) || table.kind() == Kind::Partitioned {
            return keys;
        }
        keys.indexes = table.index_oids();
        let series = layout::series_indexes(table);
        let written = layout::written_series_indexes(table);
        for &oid in &keys.indexes {
            let index = OpenIndex::open(oid, LockMode::AccessShare);
            let form = index.rel().form();
            let columns = layout::index_columns(index.rel());
            let is_btree = index.rel().is_btree();
            if !form.indisunique || !is_btree || columns.contains(&0) {
                if !layout::is_series(index.rel()) {
                    keys.ordinary.push(oid);
                }
                continue;
            }
            keys.unique.push(Unique {
                index: oid,
                immediate: form.indimmediate,
                columns: columns
                    .iter()
                    .map(|&column| usize::from(column) - 1)
                    .collect(),
                series: layout::series_index_of_key(index.rel(), &series).map(|found| {
                    let found = OpenIndex::open(found, LockMode::AccessShare);
                    (found.rel().oid(), places_in(&columns, found.rel()))
                }),
                companions: companions_of(index.rel(), &columns, &written),
                is_valid: form.indisvalid,
            });
        }
        keys.can_get_chunks = layout::can_get_chunks(table);
        if !keys.unique.is_empty() {
            // What can get none now gets none before our lock on it ends.
            keys.has_chunks.set(chunk_marker::is_marked(table));
        }
    }
    keys
}

/// Where in the columns of a key those of a series index are.
fn places_in(key: &[u16], series: Index<'_>) -> Vec<usize> {
    let columns = layout::index_columns(series);
    let place = |wanted: &u16| key.iter().position(|column| column == wanted);
    columns.iter().filter_map(place).collect()
}

/// The series indexes that rows are entered into with a look at others of their key: all that have just the columns of the key, in the order of their OIDs,
/// in which everybody enters them. Whoever does not know one of them as valid yet, or any more, knows it as one that is written, so of two that
/// enter a key there is one index that both look at. None of a key that is checked later.
fn companions_of(unique: Index<'_>, columns: &[u16], written: &[OpenIndex]) -> Vec<Companion> {
    let form = unique.form();
    if !form.indimmediate || !form.indisready {
        return Vec::new();
    }
    let serving = written.iter().filter(|&series| {
        let serves = layout::series_index_of_key(unique, core::slice::from_ref(series)).is_some();
        serves && places_in(columns, series.rel()).len() == columns.len()
    });
    let companion = |series: &OpenIndex| Companion {
        index: series.rel().oid(),
        places: places_in(columns, series.rel()),
        is_valid: series.rel().form().indisvalid,
    };
    serving.map(companion).collect()
}

/// May the table have chunks, now or before its layout is changed by somebody who locks it?
pub fn may_have_chunks(table: Table<'_>) -> bool {
    of(table).may_have_chunks() || chunk_marker::is_marked(table)
}

/// Must changes of compressed rows of the table be announced to those who insert keys?
pub fn announces_changes(table: Table<'_>) -> bool {
    !of(table).unique.is_empty()
}
