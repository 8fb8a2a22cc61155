//! A relation's file as pages, line pointers and tuples, to be changed in place.

use crate::Result;
use std::fs;
use std::path::Path;
use varve_columns::tuple::header::{self, Header, StorageTuple};

const PAGE_BYTES: usize = 8192;
const PAGE_HEADER_BYTES: usize = 24;
const TUPLE_HEADER_BYTES: usize = 24;
/// Where in a storage tuple its body begins.
pub const TUPLE_BODY_AT: usize = TUPLE_HEADER_BYTES;
/// Where in a piece's tuple its data begins.
pub const PIECE_DATA_AT: usize = TUPLE_HEADER_BYTES + 24;
const NORMAL: u32 = 1;
const LEAF: u16 = 1;
const ATTRIBUTES: u16 = 0x07ff;
const XMAX_COMMITTED: u16 = 0x0400;
const XMAX_INVALID: u16 = 0x0800;

pub struct File(Vec<u8>);

/// Line pointer `number` (from 1) of a page.
#[derive(Clone, Copy, Debug)]
pub struct LinePointer {
    pub page: usize,
    pub number: usize,
}

pub struct Tuple<'a>(&'a [u8]);

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl Tuple<'_> {
    fn attributes(&self) -> u16 {
        u16_at(self.0, 18) & ATTRIBUTES
    }

    fn storage(&self) -> Option<StorageTuple<'_>> {
        let body = self.0.get(TUPLE_HEADER_BYTES..)?;
        let ours = self.attributes() == 0 && header::is_storage(body);
        ours.then(|| header::decode(body).ok()).flatten()
    }

    pub fn header(&self) -> Option<Header> {
        match self.storage()? {
            StorageTuple::Header(header) => Some(header),
            _ => None,
        }
    }

    pub fn is_header(&self) -> bool {
        self.header().is_some()
    }

    /// Chunk and number of a piece.
    pub fn piece(&self) -> Option<(u64, u32)> {
        match self.storage()? {
            StorageTuple::Piece(piece) => Some((piece.chunk, piece.number)),
            _ => None,
        }
    }

    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Has nobody deleted or locked the tuple?
    fn is_live(&self) -> bool {
        u32_at(self.0, 4) == 0 || u16_at(self.0, 20) & XMAX_INVALID != 0
    }

    /// A full piece, of column data.
    pub fn is_payload(&self) -> bool {
        matches!(self.storage(), Some(StorageTuple::Piece(piece)) if piece.number == 0 && piece.data.len() > 500)
    }

    /// A row whose header says that it went to another place.
    pub fn is_moved_row(&self) -> bool {
        self.attributes() > 0 && self.0[12..18] == [0xff, 0xff, 0xff, 0xff, 0xfd, 0xff]
    }
}

impl File {
    pub fn read(path: &Path) -> Result<File> {
        Ok(File(fs::read(path)?))
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        Ok(fs::write(path, &self.0)?)
    }

    fn page(&self, page: usize) -> &[u8] {
        &self.0[page * PAGE_BYTES..][..PAGE_BYTES]
    }

    pub fn line_pointers(&self, page: usize) -> usize {
        (usize::from(u16_at(self.page(page), 12)).saturating_sub(PAGE_HEADER_BYTES)) / 4
    }

    fn pointer_at(at: LinePointer) -> usize {
        at.page * PAGE_BYTES + PAGE_HEADER_BYTES + 4 * (at.number - 1)
    }

    /// Where in the file the tuple is, if the line pointer is normal.
    fn place(&self, at: LinePointer) -> Option<std::ops::Range<usize>> {
        let pointer = u32_at(&self.0, Self::pointer_at(at));
        let start = at.page * PAGE_BYTES + (pointer & 0x7fff) as usize;
        let normal = (pointer >> 15) & 3 == NORMAL;
        normal.then(|| start..start + (pointer >> 17) as usize)
    }

    pub fn tuple(&self, at: LinePointer) -> Tuple<'_> {
        Tuple(&self.0[self.place(at).expect("a normal line pointer")])
    }

    pub fn tuple_mut(&mut self, at: LinePointer) -> &mut [u8] {
        let place = self.place(at).expect("a normal line pointer");
        &mut self.0[place]
    }

    /// What comes behind a tuple's head.
    pub fn body_mut(&mut self, at: LinePointer) -> &mut [u8] {
        &mut self.tuple_mut(at)[TUPLE_HEADER_BYTES..]
    }

    fn tuples(&self) -> impl Iterator<Item = LinePointer> + '_ {
        let all = (0..self.0.len() / PAGE_BYTES).flat_map(|page| {
            (1..=self.line_pointers(page)).map(move |number| LinePointer { page, number })
        });
        all.filter(|&at| self.place(at).is_some())
    }

    /// Tuples that nobody has deleted.
    pub fn live_tuples(&self) -> impl Iterator<Item = LinePointer> + '_ {
        self.tuples().filter(|&at| self.tuple(at).is_live())
    }

    /// The first heap tuple that is wanted.
    pub fn find(&self, wanted: impl Fn(&Tuple) -> bool) -> Result<LinePointer> {
        self.tuples()
            .find(|&at| wanted(&self.tuple(at)))
            .ok_or_else(|| "there is no such tuple".into())
    }

    pub fn set_body(&mut self, at: LinePointer, body: &[u8]) {
        self.body_mut(at).copy_from_slice(body);
    }

    pub fn set_unused(&mut self, at: LinePointer) {
        self.0[Self::pointer_at(at)..][..4].fill(0);
    }

    /// Makes a deleted row visible again.
    pub fn revive(&mut self, at: LinePointer) {
        let tuple = self.tuple_mut(at);
        let flags = u16_at(tuple, 20) & !XMAX_COMMITTED | XMAX_INVALID;
        tuple[20..22].copy_from_slice(&flags.to_le_bytes());
    }

    /// The page of an nbtree index with the greatest keys.
    pub fn rightmost_leaf(&self) -> Result<usize> {
        let special = PAGE_BYTES - 16;
        (1..self.0.len() / PAGE_BYTES)
            .find(|&page| {
                let page = self.page(page);
                u32_at(page, special + 4) == 0 && u16_at(page, special + 12) & LEAF != 0
            })
            .ok_or_else(|| "there is no leaf".into())
    }

    /// Takes the last line pointer from a page.
    pub fn drop_last_entry(&mut self, page: usize) {
        let lower = u16_at(self.page(page), 12) - 4;
        self.0[page * PAGE_BYTES + 12..][..2].copy_from_slice(&lower.to_le_bytes());
    }
}
