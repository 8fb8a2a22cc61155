//! Asking the postmaster for a background process.

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

fn put<const N: usize>(field: &mut [core::ffi::c_char; N], text: &CStr) {
    for (to, from) in field.iter_mut().take(N - 1).zip(text.to_bytes()) {
        *to = *from as core::ffi::c_char;
    }
}
