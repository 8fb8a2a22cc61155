//! Zstandard frames without their magic number and content size (the caller stores the size): some six
//! bytes saved where a frame is often two hundred bytes long. Contexts are kept per thread.

use std::cell::RefCell;
use std::ptr::NonNull;

use zstd_sys as sys;

use crate::error::{Corrupt, Result};
use crate::wire::{put_varint, Reader};

struct Compressor(NonNull<sys::ZSTD_CCtx>);
struct Decompressor(NonNull<sys::ZSTD_DCtx>);

thread_local! {
    static COMPRESSOR: RefCell<Option<Compressor>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor>> = const { RefCell::new(None) };
}

impl Compressor {
    fn new() -> Self {
        // SAFETY: creates a context of our own; parameters are set on a live context.
        unsafe {
            let context =
                NonNull::new(sys::ZSTD_createCCtx()).expect("BUG: no memory for a zstd context");
            set(context, sys::ZSTD_cParameter::ZSTD_c_contentSizeFlag, 0);
            // ZSTD_c_format = ZSTD_f_zstd1_magicless
            set(context, sys::ZSTD_cParameter::ZSTD_c_experimentalParam2, 1);
            Compressor(context)
        }
    }
}

/// # Safety
/// `context` is live.
unsafe fn set(context: NonNull<sys::ZSTD_CCtx>, parameter: sys::ZSTD_cParameter, value: i32) {
    // SAFETY: as for the caller.
    let code = unsafe { sys::ZSTD_CCtx_setParameter(context.as_ptr(), parameter, value) };
    assert!(!is_error(code), "BUG: zstd refused a parameter");
}

impl Decompressor {
    fn new() -> Self {
        // SAFETY: creates a context of our own; the parameter is set on a live context.
        unsafe {
            let context =
                NonNull::new(sys::ZSTD_createDCtx()).expect("BUG: no memory for a zstd context");
            // ZSTD_d_format = ZSTD_f_zstd1_magicless
            let format = sys::ZSTD_dParameter::ZSTD_d_experimentalParam1;
            let code = sys::ZSTD_DCtx_setParameter(context.as_ptr(), format, 1);
            assert!(!is_error(code), "BUG: zstd refused a parameter");
            Decompressor(context)
        }
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        // SAFETY: created by `new`, freed once.
        unsafe { sys::ZSTD_freeCCtx(self.0.as_ptr()) };
    }
}

impl Drop for Decompressor {
    fn drop(&mut self) {
        // SAFETY: created by `new`, freed once.
        unsafe { sys::ZSTD_freeDCtx(self.0.as_ptr()) };
    }
}

fn is_error(code: usize) -> bool {
    // SAFETY: a pure function of its argument.
    unsafe { sys::ZSTD_isError(code) != 0 }
}

/// Appends the size of `bytes` and one frame that takes up the rest of its stream.
pub fn compress(bytes: &[u8], level: i32, out: &mut Vec<u8>) {
    put_varint(out, bytes.len() as u64);
    if bytes.is_empty() {
        return;
    }
    COMPRESSOR.with_borrow_mut(|slot| {
        let context = slot.get_or_insert_with(Compressor::new).0;
        // SAFETY: the context is live; the spare room has the bound zstd asks for, and `set_len` covers
        // exactly what it has written there.
        unsafe {
            set(
                context,
                sys::ZSTD_cParameter::ZSTD_c_compressionLevel,
                level,
            );
            let room = sys::ZSTD_compressBound(bytes.len());
            out.reserve(room);
            let spare = out.spare_capacity_mut();
            let code = sys::ZSTD_compress2(
                context.as_ptr(),
                spare.as_mut_ptr().cast(),
                room,
                bytes.as_ptr().cast(),
                bytes.len(),
            );
            assert!(
                !is_error(code),
                "BUG: zstd failed to compress into its own bound"
            );
            out.set_len(out.len() + code);
        }
    });
}

/// Reads what `compress` wrote into `out` (cleared first), at most `limit` bytes. Consumes the reader.
pub fn decompress(reader: &mut Reader, limit: usize, out: &mut Vec<u8>) -> Result<()> {
    let size = reader.varint_up_to(limit)?;
    let frame = reader.take(reader.len())?;
    out.clear();
    if size == 0 {
        return Ok(());
    }
    // A frame repeats at most 128 KiB per block of four bytes.
    if size / (64 << 10) > frame.len() {
        return Err(Corrupt::new("a zstd frame claims too many bytes"));
    }
    out.reserve(size);
    DECOMPRESSOR.with_borrow_mut(|slot| {
        let context = slot.get_or_insert_with(Decompressor::new).0;
        // SAFETY: the context is live; zstd writes at most `size` bytes into the reserved room, and
        // `set_len` is reached only if it has written all of them.
        unsafe {
            let code = sys::ZSTD_decompressDCtx(
                context.as_ptr(),
                out.spare_capacity_mut().as_mut_ptr().cast(),
                size,
                frame.as_ptr().cast(),
                frame.len(),
            );
            if is_error(code) || code != size {
                return Err(Corrupt::new("a zstd frame is damaged"));
            }
            out.set_len(size);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_damage_is_an_error() {
        let bytes: Vec<u8> = (0..5000u32).map(|i| (i / 7 % 11) as u8).collect();
        let mut packed = Vec::new();
        compress(&bytes, 1, &mut packed);
        assert!(packed.len() < 1000);
        let mut back = Vec::new();
        decompress(&mut Reader::new(&packed), bytes.len(), &mut back).unwrap();
        assert_eq!(back, bytes);
        assert!(decompress(&mut Reader::new(&packed), bytes.len() - 1, &mut back).is_err());
        assert!(decompress(
            &mut Reader::new(&packed[..packed.len() - 1]),
            bytes.len(),
            &mut back
        )
        .is_err());
    }
}
