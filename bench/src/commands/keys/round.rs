//! The sessions of a mode, and a compact that never rests, beside whatever else is to happen meanwhile.

use super::{Mode, Tally, SESSIONS};
use crate::errors::{describe, is_end_of_server};
use crate::heap_pair;
use crate::Result;
use postgres::{Client, NoTls};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// How often compact has run, and the chunks that it left, summed up.
#[derive(Default, Debug)]
pub struct Compactions {
    count: u64,
    chunks: i64,
}

impl Compactions {
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.chunks += other.chunks;
    }
}

/// What ended a session, or compact, before its time.
pub struct Failure {
    pub text: String,
    /// It is the server that went.
    pub by_server: bool,
}

impl Failure {
    fn new(error: Box<dyn std::error::Error>) -> Self {
        Self {
            text: describe(error.as_ref()),
            by_server: is_end_of_server(error.as_ref()),
        }
    }

    fn panic() -> Self {
        Self {
            text: "a thread panicked".into(),
            by_server: false,
        }
    }
}

/// What has been done, and how each of those who did it ended.
#[derive(Default)]
pub struct Work {
    pub tally: Tally,
    pub compactions: Compactions,
    pub sessions: Vec<Failure>,
    pub compact: Option<Failure>,
}

/// Lets the sessions and compact work until `meanwhile` has ended, which can ask whether one of the sessions has done so before.
pub fn work_beside<T>(
    mode: &Mode,
    conninfo: &str,
    seed: u64,
    meanwhile: impl FnOnce(&dyn Fn() -> bool) -> T,
) -> (Work, T) {
    let stop = AtomicBool::new(false);
    let stop = &stop;
    thread::scope(|scope| {
        let sessions: Vec<_> = (0..SESSIONS)
            .map(|n| {
                let seed = seed.wrapping_mul(1000).wrapping_add(n);
                scope.spawn(move || {
                    let mut tally = Tally::default();
                    let end = (mode.session)(conninfo, seed, stop, &mut tally);
                    (tally, end.err().map(Failure::new))
                })
            })
            .collect();
        let compactor = scope.spawn(move || {
            let mut compactions = Compactions::default();
            let end = compact_until(conninfo, mode.tables, stop, &mut compactions);
            (compactions, end.err().map(Failure::new))
        });
        let result = meanwhile(&|| sessions.iter().any(|s| s.is_finished()));
        stop.store(true, Ordering::Relaxed);
        let mut work = Work::default();
        for session in sessions {
            let (tally, failure) = session
                .join()
                .unwrap_or_else(|_| (Tally::default(), Some(Failure::panic())));
            work.tally.add(&tally);
            work.sessions.extend(failure);
        }
        (work.compactions, work.compact) = compactor
            .join()
            .unwrap_or_else(|_| (Compactions::default(), Some(Failure::panic())));
        (work, result)
    })
}

/// Compacts without a pause, and vacuums now and then.
fn compact_until(
    conninfo: &str,
    tables: &[&str],
    stop: &AtomicBool,
    compactions: &mut Compactions,
) -> Result<()> {
    let mut client = Client::connect(conninfo, NoTls)?;
    let is_varve = heap_pair::access_method() == "varve";
    while !stop.load(Ordering::Relaxed) {
        if is_varve {
            // A series has its rows in one chunk, or in many.
            let rows = [65_536, 40, 7][(compactions.count / 16 % 3) as usize];
            client.batch_execute(&format!("SET varve.chunk_rows = {rows}"))?;
        }
        for table in tables {
            heap_pair::compact(&mut client, table)?;
            if is_varve {
                let count = format!("SELECT count(*) FROM varve.chunks('{table}')");
                compactions.chunks += client.query_one(&count, &[])?.get::<_, i64>(0);
            }
        }
        compactions.count += 1;
        if compactions.count.is_multiple_of(4) {
            // To cut a table's end it waits for seconds, with sessions at work in vain.
            let truncates = compactions.count.is_multiple_of(64);
            let tables = tables.join(", ");
            client.batch_execute(&format!("VACUUM (TRUNCATE {truncates}) {tables}"))?;
        }
    }
    Ok(())
}
