//! Rows on their way up. Where nothing but columns is asked for, they are put into the slot of the node's result; else into the row of the
//! table, which core's projection then sees.

use crate::exec::aggregate::lanes::Lane;
use crate::exec::aggregate::selection::Lanes;
use crate::pg::custom_scan::{NodeState, Projection};
use crate::pg::row_slot::RowSlot;
use crate::pg::tid::Tid;
use crate::pg::Datum;
use std::ops::Range;

/// Puts rows together.
pub struct Output {
    /// The row of the table. It names where the node is, for WHERE CURRENT OF.
    scan: RowSlot,
    slot: RowSlot,
    /// The columns of `slot` that are filled: place, lane, and column of the table, all from 0.
    columns: Vec<(usize, usize, usize)>,
    /// Core's, where there is more than columns.
    pub projection: Option<Projection>,
}

impl Output {
    /// # Safety
    /// `node` must begin, and `lanes` be its.
    pub unsafe fn new(node: NodeState, lanes: &mut Lanes) -> Output {
        let scan = node.scan_slot();
        scan.be_of(node.table().oid());
        let plain = node.plan().plain_columns();
        let plain = plain.filter(|columns| columns.iter().all(|&column| column > 0));
        if let (Some(projection), Some(plain)) = (node.projection(), plain) {
            let columns = plain.into_iter().map(|column| column as usize - 1);
            let columns = columns.enumerate().map(|(to, at)| (to, lanes.at(at), at));
            return Output {
                scan,
                slot: projection.slot(),
                columns: columns.collect(),
                projection: None,
            };
        }
        let needed = lanes.of(node.plan().targets());
        let columns = needed.into_iter().map(|lane| (lane, lanes.column(lane)));
        Output {
            scan,
            slot: scan,
            columns: columns.map(|(lane, at)| (at, lane, at)).collect(),
            projection: node.projection(),
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
            slot.clear_virtual();
            for &(to, lane, _) in &self.columns {
                slot.set(to, lanes[lane].datum(window, row));
            }
            slot.show();
        }
    }

    /// The same of a row that was taken apart.
    ///
    /// # Safety
    /// As `compressed`; `values` and `nulls` have the columns.
    pub unsafe fn ordinary(&self, values: &[Datum], nulls: &[bool]) {
        // SAFETY: by contract.
        unsafe {
            let slot = self.slot;
            slot.clear_virtual();
            for &(to, _, at) in &self.columns {
                slot.set(to, (values[at], nulls[at]));
            }
            slot.show();
        }
    }

    /// Says where the node is, and what it returns: the row, before core's projection. After `compressed` or `ordinary`.
    #[inline]
    pub fn at(&self, tid: Tid) -> RowSlot {
        self.scan.be_at(tid);
        self.slot
    }

    /// The node has no row.
    pub fn clear(&self) {
        // SAFETY: the slots of a node's own row and of its result are virtual.
        unsafe {
            self.slot.clear_virtual();
            self.scan.clear_virtual();
        }
    }
}
