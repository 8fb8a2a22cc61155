//! Any bits, as columns of every kind, come back from a chunk.
#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|input: &[u8]| support::hostile::round_trip(input));
