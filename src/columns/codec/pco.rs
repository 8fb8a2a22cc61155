//! pcodec (crate `pco`): best ratio for numbers that fit no simpler model, at a fifth to a tenth of
//! the decode speed of packed bits. For merged chunks only. A block is one chunk meta and one page of
//! pco's wrapped format 4.1, without its two-byte file header; the number of values is ours to know.

use pco::data_types::Number;
use pco::metadata::DeltaEncoding;
use pco::wrapped::{FileCompressor, FileDecompressor};
use pco::{ChunkConfig, PagingSpec};

use crate::error::{Corrupt, Result};

/// Level of the bake-off; higher ones cost encode time for next to nothing.
const LEVEL: usize = 8;

/// The header of pco's file format 4.1 that we leave out.
const FILE_HEADER: [u8; 2] = [4, 1];

/// Mode of chunks that carry a dictionary; we never write one, and its length is not bounded by ours.
const MODE_DICT: u8 = 4;

/// Appends the block to `out`. False, with nothing written, if pco refuses (an empty block).
pub fn encode<T: Number>(values: &[T], out: &mut Vec<u8>) -> bool {
    if values.is_empty() {
        return false;
    }
    let config = ChunkConfig::default()
        .with_compression_level(LEVEL)
        .with_paging_spec(PagingSpec::Exact(vec![values.len()]));
    let start = out.len();
    let written = FileCompressor::default()
        .chunk_compressor(values, &config)
        .and_then(|chunk| chunk.write_meta(&mut *out).map(|_| chunk))
        .and_then(|mut chunk| chunk.write_page(0, &mut *out).map(|_| ()));
    if written.is_err() {
        out.truncate(start);
    }
    written.is_ok()
}

/// Fills `out` from a block of `out.len()` values.
pub fn decode<T: Number>(bytes: &[u8], out: &mut [T]) -> Result<()> {
    const BAD: Corrupt = Corrupt::new("a pcodec block is damaged");
    if bytes.first().is_none_or(|b| b & 15 == MODE_DICT) {
        return Err(BAD);
    }
    let (file, _) = FileDecompressor::new(&FILE_HEADER[..]).map_err(|_| BAD)?;
    let (mut chunk, rest) = file.chunk_decompressor::<T, _>(bytes).map_err(|_| BAD)?;
    if let DeltaEncoding::Lookback { config, .. } = &chunk.meta().delta_encoding {
        // The decoder allocates the window: hold it to the size of the block.
        if config.window_n_log.max(config.state_n_log) > out.len().max(256).ilog2() + 2 {
            return Err(BAD);
        }
    }
    let mut page = chunk.page_decompressor(rest, out.len()).map_err(|_| BAD)?;
    let progress = page.read(out).map_err(|_| BAD)?;
    if progress.n_processed != out.len() || !progress.finished {
        return Err(BAD);
    }
    Ok(())
}
