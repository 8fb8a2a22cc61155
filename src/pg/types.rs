//! Types of values: their OIDs, and what a domain is over.

use core::ptr::NonNull;
use pgrx::pg_sys;
use std::ffi::{CStr, CString};

pub use pgrx::pg_sys::{
    BOOLOID, BPCHAROID, DATEOID, FLOAT4OID, FLOAT8OID, INT2OID, INT4OID, INT8OID, INTERVALOID,
    JSONBOID, NAMEOID, NUMERICOID, OIDOID, TEXTOID, TIMEOID, TIMESTAMPOID, TIMESTAMPTZOID, UUIDOID,
    VARCHAROID,
};

/// The type that a domain is over, in the end; any other type itself.
#[inline]
pub fn base(of: pg_sys::Oid) -> pg_sys::Oid {
    // No domain is among the types that PostgreSQL's sources number.
    if u32::from(of) < pg_sys::FirstGenbkiObjectId {
        return of;
    }
    // SAFETY: a syscache look-up, which raises an error for what is no type.
    unsafe { pg_sys::getBaseType(of) }
}

/// How many bytes values of a type have; less than 0 where that differs.
#[inline]
pub fn length_of(of: pg_sys::Oid) -> i16 {
    // SAFETY: a syscache look-up.
    unsafe { pg_sys::get_typlen(of) }
}

/// The default operator class of a type for an access method; InvalidOid where it has none.
pub fn default_class(of: pg_sys::Oid, method: pg_sys::Oid) -> pg_sys::Oid {
    // SAFETY: a look-up in the catalog.
    unsafe { pg_sys::GetDefaultOpClass(of, method) }
}

/// The operator family of an operator class, and the type that the class is for.
pub fn of_class(class: pg_sys::Oid) -> (pg_sys::Oid, pg_sys::Oid) {
    // SAFETY: syscache look-ups, which raise errors for what is no operator class.
    unsafe {
        (
            pg_sys::get_opclass_family(class),
            pg_sys::get_opclass_input_type(class),
        )
    }
}

/// The operator of a family for a strategy and values of one type; InvalidOid where there is none.
pub fn operator(family: pg_sys::Oid, of: pg_sys::Oid, strategy: u32) -> pg_sys::Oid {
    // SAFETY: a syscache look-up.
    unsafe { pg_sys::get_opfamily_member(family, of, of, strategy as i16) }
}

/// Is it a type that CREATE TYPE … AS ENUM has made?
pub fn is_enum(of: pg_sys::Oid) -> bool {
    // SAFETY: a syscache look-up.
    unsafe { pg_sys::type_is_enum(of) }
}

/// A type as SQL.
pub fn name_of(of: pg_sys::Oid) -> String {
    // SAFETY: a look-up in the catalog; the result is palloc'd.
    unsafe { CStr::from_ptr(pg_sys::format_type_be(of)) }
        .to_string_lossy()
        .into_owned()
}

/// A type with its modifier, as SQL that means it whatever the search_path is. "character" alone would be char(1), and "bit" bit(1).
pub fn full_name_of(of: pg_sys::Oid, modifier: i32) -> String {
    let flags = pg_sys::FORMAT_TYPE_TYPEMOD_GIVEN | pg_sys::FORMAT_TYPE_FORCE_QUALIFY;
    // SAFETY: a look-up in the catalog; the result is palloc'd.
    unsafe { CStr::from_ptr(pg_sys::format_type_extended(of, modifier, flags as u16)) }
        .to_string_lossy()
        .into_owned()
}

/// Is it a type that no column can have?
pub fn is_pseudo(of: pg_sys::Oid) -> bool {
    // SAFETY: a look-up in the catalog.
    unsafe { pg_sys::get_typtype(of) as u8 == pg_sys::TYPTYPE_PSEUDO }
}

/// A collation as SQL.
pub fn collation_name(collation: pg_sys::Oid) -> String {
    // SAFETY: a look-up in the catalog; the result is palloc'd.
    unsafe { CStr::from_ptr(pg_sys::generate_collation_name(collation)) }
        .to_string_lossy()
        .into_owned()
}

/// Are texts that a collation takes for equal the same bytes?
pub fn is_deterministic(collation: pg_sys::Oid) -> bool {
    // SAFETY: a syscache look-up, which raises an error for what is no collation.
    unsafe { pg_sys::get_collation_isdeterministic(collation) }
}

/// How values of a type compare by its default btree operator class. The type cache keeps it as long as the process lives.
#[derive(Clone, Copy)]
pub struct Comparison(NonNull<pg_sys::FmgrInfo>);

impl Comparison {
    /// None for a type without an ordering.
    pub fn of(of: pg_sys::Oid) -> Option<Comparison> {
        // SAFETY: a look-up of the type cache, whose entries stay.
        unsafe {
            let what = pg_sys::TYPECACHE_CMP_PROC_FINFO as i32;
            let entry = pg_sys::lookup_type_cache(of, what);
            let function = &raw mut (*entry).cmp_proc_finfo;
            NonNull::new(function)
                .filter(|_| (*function).fn_oid != pg_sys::InvalidOid)
                .map(Comparison)
        }
    }

    /// Less than 0, 0, or more.
    ///
    /// # Safety
    /// Both must be non-null values of the type; within a guarded entry point.
    #[inline]
    pub unsafe fn compare(
        self,
        collation: pg_sys::Oid,
        one: pg_sys::Datum,
        other: pg_sys::Datum,
    ) -> i32 {
        // SAFETY: by contract.
        let sign = unsafe { pg_sys::FunctionCall2Coll(self.0.as_ptr(), collation, one, other) };
        sign.value() as i32
    }
}

/// A non-null value as its type prints it.
///
/// # Safety
/// `value` must be a value of the type.
pub unsafe fn text_of(value: pg_sys::Datum, of: pg_sys::Oid) -> String {
    // SAFETY: by contract; output functions return C strings.
    unsafe {
        let (mut output, mut is_varlena) = (pg_sys::InvalidOid, false);
        pg_sys::getTypeOutputInfo(of, &mut output, &mut is_varlena);
        let text = pg_sys::OidOutputFunctionCall(output, value);
        let out = CStr::from_ptr(text).to_string_lossy().into_owned();
        pg_sys::pfree(text.cast());
        out
    }
}

/// The value that a type reads from a text of SQL, or an error of the type's.
///
/// # Safety
/// `text` must be a non-null text.
pub unsafe fn value_of_text(text: pg_sys::Datum, of: pg_sys::Oid) -> pg_sys::Datum {
    // SAFETY: by contract; look-ups, and the type's input function.
    unsafe {
        let (mut input, mut parameter) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
        pg_sys::getTypeInputInfo(of, &mut input, &mut parameter);
        let text = pg_sys::text_to_cstring(text.cast_mut_ptr());
        pg_sys::OidInputFunctionCall(input, text, parameter, -1)
    }
}

/// The value that a type reads from a text, or an error of the type's.
pub fn value_of(text: &str, of: pg_sys::Oid) -> pg_sys::Datum {
    let text = CString::new(text).expect("BUG: a value with a zero byte");
    // SAFETY: look-ups, and the type's input function.
    unsafe {
        let (mut input, mut parameter) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
        pg_sys::getTypeInputInfo(of, &mut input, &mut parameter);
        pg_sys::OidInputFunctionCall(input, text.as_ptr().cast_mut(), parameter, -1)
    }
}

/// The double that is nearest to a numeric.
///
/// # Safety
/// `value` must be a non-null numeric; within a guarded entry point.
pub unsafe fn numeric_to_float(value: pg_sys::Datum) -> f64 {
    // SAFETY: by contract; the conversion reads nothing else.
    let float =
        unsafe { pgrx::direct_function_call_as_datum(pg_sys::numeric_float8, &[Some(value)]) };
    f64::from_bits(float.map_or(f64::NAN.to_bits(), |x| x.value() as u64))
}
