//! `time_bucket_gapfill('1 hour', time, '2026-01-01', '2026-01-02')`: of literals without a type PostgreSQL makes texts where it
//! can, and so a time zone of the start. No zone's name begins with a digit: such a call is made the one that was meant.

use crate::functions::gapfill_calls::{marker_of, Marker};
use crate::pg::fcinfo::text_bytes;
use crate::pg::node::{cast, items, list, name, owned};
use pgrx::pg_sys::{self, Datum, Node, NodeTag, Oid};

/// Answers the planner's request to simplify a call: the call that is meant, or null for no other.
///
/// # Safety
/// `request` is what the planner calls a support function with; must run inside a guarded entry point.
pub unsafe fn simplify(request: *mut Node) -> Datum {
    // SAFETY: the caller's promise.
    unsafe {
        let none = Datum::from(0usize);
        let tag = NodeTag::T_SupportRequestSimplify;
        let Some(request) = cast::<pg_sys::SupportRequestSimplify>(request, tag) else {
            return none;
        };
        let call = (*request).fcall;
        let arguments: Vec<*mut Node> = items((*call).args).collect();
        let [width, time, zone, start, finish] = arguments[..] else {
            return none;
        };
        let is_null = |node| constant(node).is_some_and(|value| (*value).constisnull);
        if !is_null(finish) || marker_of((*call).funcid) != Some(Marker::Bucket) {
            return none;
        }
        let meant = constant(zone).and_then(|zone| time_of(zone));
        match meant.zip(without_zone((*call).funcid)) {
            Some((first, function)) => pg_sys::makeFuncExpr(
                function,
                (*call).funcresulttype,
                list([width, time, first, start]),
                pg_sys::InvalidOid,
                pg_sys::InvalidOid,
                (*call).funcformat,
            )
            .into(),
            None => none,
        }
    }
}

/// # Safety
/// `node` is an expression.
unsafe fn constant(node: *mut Node) -> Option<*mut pg_sys::Const> {
    // SAFETY: the caller's promise.
    unsafe { cast(node, NodeTag::T_Const) }
}

/// The time that a text is meant as.
///
/// # Safety
/// `zone` is a constant of type text.
unsafe fn time_of(zone: *mut pg_sys::Const) -> Option<*mut Node> {
    // SAFETY: the caller's promise; the input function raises an error for what is no time.
    unsafe {
        let text = (*zone).constvalue;
        if (*zone).constisnull || !text_bytes(text).first()?.is_ascii_digit() {
            return None;
        }
        let time = pg_sys::OidInputFunctionCall(
            pg_sys::F_TIMESTAMPTZ_IN.into(),
            pg_sys::text_to_cstring(text.cast_mut_ptr()),
            pg_sys::InvalidOid,
            -1,
        );
        let (length, is_null, by_value) = (size_of::<i64>() as i32, false, true);
        let typ = pg_sys::TIMESTAMPTZOID;
        let constant =
            pg_sys::makeConst(typ, -1, pg_sys::InvalidOid, length, time, is_null, by_value);
        Some(constant.cast())
    }
}

/// The function of the same name that takes no zone.
///
/// # Safety
/// `function` is a function's OID.
unsafe fn without_zone(function: Oid) -> Option<Oid> {
    // SAFETY: the caller's promise; look-ups in the catalog.
    unsafe {
        let schema = owned(pg_sys::get_namespace_name(pg_sys::get_func_namespace(
            function,
        )));
        let plain = owned(pg_sys::get_func_name(function));
        let string = |text| pg_sys::makeString(name(text)).cast::<Node>();
        let time = pg_sys::TIMESTAMPTZOID;
        let types = [pg_sys::INTERVALOID, time, time, time];
        let missing_ok = true;
        let names = list([string(&schema), string(&plain)]);
        let found = pg_sys::LookupFuncName(names, types.len() as i32, types.as_ptr(), missing_ok);
        (found != pg_sys::InvalidOid).then_some(found)
    }
}
