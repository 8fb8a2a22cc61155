//! Rows on their way up. Where nothing but columns is asked for, they are put into the slot of the node's result; else into the row of the
//! table, which core's projection then sees.

use crate::exec::aggregate::lanes::Lane;
use crate::exec::aggregate::selection::Lanes;
use crate::pg::executor;
use crate::pg::node::{cast, items};
use crate::pg::tid::{self, Tid};
use pgrx::pg_sys::{self, NodeTag};
use std::ops::Range;

/// Puts rows together.
pub struct Output {
    /// The row of the table. It names where the node is, for WHERE CURRENT OF.
    scan: *mut pg_sys::TupleTableSlot,
    slot: *mut pg_sys::TupleTableSlot,
    /// The columns of `slot` that are filled: place, lane, and column of the table, all from 0.
    columns: Vec<(usize, usize, usize)>,
    /// Core's, where there is more than columns.
    pub projection: *mut pg_sys::ProjectionInfo,
}

impl Output {
    /// # Safety
    /// `node` must be a node of ours that begins, with its table open; `lanes` are its.
    pub unsafe fn new(node: *mut pg_sys::CustomScanState, lanes: &mut Lanes) -> Output {
        // SAFETY: by contract; the planner has left references to the table's columns in the target list.
        unsafe {
            let scan = (*node).ss.ss_ScanTupleSlot;
            (*scan).tts_tableOid = (*(*node).ss.ss_currentRelation).rd_id;
            let plan = (*node).ss.ps.plan;
            let target = (*plan).targetlist;
            let projection = (*node).ss.ps.ps_ProjInfo;
            let mut output = Output {
                scan,
                slot: scan,
                columns: Vec::new(),
                projection,
            };
            match plain_columns(target).filter(|_| !projection.is_null()) {
                Some(plain) => {
                    output.slot = (*projection).pi_state.resultslot;
                    output.projection = core::ptr::null_mut();
                    let places = plain.into_iter().enumerate();
                    output.columns = places.map(|(to, at)| (to, lanes.at(at), at)).collect();
                }
                None => {
                    let needed = lanes.of(target.cast());
                    let columns = needed.into_iter().map(|lane| (lane, lanes.column(lane)));
                    output.columns = columns.map(|(lane, at)| (at, lane, at)).collect();
                }
            }
            output
        }
    }

    /// The lanes that go up.
    pub fn lanes(&self) -> Vec<usize> {
        self.columns.iter().map(|(_, lane, _)| *lane).collect()
    }

    /// A row of a window, for core's projection where there is one. What it points to lives as long as the window.
    ///
    /// # Safety
    /// The lanes must be decoded; inside a guarded entry point of the node.
    #[inline]
    pub unsafe fn compressed(&self, lanes: &[Lane], window: &Range<u32>, row: usize) {
        // SAFETY: by contract; the slot has the columns.
        unsafe {
            let slot = self.slot;
            executor::clear_virtual(slot);
            for &(to, lane, _) in &self.columns {
                let (value, isnull) = lanes[lane].datum(window, row);
                *(*slot).tts_values.add(to) = value;
                *(*slot).tts_isnull.add(to) = isnull;
            }
            executor::store_virtual(slot);
        }
    }

    /// The same of a row that was taken apart.
    ///
    /// # Safety
    /// As `compressed`; `values` and `nulls` have the columns.
    pub unsafe fn ordinary(&self, values: &[pg_sys::Datum], nulls: &[bool]) {
        // SAFETY: by contract.
        unsafe {
            let slot = self.slot;
            executor::clear_virtual(slot);
            for &(to, _, at) in &self.columns {
                *(*slot).tts_values.add(to) = values[at];
                *(*slot).tts_isnull.add(to) = nulls[at];
            }
            executor::store_virtual(slot);
        }
    }

    /// Says where the node is, and what it returns: the row, before core's projection.
    ///
    /// # Safety
    /// After `compressed` or `ordinary`.
    #[inline]
    pub unsafe fn at(&self, tid: Tid) -> *mut pg_sys::TupleTableSlot {
        // SAFETY: by contract.
        unsafe {
            (*self.scan).tts_flags &= !(pg_sys::TTS_FLAG_EMPTY as u16);
            (*self.scan).tts_tid = tid::to_pg(tid);
            self.slot
        }
    }

    /// The node has no row.
    ///
    /// # Safety
    /// Inside a guarded entry point of the node.
    pub unsafe fn clear(&self) {
        // SAFETY: by contract.
        unsafe {
            executor::clear_virtual(self.slot);
            executor::clear_virtual(self.scan);
        }
    }
}

/// The columns, from 0, that a target list is, if it is nothing else.
unsafe fn plain_columns(target: *mut pg_sys::List) -> Option<Vec<usize>> {
    // SAFETY: the caller's contract.
    unsafe {
        let entries = items::<pg_sys::TargetEntry>(target);
        let column = |entry: *mut pg_sys::TargetEntry| {
            let var = cast::<pg_sys::Var>((*entry).expr.cast(), NodeTag::T_Var)?;
            ((*var).varattno > 0).then(|| (*var).varattno as usize - 1)
        };
        entries.map(column).collect()
    }
}
