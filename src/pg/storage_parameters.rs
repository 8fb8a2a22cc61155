//! Storage parameters of an access method of ours: what WITH says, and the record that the server makes of it.

use super::lock_mode::LockMode;
use super::Datum;
use pgrx::pg_sys;
use std::ffi::CStr;

/// The parameters of one access method.
#[derive(Clone, Copy)]
pub struct Parameters(pg_sys::relopt_kind::Type);

/// One of them: where it is in the record.
pub enum Parameter {
    Int(&'static CStr, usize),
    Bool(&'static CStr, usize),
}

const LOCK: i32 = LockMode::ShareUpdateExclusive as i32;

impl Parameters {
    /// To be called when a backend loads the library, as are those that add some.
    pub fn new() -> Parameters {
        // SAFETY: counts kinds in this process.
        Parameters(unsafe { pg_sys::add_reloption_kind() })
    }

    /// A number: its default, least and greatest.
    pub fn add_int(self, name: &CStr, text: &CStr, [default, least, most]: [i32; 3]) {
        let (name, text) = (name.as_ptr(), text.as_ptr());
        // SAFETY: core copies the texts.
        unsafe { pg_sys::add_int_reloption(self.0, name, text, default, least, most, LOCK) }
    }

    pub fn add_bool(self, name: &CStr, text: &CStr, default: bool) {
        let (name, text) = (name.as_ptr(), text.as_ptr());
        // SAFETY: core copies the texts.
        unsafe { pg_sys::add_bool_reloption(self.0, name, text, default, LOCK) }
    }

    /// The record of what is given; palloc'd, null where there is nothing.
    ///
    /// # Safety
    /// `given` must be a value of `pg_class.reloptions`, or null; `T` must begin with its length, as a bytea does, and have the parameters
    /// where they say.
    pub unsafe fn parse<T>(self, given: Datum, validate: bool, known: &[Parameter]) -> *mut T {
        use pg_sys::relopt_type::{RELOPT_TYPE_BOOL, RELOPT_TYPE_INT};
        let element = |known: &Parameter| {
            let (name, opttype, offset) = match known {
                Parameter::Int(name, at) => (name, RELOPT_TYPE_INT, at),
                Parameter::Bool(name, at) => (name, RELOPT_TYPE_BOOL, at),
            };
            pg_sys::relopt_parse_elt {
                optname: name.as_ptr(),
                opttype,
                offset: *offset as i32,
            }
        };
        let known: Vec<_> = known.iter().map(element).collect();
        // SAFETY: by contract.
        unsafe {
            let (first, count) = (known.as_ptr(), known.len() as i32);
            let size = size_of::<T>();
            pg_sys::build_reloptions(given, validate, self.0, size, first, count).cast()
        }
    }
}
