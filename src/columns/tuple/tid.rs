//! Tuple identifiers: real ones (block, line pointer) and virtual ones of compressed rows.
//!
//! A virtual TID is the number `n = ((block * 12 + line pointer - 1) << 16) | row` of a row in the
//! chunk whose header sits at (block, line pointer), written as block `2^31 + n / 32,767` and offset
//! `1 + n % 32,767` (docs/design/0001).

/// A real or virtual tuple identifier, comparable in core's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid {
    pub block: u32,
    pub offset: u16,
}

/// Highest line pointer that a chunk header may have.
pub const MAX_HEADER_OFFSET: u16 = 12;
/// PostgreSQL's InvalidBlockNumber.
pub const INVALID_BLOCK: u32 = u32::MAX;
const VIRTUAL_BASE: u32 = 1 << 31;
/// Highest offset of a virtual TID: clients that read an offset as a signed number take larger ones for negative.
pub const MAX_OFFSET: u16 = i16::MAX as u16;
const OFFSETS: u64 = MAX_OFFSET as u64;
/// Blocks from here on cannot be named by a virtual TID: 682 GiB.
pub const MAX_HEADER_BLOCK: u32 =
    ((PENDING.block - VIRTUAL_BASE) as u64 * OFFSETS / ((MAX_HEADER_OFFSET as u64) << 16)) as u32;

/// TID of a row that waits in memory for its batch to be written; names nothing yet.
pub const PENDING: Tid = Tid {
    block: INVALID_BLOCK - 1,
    offset: 1,
};

impl Tid {
    /// True for TIDs of compressed rows and of rows that wait for their batch.
    #[inline]
    pub fn is_virtual(self) -> bool {
        self.block >= VIRTUAL_BASE && self.block != INVALID_BLOCK
    }

    /// The virtual TID of row `row` of the chunk whose header is at `header`.
    pub fn of_row(header: Tid, row: u32) -> Tid {
        debug_assert!(header.offset >= 1 && header.offset <= MAX_HEADER_OFFSET);
        let slot =
            u64::from(header.block) * u64::from(MAX_HEADER_OFFSET) + u64::from(header.offset - 1);
        let n = (slot << 16) | u64::from(row);
        Tid {
            block: VIRTUAL_BASE + (n / OFFSETS) as u32,
            offset: 1 + (n % OFFSETS) as u16,
        }
    }

    /// Header TID and row number of a virtual TID; `None` for a real, pending or impossible one.
    pub fn row_of(self) -> Option<(Tid, u32)> {
        if !self.is_virtual() || self == PENDING || self.offset == 0 {
            return None;
        }
        let n = u64::from(self.block - VIRTUAL_BASE) * OFFSETS + u64::from(self.offset - 1);
        let slot = n >> 16;
        let block = slot / u64::from(MAX_HEADER_OFFSET);
        if block >= u64::from(MAX_HEADER_BLOCK) {
            return None;
        }
        let header = Tid {
            block: block as u32,
            offset: 1 + (slot % u64::from(MAX_HEADER_OFFSET)) as u16,
        };
        Some((header, (n & 0xffff) as u32))
    }

    /// The marker that `heap_delete(…, changingPart)` leaves in `t_ctid`.
    pub const MOVED: Tid = Tid {
        block: INVALID_BLOCK,
        offset: 0xfffd,
    };

    /// Is it that?
    pub fn is_moved_marker(self) -> bool {
        self == Tid::MOVED
    }
}

impl core::fmt::Display for Tid {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "({},{})", self.block, self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_tids_come_back_for_all_corners() {
        for block in [0, 1, 77, 65_535, MAX_HEADER_BLOCK - 1] {
            for offset in [1, 5, MAX_HEADER_OFFSET] {
                for row in [0, 1, 1023, 65_535] {
                    let header = Tid { block, offset };
                    let tid = Tid::of_row(header, row);
                    assert!(tid.is_virtual() && tid != PENDING && tid.offset <= 32_767);
                    assert_eq!(tid.row_of(), Some((header, row)));
                }
            }
        }
        assert_eq!(PENDING.row_of(), None);
        assert_eq!(
            Tid {
                block: 5,
                offset: 1
            }
            .row_of(),
            None
        );
    }
}
