//! Storage parameters of series indexes: btree's, and `of_key`, by which a dump tells the series index that a key, or an ordinary
//! index, has brought (`ddl/auto_index`) from one that somebody asked for.

use crate::pg::relation::Index;
use crate::pg::storage_parameters::{Parameter, Parameters};
use crate::pg::Datum;
use std::ffi::CStr;
use std::mem::offset_of;
use std::sync::OnceLock;

pub const OF_KEY: &CStr = c"of_key";

/// Begins as nbtree's own BTOptions, which its code takes these for.
#[repr(C)]
pub struct Options {
    length: i32,
    fillfactor: i32,
    vacuum_cleanup_index_scale_factor: f64,
    deduplicate_items: bool,
    of_key: bool,
}

static PARAMETERS: OnceLock<Parameters> = OnceLock::new();

/// Names the parameters to core. Called once, when a backend loads the library.
pub fn init() {
    PARAMETERS.get_or_init(|| {
        let all = Parameters::new();
        let text = c"Packs index pages only to this percentage";
        all.add_int(c"fillfactor", text, [90, 10, 100]);
        let text = c"Enables \"deduplicate items\" feature for this index";
        all.add_bool(c"deduplicate_items", text, true);
        let text = c"The index came with a key, and goes with it, or with an ordinary index";
        all.add_bool(OF_KEY, text, false);
        all
    });
}

/// What `amoptions` has to do.
///
/// # Safety
/// `given` must be a value of `pg_class.reloptions`, or null.
pub unsafe fn parse(given: Datum, validate: bool) -> *mut Options {
    let known = [
        Parameter::Int(c"fillfactor", offset_of!(Options, fillfactor)),
        Parameter::Bool(c"deduplicate_items", offset_of!(Options, deduplicate_items)),
        Parameter::Bool(OF_KEY, offset_of!(Options, of_key)),
    ];
    let all = PARAMETERS
        .get()
        .expect("BUG: storage parameters are not registered");
    // SAFETY: by contract.
    unsafe { all.parse(given, validate, &known) }
}

/// Has a key brought this series index?
pub fn is_of_key(index: Index<'_>) -> bool {
    let options: *const Options = index.options();
    // SAFETY: null, or made by `parse`.
    unsafe { options.as_ref() }.is_some_and(|options| options.of_key)
}
