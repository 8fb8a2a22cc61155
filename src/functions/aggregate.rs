//! What the aggregates share: where their states live, and how states travel between processes.
//!
//! A state is plain data in the aggregate's memory context, so that it is accounted for, and freed with its group. Serialized
//! states only travel between processes of one server and are written by `Writer` and read by `Reader` in native byte order.
use crate::pg::fcinfo::{text_bytes, Fcinfo};
use crate::pg::memory::Context;
use crate::pg::varlena::bytea;
use crate::pg::Datum;

/// The memory context that the states of the running aggregate live in.
///
/// # Safety
/// `fcinfo` is the current call's; must run inside a guarded entry point.
pub unsafe fn context(fcinfo: Fcinfo) -> Context {
    // SAFETY: the caller's promise.
    unsafe { fcinfo.aggregate_memory() }
        .expect("BUG: an aggregate's support function was called outside an aggregate")
}

/// Moves a state into the aggregate's context.
///
/// # Safety
/// `context` is valid; must run inside a guarded entry point. T needs no drop.
pub unsafe fn place<T>(context: Context, state: T) -> *mut T {
    // SAFETY: the caller's promise.
    unsafe { context.place(state) }
}

/// Builds a serialized state.
#[derive(Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_ne_bytes())
    }

    pub fn i64(&mut self, value: i64) -> &mut Self {
        self.bytes(&value.to_ne_bytes())
    }

    pub fn f64(&mut self, value: f64) -> &mut Self {
        self.i64(value.to_bits() as i64)
    }

    /// # Safety
    /// Must run inside a guarded entry point.
    pub unsafe fn finish(&self) -> Datum {
        // SAFETY: the caller's promise.
        unsafe { bytea(&self.0) }
    }
}

/// Takes a serialized state apart. States come from our own `Writer`, so a short one is our bug.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// # Safety
    /// `datum` is a serialized state.
    pub unsafe fn new(datum: Datum) -> Reader<'a> {
        // SAFETY: the caller's promise.
        Reader(unsafe { text_bytes(datum) })
    }

    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self
            .0
            .split_at_checked(len)
            .expect("BUG: a serialized state is too short");
        self.0 = rest;
        bytes
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        self.bytes(N)
            .try_into()
            .expect("BUG: as many bytes as were asked for")
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.array())
    }

    pub fn i64(&mut self) -> i64 {
        i64::from_ne_bytes(self.array())
    }

    pub fn f64(&mut self) -> f64 {
        f64::from_bits(self.i64() as u64)
    }
}
