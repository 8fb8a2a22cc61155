//! The body of a block of hostile bytes is an error or values, never a panic.
#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|input: &[u8]| support::hostile::codec(input));
