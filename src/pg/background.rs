//! Background processes: asking the postmaster for one, and what it does first.

use super::unbound::{die, SignalHandlerForConfigReload};
use pgrx::pg_sys;
use std::ffi::CStr;

const LIBRARY: &CStr = c"$libdir/varve";

/// What the postmaster is to start.
pub struct Request {
    pub name: &'static CStr,
    pub function: &'static CStr,
    pub argument: pg_sys::Datum,
    /// Seconds after which it is started again when it ends; None: never.
    pub restart: Option<i32>,
}

impl Request {
    fn record(&self) -> pg_sys::BackgroundWorker {
        let mut worker = pg_sys::BackgroundWorker {
            bgw_flags: (pg_sys::BGWORKER_SHMEM_ACCESS
                | pg_sys::BGWORKER_BACKEND_DATABASE_CONNECTION) as i32,
            bgw_start_time: pg_sys::BgWorkerStartTime::BgWorkerStart_RecoveryFinished,
            bgw_restart_time: self.restart.unwrap_or(pg_sys::BGW_NEVER_RESTART),
            bgw_main_arg: self.argument,
            ..Default::default()
        };
        put(&mut worker.bgw_name, self.name);
        put(&mut worker.bgw_type, self.name);
        put(&mut worker.bgw_library_name, LIBRARY);
        put(&mut worker.bgw_function_name, self.function);
        worker
    }

    /// While the server loads its libraries.
    pub fn register(&self) {
        let mut worker = self.record();
        // SAFETY: the record is copied.
        unsafe { pg_sys::RegisterBackgroundWorker(&mut worker) };
    }

    /// From a running process; false where max_worker_processes are in use.
    pub fn start(&self) -> bool {
        let mut worker = self.record();
        // SAFETY: the record is copied; nobody asks for a handle.
        unsafe { pg_sys::RegisterDynamicBackgroundWorker(&mut worker, core::ptr::null_mut()) }
    }
}

/// Does the server load the libraries that all its processes are to have?
pub fn is_preloading() -> bool {
    // SAFETY: a flag of the postmaster.
    unsafe { pg_sys::process_shared_preload_libraries_in_progress }
}

/// SIGTERM ends the process at the next check for interrupts, SIGHUP makes it read the configuration.
///
/// # Safety
/// In a background process that has just begun.
pub unsafe fn attend_signals() {
    // SAFETY: core's own handlers.
    unsafe {
        pg_sys::pqsignal(pg_sys::SIGTERM as i32, Some(die));
        pg_sys::pqsignal(pg_sys::SIGHUP as i32, Some(SignalHandlerForConfigReload));
        pg_sys::BackgroundWorkerUnblockSignals();
    }
}

/// Connects the process to no database: only shared catalogs can be read then.
///
/// # Safety
/// In a background process that has not connected yet.
pub unsafe fn connect_to_none() {
    let nothing = core::ptr::null();
    // SAFETY: by contract.
    unsafe { pg_sys::BackgroundWorkerInitializeConnection(nothing, nothing, 0) }
}

/// Connects the process to a database, as the superuser that the server was made with, and says that it is to count what pages cost.
///
/// # Safety
/// In a background process that has not connected yet.
pub unsafe fn connect(database: pg_sys::Oid) {
    // SAFETY: the process connects once, which the caller sees to; raises an error where there is no such database.
    unsafe {
        pg_sys::BackgroundWorkerInitializeConnectionByOid(database, pg_sys::InvalidOid, 0);
        pg_sys::VacuumCostActive = true;
    }
}

/// Sets a parameter of the server for as long as the process runs. Raises an error where there is none of that name.
///
/// # Safety
/// In a background process that is connected.
pub unsafe fn set(name: &CStr, value: &CStr) {
    let (context, source) = (
        pg_sys::GucContext::PGC_SUSET,
        pg_sys::GucSource::PGC_S_OVERRIDE,
    );
    // SAFETY: texts are copied.
    unsafe { pg_sys::SetConfigOption(name.as_ptr(), value.as_ptr(), context, source) }
}

/// Shows what is being done, in pg_stat_activity.
pub fn report(what: &CStr) {
    // SAFETY: texts are copied.
    unsafe {
        let state = pg_sys::BackendState::STATE_RUNNING;
        pg_sys::pgstat_report_activity(state, what.as_ptr());
    }
}

/// The same, and shows it as the name of the application too.
pub fn report_as_name(what: &CStr) {
    report(what);
    // SAFETY: texts are copied.
    unsafe { pg_sys::pgstat_report_appname(what.as_ptr()) };
}

/// Waits for a signal, or that long.
///
/// # Safety
/// In a background process.
pub unsafe fn wait(milliseconds: u64) {
    // SAFETY: the latch of this process.
    unsafe {
        let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
        pg_sys::WaitLatch(
            pg_sys::MyLatch,
            events as i32,
            milliseconds as core::ffi::c_long,
            pg_sys::PG_WAIT_EXTENSION,
        );
        pg_sys::ResetLatch(pg_sys::MyLatch);
    }
}

fn put<const N: usize>(field: &mut [core::ffi::c_char; N], text: &CStr) {
    for (to, from) in field.iter_mut().take(N - 1).zip(text.to_bytes()) {
        *to = *from as core::ffi::c_char;
    }
}
