//! The launcher, which runs where the server preloads the library: it sends a worker to each database in turn, so that rules of
//! retention are kept where nobody writes, and work goes on after a restart. One that finds nothing to do ends at once.

use crate::guc;
use crate::pg::background::{self, Request};
use crate::pg::databases::{self, Database};
use crate::pg::departure;
use crate::pg::error;
use crate::pg::wake::{self, Start};
use crate::pg::{Datum, Oid};
use pgrx::prelude::*;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A database is visited when it had no worker for so long.
const VISIT: Duration = Duration::from_secs(30);
/// After it crashed, a launcher is started again after so many seconds.
const RESTART_SECONDS: i32 = 10;

pub fn init() {
    if background::is_preloading() {
        Request {
            name: c"varve launcher",
            function: c"varve_launcher",
            argument: Datum::from(0usize),
            restart: Some(RESTART_SECONDS),
        }
        .register();
    }
}

/// The launcher's main function.
///
/// # Safety
/// Called by the postmaster in a process of its own.
#[no_mangle]
#[pg_guard]
pub unsafe extern "C-unwind" fn varve_launcher(_argument: Datum) {
    const SLICE_MS: u64 = 1_000;
    // SAFETY: by contract. Without a database only shared catalogs can be read.
    unsafe {
        background::attend_signals();
        background::connect_to_none();
        let mut visited = HashMap::new();
        loop {
            error::check_interrupts();
            departure::reload();
            if guc::has_worker() {
                start_one(&mut visited);
            }
            background::wait(SLICE_MS);
        }
    }
}

/// Sends a worker to the database that had none for longest.
///
/// # Safety
/// In the launcher, between transactions.
unsafe fn start_one(visited: &mut HashMap<u32, Instant>) {
    // SAFETY: the launcher, between transactions.
    let databases = unsafe { databases::all_open() };
    visited.retain(|&id, _| databases.iter().any(|database| database.id == id));
    let now = Instant::now();
    let with_worker = databases.iter().filter(|database| database.has_worker);
    visited.extend(with_worker.map(|database| (database.id, now)));
    let is_due = |database: &&Database| {
        let last = visited.get(&database.id);
        last.is_none_or(|&last| now.duration_since(last) > VISIT)
    };
    let due = databases.iter().filter(is_due);
    if let Some(next) = due.min_by_key(|database| visited.get(&database.id)) {
        visited.insert(next.id, now);
        wake::start(Start {
            database: Oid::from(next.id),
            is_visit: true,
        });
    }
}
