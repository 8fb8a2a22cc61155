//! Storage parameters of series indexes: btree's, and `of_key`, by which a dump tells the series index that a key, or an ordinary
//! index, has brought (`ddl/auto_index`) from one that somebody asked for.

use crate::pg::lock_mode::LockMode;
use crate::pg::relation::Index;
use pgrx::pg_sys;
use std::ffi::CStr;
use std::mem::{offset_of, size_of};
use std::sync::OnceLock;

pub const OF_KEY: &CStr = c"of_key";

/// Begins as nbtree's own BTOptions, which its code takes these for.
#[repr(C)]
struct Options {
    length: i32,
    fillfactor: i32,
    vacuum_cleanup_index_scale_factor: f64,
    deduplicate_items: bool,
    of_key: bool,
}

static KIND: OnceLock<pg_sys::relopt_kind::Type> = OnceLock::new();

/// Names the parameters to core. Called once, when a backend loads the library.
pub fn init() {
    KIND.get_or_init(|| {
        let lock = LockMode::ShareUpdateExclusive as pg_sys::LOCKMODE;
        // SAFETY: core copies the texts.
        unsafe {
            let kind = pg_sys::add_reloption_kind();
            let text = c"Packs index pages only to this percentage";
            pg_sys::add_int_reloption(
                kind,
                c"fillfactor".as_ptr(),
                text.as_ptr(),
                90,
                10,
                100,
                lock,
            );
            let text = c"Enables \"deduplicate items\" feature for this index";
            pg_sys::add_bool_reloption(
                kind,
                c"deduplicate_items".as_ptr(),
                text.as_ptr(),
                true,
                lock,
            );
            let text = c"The index came with a key, and goes with it, or with an ordinary index";
            pg_sys::add_bool_reloption(kind, OF_KEY.as_ptr(), text.as_ptr(), false, lock);
            kind
        }
    });
}

/// What `amoptions` has to do.
///
/// # Safety
/// `given` must be a value of `pg_class.reloptions`, or null.
pub unsafe fn parse(given: pg_sys::Datum, validate: bool) -> *mut pg_sys::bytea {
    use pg_sys::relopt_type::{RELOPT_TYPE_BOOL, RELOPT_TYPE_INT};
    let parameter = |name: &CStr, opttype, offset| pg_sys::relopt_parse_elt {
        optname: name.as_ptr(),
        opttype,
        offset: offset as i32,
    };
    let known = [
        parameter(
            c"fillfactor",
            RELOPT_TYPE_INT,
            offset_of!(Options, fillfactor),
        ),
        parameter(
            c"deduplicate_items",
            RELOPT_TYPE_BOOL,
            offset_of!(Options, deduplicate_items),
        ),
        parameter(OF_KEY, RELOPT_TYPE_BOOL, offset_of!(Options, of_key)),
    ];
    let kind = *KIND
        .get()
        .expect("BUG: storage parameters are not registered");
    let count = known.len() as i32;
    // SAFETY: by contract; the result is palloc'd.
    unsafe {
        pg_sys::build_reloptions(
            given,
            validate,
            kind,
            size_of::<Options>(),
            known.as_ptr(),
            count,
        )
        .cast()
    }
}

/// Has a key brought this series index?
pub fn is_of_key(index: Index<'_>) -> bool {
    // SAFETY: the index is open; `parse` made what is there.
    unsafe {
        let options: *const Options = (*index.as_ptr()).rd_options.cast();
        !options.is_null() && (*options).of_key
    }
}
