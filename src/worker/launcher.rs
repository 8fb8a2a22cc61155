//! The launcher, which runs where the server preloads the library: it sends a worker to each database in turn, so that rules of
//! retention are kept where nobody writes, and work goes on after a restart. One that finds nothing to do ends at once.

use crate::guc;
use crate::pg::background::{self, Request};
use crate::pg::databases;
use crate::pg::departure;
use crate::pg::error;
use crate::pg::wake::{self, Start};
use crate::pg::{Datum, Oid};
use pgrx::prelude::*;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// A database is visited so often.
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

/// Sends a worker to the database that has waited longest.
///
/// # Safety
/// In the launcher, between transactions.
unsafe fn start_one(visited: &mut HashMap<u32, Instant>) {
    // SAFETY: the launcher, between transactions.
    let databases = unsafe { databases::without_worker() };
    visited.retain(|database, _| databases.contains(database));
    let due = |database: &&u32| {
        visited
            .get(database)
            .is_none_or(|last| last.elapsed() > VISIT)
    };
    let next = databases
        .iter()
        .filter(due)
        .min_by_key(|database| visited.get(database));
    if let Some(&database) = next {
        visited.insert(database, Instant::now());
        wake::start(Start {
            database: Oid::from(database),
            is_visit: true,
        });
    }
}
