//! Storage tuples on pages of a new file that nobody else can see yet: VACUUM FULL and CLUSTER copy chunks
//! with the transaction ids that they have. core's rewriteheap.c cannot be used for that: it would send
//! storage tuples through the toaster. Pages are logged whole, as rewriteheap.c does.

use super::write::DEPTH_STEP;
use crate::pg::relation::Table;
use crate::pg::tid::{self, Tid, INVALID_BLOCK};
use crate::pg::tuple::{self, TUPLE_HEADER_BYTES};
use pgrx::pg_sys;
use varve_columns::tuple::header::{Piece, BODY_BYTES, PIECE_BYTES};
use varve_columns::tuple::runs::Pieces;
use varve_columns::tuple::tid::MAX_HEADER_OFFSET;

const MAIN: pg_sys::ForkNumber::Type = pg_sys::ForkNumber::MAIN_FORKNUM;
const PAGE_BYTES: usize = pg_sys::BLCKSZ as usize;
/// Bits of t_infomask that tell about transactions.
const XACT_MASK: u16 = 0xfff0;

/// Who inserted, deleted and locked a tuple, as its header says.
#[derive(Clone, Copy)]
pub struct Lifetime {
    fields: pg_sys::HeapTupleFields,
    mask: u16,
    moved: bool,
}

impl Lifetime {
    /// # Safety
    /// `header` must point to a tuple header on a locked page.
    pub unsafe fn of(header: pg_sys::HeapTupleHeader) -> Lifetime {
        // SAFETY: by contract.
        unsafe {
            Lifetime {
                fields: (*header).t_choice.t_heap,
                mask: (*header).t_infomask & XACT_MASK,
                moved: tuple::ctid(header).is_moved_marker(),
            }
        }
    }

    /// The same for a tuple that leads to no other.
    pub fn unmoved(self) -> Lifetime {
        Lifetime {
            moved: false,
            ..self
        }
    }
}

/// What is older is frozen on the way.
#[derive(Clone, Copy)]
pub struct Cutoffs {
    pub relfrozenxid: pg_sys::TransactionId,
    pub relminmxid: pg_sys::MultiXactId,
    pub freeze: pg_sys::TransactionId,
    pub multi: pg_sys::MultiXactId,
}

#[repr(C, align(4096))]
struct PageBytes([u8; PAGE_BYTES]);

/// Fills the pages of a relation from its end.
pub struct RawPages<'a> {
    table: Table<'a>,
    cutoffs: Cutoffs,
    page: Box<PageBytes>,
    block: u32,
    /// Line pointers on the page.
    used: u16,
    pub tuples: u64,
}

impl<'a> RawPages<'a> {
    /// # Safety
    /// `table` must be open, and its file new in this transaction.
    pub unsafe fn begin(table: Table<'_>, cutoffs: Cutoffs) -> RawPages<'_> {
        RawPages {
            table,
            cutoffs,
            page: Box::new(PageBytes([0; PAGE_BYTES])),
            block: table.blocks(),
            used: 0,
            tuples: 0,
        }
    }

    fn page(&mut self) -> pg_sys::Page {
        self.page.0.as_mut_ptr().cast()
    }

    /// Adds a storage tuple; one with `low` gets a line pointer that virtual TIDs can name.
    pub fn add(&mut self, lifetime: &Lifetime, body: &[u8], low: bool) -> Tid {
        assert!(
            body.len() <= BODY_BYTES,
            "BUG: body of {} bytes",
            body.len()
        );
        let len = TUPLE_HEADER_BYTES + body.len();
        // SAFETY: the page is memory of ours.
        let free = unsafe { pg_sys::PageGetHeapFreeSpace(self.page()) };
        if self.used > 0
            && (free < len.next_multiple_of(8) || low && self.used >= MAX_HEADER_OFFSET)
        {
            self.write_page();
        }
        if self.used == 0 {
            // SAFETY: as above.
            unsafe { pg_sys::PageInit(self.page(), PAGE_BYTES, 0) };
        }
        self.used += 1;
        self.tuples += 1;
        let at = Tid {
            block: self.block,
            offset: self.used,
        };
        let mut words = self.compose(lifetime, body, at);
        // SAFETY: the tuple is copied; there is room for it, as computed above.
        let offset = unsafe {
            pg_sys::PageAddItemExtended(
                self.page(),
                words.as_mut_ptr().cast(),
                len,
                0,
                pg_sys::PAI_IS_HEAP as i32,
            )
        };
        assert!(offset == at.offset, "BUG: storage tuple not placed");
        at
    }

    /// The tuple's bytes, aligned.
    fn compose(&self, lifetime: &Lifetime, body: &[u8], at: Tid) -> Vec<u64> {
        const MOVED: Tid = Tid {
            block: INVALID_BLOCK,
            offset: 0xfffd,
        };
        let len = TUPLE_HEADER_BYTES + body.len();
        let mut words = vec![0u64; len.div_ceil(8)];
        let header: pg_sys::HeapTupleHeader = words.as_mut_ptr().cast();
        // SAFETY: the words are long enough for header and body.
        unsafe {
            (*header).t_choice.t_heap = lifetime.fields;
            (*header).t_infomask = lifetime.mask;
            (*header).t_hoff = TUPLE_HEADER_BYTES as u8;
            (*header).t_ctid = tid::to_pg(if lifetime.moved { MOVED } else { at });
            core::ptr::copy_nonoverlapping(
                body.as_ptr(),
                header.cast::<u8>().add(TUPLE_HEADER_BYTES),
                body.len(),
            );
            pg_sys::heap_freeze_tuple(
                header,
                self.cutoffs.relfrozenxid,
                self.cutoffs.relminmxid,
                self.cutoffs.freeze,
                self.cutoffs.multi,
            );
        }
        words
    }

    /// Writes `bytes` in pieces numbered from `base`.
    pub fn add_bytes(
        &mut self,
        lifetime: &Lifetime,
        chunk: u64,
        base: u32,
        bytes: &[u8],
        rows: u32,
    ) -> Pieces {
        let count = bytes.len().div_ceil(PIECE_BYTES).max(1);
        let tids = bytes
            .chunks(PIECE_BYTES)
            .enumerate()
            .map(|(at, data)| {
                let piece = Piece {
                    chunk,
                    number: base + at as u32,
                    rows_share: rows as f32 / count as f32,
                    data,
                };
                self.add(lifetime, &piece.encode(), false)
            })
            .collect();
        Pieces {
            len: bytes.len() as u32,
            tids,
        }
    }

    /// Writes the pieces of one depth of a header section.
    pub fn add_section(
        &mut self,
        lifetime: &Lifetime,
        chunk: u64,
        base: u32,
        depth: u32,
        bytes: &[u8],
    ) -> Pieces {
        self.add_bytes(lifetime, chunk, base + depth * DEPTH_STEP, bytes, 0)
    }

    fn write_page(&mut self) {
        let (table, block, page) = (self.table, self.block, self.page());
        // SAFETY: the table is open; nobody else extends a file that nobody else can see.
        unsafe {
            if table.needs_wal() {
                let mut file = file_of(table);
                pg_sys::log_newpage(&mut file, MAIN, block, page.cast(), true);
            }
            pg_sys::PageSetChecksumInplace(page, block);
            let smgr = pg_sys::smgropen(file_of(table), (*table.as_ptr()).rd_backend);
            pg_sys::smgrextend(smgr, MAIN, block, page.cast(), true);
        }
        self.block += 1;
        self.used = 0;
        self.page.0.fill(0);
    }

    /// Writes the last page. The file is synced at once: pages that bypass shared buffers are not covered
    /// by a checkpoint that comes before the commit.
    pub fn finish(&mut self) {
        if self.used > 0 {
            self.write_page();
        }
        // SAFETY: the table is open.
        unsafe {
            let temporary = self.table.class().relpersistence as u8 == pg_sys::RELPERSISTENCE_TEMP;
            if self.tuples > 0 && !temporary {
                let smgr = pg_sys::smgropen(file_of(self.table), (*self.table.as_ptr()).rd_backend);
                pg_sys::smgrimmedsync(smgr, MAIN);
            }
        }
    }
}

#[cfg(feature = "pg15")]
fn file_of(table: Table<'_>) -> pg_sys::RelFileNode {
    // SAFETY: the table is open.
    unsafe { (*table.as_ptr()).rd_node }
}

#[cfg(feature = "pg17")]
fn file_of(table: Table<'_>) -> pg_sys::RelFileLocator {
    // SAFETY: the table is open.
    unsafe { (*table.as_ptr()).rd_locator }
}
