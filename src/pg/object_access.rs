//! Core's hook for what happens to objects.

use pgrx::pg_sys::{self, Oid};
use std::sync::OnceLock;

/// What has happened to an object, or is happening.
#[derive(Clone, Copy)]
pub enum Event {
    RelationMade(Oid),
    ConstraintMade(Oid),
    /// It is still there. What others may use meanwhile is dropped `concurrently`.
    RelationDropped {
        relation: Oid,
        concurrently: bool,
    },
    /// A table inherits from `parent` from now on, or does no more; None where it is not told from which.
    InheritanceChanged {
        table: Oid,
        parent: Option<Oid>,
    },
    Truncated(Oid),
}

/// `pg_inherits`
const INHERITS: Oid = Oid::from_u32(2611);
/// `pg_constraint`
const CONSTRAINTS: Oid = Oid::from_u32(2606);

static mut NEXT: pg_sys::object_access_hook_type = None;
static SHOW: OnceLock<fn(Event)> = OnceLock::new();

/// Has `show` told of events. To be called once, when a backend loads the library. It is called without a guard, and must let errors of core's
/// functions pass only where they are guarded.
pub fn init(show: fn(Event)) {
    SHOW.get_or_init(|| show);
    // SAFETY: called once, when a backend loads the library.
    unsafe {
        NEXT = pg_sys::object_access_hook;
        pg_sys::object_access_hook = Some(object_access);
    }
}

/// Without `#[pg_guard]` for the next hook, as the executor's hooks (`plan/hooks`): its errors pass through as they are.
unsafe extern "C-unwind" fn object_access(
    access: pg_sys::ObjectAccessType::Type,
    class: Oid,
    object: Oid,
    column: core::ffi::c_int,
    arg: *mut core::ffi::c_void,
) {
    use pg_sys::ObjectAccessType::{OAT_DROP, OAT_POST_ALTER, OAT_POST_CREATE, OAT_TRUNCATE};
    // SAFETY: called by core; no value here needs dropping.
    unsafe {
        if let Some(next) = NEXT {
            next(access, class, object, column, arg);
        }
        if column != 0 {
            return;
        }
        let event = match (access, class) {
            (OAT_POST_CREATE, pg_sys::RelationRelationId) => Event::RelationMade(object),
            (OAT_POST_CREATE, CONSTRAINTS) => Event::ConstraintMade(object),
            (OAT_DROP, pg_sys::RelationRelationId) => {
                let arg: *const pg_sys::ObjectAccessDrop = arg.cast();
                let concurrently = pg_sys::PERFORM_DELETION_CONCURRENTLY as core::ffi::c_int;
                Event::RelationDropped {
                    relation: object,
                    concurrently: arg
                        .as_ref()
                        .is_some_and(|arg| arg.dropflags & concurrently != 0),
                }
            }
            (OAT_TRUNCATE, pg_sys::RelationRelationId) => Event::Truncated(object),
            (OAT_POST_ALTER, INHERITS) => {
                let arg: *const pg_sys::ObjectAccessPostAlter = arg.cast();
                Event::InheritanceChanged {
                    table: object,
                    parent: arg.as_ref().map(|arg| arg.auxiliary_id),
                }
            }
            _ => return,
        };
        if let Some(show) = SHOW.get() {
            pg_sys::panic::pgrx_extern_c_guard(|| show(event));
        }
    }
}
