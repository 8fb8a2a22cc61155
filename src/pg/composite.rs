//! Results of row types, and arrays of them.
use super::descriptor::Descriptor;
use super::fcinfo::Fcinfo;
use super::varlena::bytea;
use pgrx::pg_sys::{self, Datum, Oid};

/// A double precision field.
pub fn float(value: f64) -> Option<Datum> {
    Some(Datum::from(value.to_bits()))
}

/// A text field.
///
/// # Safety
/// Must run inside a guarded entry point.
pub unsafe fn text(bytes: &[u8]) -> Option<Datum> {
    // SAFETY: text and bytea have the same layout; the caller's promise.
    Some(unsafe { bytea(bytes) })
}

/// A row of a type that is described by `descriptor`.
///
/// # Safety
/// The fields fit the descriptor; must run inside a guarded entry point.
unsafe fn row(descriptor: Descriptor<'_>, fields: &[Option<Datum>]) -> Datum {
    let mut values: Vec<Datum> = fields
        .iter()
        .map(|field| field.unwrap_or(Datum::null()))
        .collect();
    let mut nulls: Vec<bool> = fields.iter().map(Option::is_none).collect();
    // SAFETY: the caller's promise.
    unsafe {
        let tuple =
            pg_sys::heap_form_tuple(descriptor.as_ptr(), values.as_mut_ptr(), nulls.as_mut_ptr());
        pg_sys::heap_copy_tuple_as_datum(tuple, descriptor.as_ptr())
    }
}

/// A row of the type that the called function returns.
///
/// # Safety
/// The fields fit the type, which is a row type; must run inside a guarded entry point.
pub unsafe fn result_row(fcinfo: Fcinfo, fields: &[Option<Datum>]) -> Datum {
    // SAFETY: the caller's promise.
    unsafe {
        let typ = fcinfo.result_type();
        row(
            Descriptor::from_ptr(pg_sys::lookup_rowtype_tupdesc_copy(typ, -1)),
            fields,
        )
    }
}

/// An array of rows, of the type that the called function returns.
///
/// # Safety
/// The fields fit the element type, which is a row type; must run inside a guarded entry point.
pub unsafe fn result_array<const N: usize>(
    fcinfo: Fcinfo,
    rows: impl Iterator<Item = [Option<Datum>; N]>,
) -> Datum {
    // SAFETY: the caller's promise.
    unsafe {
        let element = pg_sys::get_element_type(fcinfo.result_type());
        let descriptor = pg_sys::lookup_rowtype_tupdesc_copy(element, -1);
        let elements: Vec<Datum> = rows
            .map(|fields| row(Descriptor::from_ptr(descriptor), &fields))
            .collect();
        array(elements, element, -1, pg_sys::TYPALIGN_DOUBLE)
    }
}

/// An array of values that are passed by reference.
///
/// # Safety
/// The elements have the type; must run inside a guarded entry point.
unsafe fn array(mut elements: Vec<Datum>, typ: Oid, len: i32, align: u8) -> Datum {
    // SAFETY: the caller's promise.
    unsafe {
        let count = elements.len() as i32;
        let align = align as core::ffi::c_char;
        Datum::from(pg_sys::construct_array(
            elements.as_mut_ptr(),
            count,
            typ,
            len,
            false,
            align,
        ))
    }
}

/// An array of texts.
///
/// # Safety
/// The elements are texts; must run inside a guarded entry point.
pub unsafe fn text_array(elements: Vec<Datum>) -> Datum {
    // SAFETY: the caller's promise.
    unsafe { array(elements, pg_sys::TEXTOID, -1, pg_sys::TYPALIGN_INT) }
}

/// An array of intervals.
///
/// # Safety
/// Must run inside a guarded entry point.
pub unsafe fn interval_array(mut elements: Vec<pg_sys::Interval>) -> Datum {
    let elements = elements.iter_mut();
    let elements = elements
        .map(|interval| Datum::from(interval as *mut pg_sys::Interval))
        .collect();
    let len = size_of::<pg_sys::Interval>() as i32;
    // SAFETY: the caller's promise; the array is a copy.
    unsafe { array(elements, pg_sys::INTERVALOID, len, pg_sys::TYPALIGN_DOUBLE) }
}

/// An array of integers.
///
/// # Safety
/// Must run inside a guarded entry point.
pub unsafe fn integer_array(elements: impl Iterator<Item = i32>) -> Datum {
    let mut elements: Vec<Datum> = elements.map(Datum::from).collect();
    let (len, align) = (
        size_of::<i32>() as i32,
        pg_sys::TYPALIGN_INT as core::ffi::c_char,
    );
    // SAFETY: the caller's promise; the elements are passed by value.
    unsafe {
        Datum::from(pg_sys::construct_array(
            elements.as_mut_ptr(),
            elements.len() as i32,
            pg_sys::INT4OID,
            len,
            true,
            align,
        ))
    }
}

/// The type of each field of a record, and its value, if it is not null.
///
/// # Safety
/// `record` is a non-null record; must run inside a guarded entry point. Values live as long as it, or the current memory context.
pub unsafe fn fields(record: Datum) -> Vec<(Oid, Option<Datum>)> {
    // SAFETY: the caller's promise; the arrays have an entry for each column of the record's type.
    unsafe {
        let header =
            pg_sys::pg_detoast_datum(record.cast_mut_ptr()).cast::<pg_sys::HeapTupleHeaderData>();
        let own = &(*header).t_choice.t_datum;
        let columns = pg_sys::lookup_rowtype_tupdesc_copy(own.datum_typeid, own.datum_typmod);
        let columns = Descriptor::from_ptr(columns);
        let mut tuple = pg_sys::HeapTupleData {
            t_len: pgrx::varsize_any(header.cast()) as u32,
            t_self: pg_sys::ItemPointerData::default(),
            t_tableOid: Oid::INVALID,
            t_data: header,
        };
        let mut values = vec![Datum::null(); columns.len()];
        let mut nulls = vec![true; columns.len()];
        pg_sys::heap_deform_tuple(
            &mut tuple,
            columns.as_ptr(),
            values.as_mut_ptr(),
            nulls.as_mut_ptr(),
        );
        let types = columns.attributes().iter().map(|column| column.atttypid);
        let values = values.into_iter().zip(nulls);
        let fields = types.zip(values);
        fields
            .map(|(typ, (value, isnull))| (typ, (!isnull).then_some(value)))
            .collect()
    }
}
