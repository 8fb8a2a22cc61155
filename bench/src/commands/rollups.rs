//! Sessions of random changes to a table with rollups, two of them stacked, beside refreshes and compact: after every transaction,
//! and in every snapshot, the rollups give what their queries give. The server is killed in between. Dumps carry what is stored.
//! By turns of seeds the table is plain, or partitioned and its partitions come and go, or retention takes its oldest rows.

mod changes;
mod dumped;
mod preparing;
mod tables;
mod upgraded;

use crate::errors::{describe, is_conflict, sqlstate};
use crate::heap_pair;
use crate::random::Random;
use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::Result;
use postgres::{Client, NoTls};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tables::{expect_equal, expect_kept, Different, Mode, ROLLUPS};

const SESSIONS: u64 = 4;
/// So many transactions are shared by all modes.
const MANY: u64 = 10_000;
/// Hours that have rows, behind those that retention has taken.
const HOURS_KEPT: u64 = 30;

/// What the sessions share.
struct Shared {
    mode: Mode,
    conninfo: String,
    stop: AtomicBool,
    /// Hours that the table's newest rows have reached.
    newest: AtomicU64,
    /// Hours that retention has taken.
    taken: AtomicU64,
    committed: AtomicU64,
    compared: AtomicU64,
    refreshed: AtomicU64,
}

/// So many transactions, or as many as `seconds` allow.
pub fn run(
    tree: &Arc<Tree>,
    report: &mut Report,
    transactions: u64,
    seconds: u64,
    seed: u64,
) -> Result<()> {
    println!("rollups: seed {seed}, {transactions} transactions");
    dumped::run(tree, report)?;
    upgraded::run(tree, report)?;
    preparing::run(tree, report)?;
    let in_turns = if transactions < MANY { 1 } else { 3 };
    let deadline = Instant::now() + Duration::from_secs(seconds);
    for turn in 0..in_turns {
        let share = (transactions / in_turns, deadline);
        model(tree, report, share, seed + turn)?;
    }
    Ok(())
}

/// The model in one of its modes. Some need more time than others, so the deadline is that of all of them.
fn model(
    tree: &Arc<Tree>,
    report: &mut Report,
    (transactions, deadline): (u64, Instant),
    seed: u64,
) -> Result<()> {
    let mode = Mode::of(seed);
    let settings = [
        "deadlock_timeout = '100ms'",
        // A TRUNCATE that waits for a prepared transaction keeps the one out that would end it, and everybody else.
        "lock_timeout = '2s'",
        "max_prepared_transactions = 20",
    ];
    let mut cluster = Cluster::create(tree, &settings)?;
    let mut client = cluster.database("rollups")?;
    tables::create(&mut client, mode)?;
    drop(client);
    let shared = Shared {
        mode,
        conninfo: cluster.conninfo("rollups"),
        stop: AtomicBool::new(false),
        newest: AtomicU64::new(changes::HOURS as u64 / 2),
        taken: AtomicU64::new(0),
        committed: AtomicU64::new(0),
        compared: AtomicU64::new(0),
        refreshed: AtomicU64::new(0),
    };
    for half in 0..2 {
        let until = transactions * (half + 1) / 2;
        let killed = half == 0;
        let name = ["before kill -9", "after kill -9"][half as usize];
        let outcome = work(
            &mut cluster,
            &shared,
            seed + half * 100,
            (until, deadline),
            killed,
        );
        let check = |what: &str| format!("rollups/{what} {name}, {mode:?}");
        report.check(&check("equal at any time"), outcome);
        if killed {
            cluster.start()?;
        }
        let mut client = cluster.connect("rollups")?;
        let equal = resolve_prepared(&mut client)
            .and_then(|()| expect_equal(&mut client))
            .and_then(|()| expect_kept(&mut client));
        report.check(&check("equal at rest"), equal);
        let stored = "hourly_stored".to_string();
        for table in [stored].into_iter().chain(mode.tables()) {
            let table = &table;
            let verified = heap_pair::expect_verified(&mut client, table);
            report.check(&check(&format!("{table} verified")), verified);
        }
    }
    println!(
        "rollups: {mode:?}, seed {seed}: {} transactions, {} comparisons besides, {} refreshes",
        shared.committed.load(Ordering::Relaxed),
        shared.compared.load(Ordering::Relaxed),
        shared.refreshed.load(Ordering::Relaxed)
    );
    let many =
        shared.refreshed.load(Ordering::Relaxed) > shared.committed.load(Ordering::Relaxed) / 100;
    let refreshed = many.then_some(()).ok_or("hardly a refresh came to its end");
    report.check(
        "rollups/refreshed all the while",
        refreshed.map_err(Into::into),
    );
    let all = shared.committed.load(Ordering::Relaxed) >= transactions;
    let all = all.then_some(()).ok_or("not all transactions in time");
    report.check("rollups/all transactions", all.map_err(Into::into));
    Ok(())
}

/// Ends what a killed session has left prepared.
fn resolve_prepared(client: &mut Client) -> Result<()> {
    for row in client.query("SELECT gid FROM pg_prepared_xacts", &[])? {
        let name: String = row.get(0);
        client.batch_execute(&format!("COMMIT PREPARED '{name}'"))?;
    }
    Ok(())
}

/// All sessions until so many transactions are committed in all, the deadline is over, or something is wrong.
fn work(
    cluster: &mut Cluster,
    shared: &Shared,
    seed: u64,
    (until, deadline): (u64, Instant),
    kill: bool,
) -> Result<()> {
    shared.stop.store(false, Ordering::Relaxed);
    thread::scope(|scope| {
        let mut sessions: Vec<_> = (0..SESSIONS)
            .map(|session| scope.spawn(move || change_until(shared, seed + session, session)))
            .collect();
        sessions.push(scope.spawn(move || refresh_until(shared, seed + 50)));
        sessions.push(scope.spawn(move || compare_until(shared, seed + 60)));
        while shared.committed.load(Ordering::Relaxed) < until
            && !sessions.iter().any(|session| session.is_finished())
            && Instant::now() < deadline
        {
            thread::sleep(Duration::from_millis(20));
        }
        let failed_early = sessions.iter().any(|session| session.is_finished());
        let killed = kill && !failed_early;
        shared.stop.store(true, Ordering::Relaxed);
        if killed {
            cluster.kill()?;
        }
        let mut result: Result<()> = Ok(());
        for session in sessions {
            let end = session
                .join()
                .unwrap_or_else(|_| Err("a thread panicked".into()));
            match end {
                // The kill ends connections: that alone is no fault.
                Err(text) if killed && text.contains("connection") => {}
                Err(text) => result = Err(text.into()),
                Ok(()) => {}
            }
        }
        result
    })
}

type Ended = std::result::Result<(), String>;

/// Repeats `step` until all sessions stop; conflicts are rolled back.
fn repeat(shared: &Shared, mut step: impl FnMut(&mut Client) -> Result<()>) -> Ended {
    let mut client =
        Client::connect(&shared.conninfo, NoTls).map_err(|e| format!("connection: {e}"))?;
    while !shared.stop.load(Ordering::Relaxed) {
        match step(&mut client) {
            Ok(()) => {}
            Err(error) if error.is::<Different>() => return Err(error.to_string()),
            Err(_) if client.is_closed() => return Err("the connection is closed".into()),
            Err(error)
                if is_conflict(error.as_ref()) || is_in_the_way(error.as_ref(), shared.mode) =>
            {
                client
                    .batch_execute("ROLLBACK")
                    .map_err(|e| format!("connection: {e}"))?;
            }
            Err(error) => return Err(describe(error.as_ref())),
        }
    }
    Ok(())
}

/// What other sessions may do to a statement: lock_not_available; check_violation, where a row has no partition now; undefined_table,
/// invalid_object_definition, wrong_object_type and datatype_mismatch, where another session has taken the partition, put it back,
/// or changed the columns; object_not_in_prerequisite_state, where retention has taken rows of that time.
fn is_in_the_way(error: &(dyn std::error::Error + 'static), mode: Mode) -> bool {
    let codes: &[&str] = match mode {
        Mode::Plain => &["55P03"],
        Mode::Partitioned => &["55P03", "23514", "42P01", "42P17", "42809", "42804"],
        Mode::Retention => &["55P03", "55000"],
    };
    sqlstate(error).is_some_and(|code| codes.contains(&code))
}

fn compare_until(shared: &Shared, seed: u64) -> Ended {
    let mut random = Random::new(seed);
    repeat(shared, |client| {
        // Without a lock of the table, partitions go and files are emptied meanwhile.
        let first = random.pick(&["readings", "pg_am"]);
        client.batch_execute(&format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM {first}"
        ))?;
        // Others go on; the snapshot stays.
        thread::sleep(Duration::from_millis(30));
        expect_equal(client)?;
        expect_kept(client)?;
        client.batch_execute("COMMIT")?;
        shared.compared.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
}

fn refresh_until(shared: &Shared, seed: u64) -> Ended {
    let mut random = Random::new(seed);
    repeat(shared, |client| {
        let (name, _) = random.pick(&ROLLUPS);
        // One in two refreshes commits after each slice.
        let round = random.pick(&["0", "2s"]);
        client.batch_execute(&format!("SET varve.refresh_round = '{round}'"))?;
        if shared.mode == Mode::Retention && random.one_in(20) {
            let newest = shared.newest.load(Ordering::Relaxed);
            let until = (shared.taken.load(Ordering::Relaxed) + 1).min(newest - HOURS_KEPT);
            shared.taken.store(until, Ordering::Relaxed);
            tables::expire(client, &changes::at(until as i64))?;
        }
        match random.integer(0, 10) {
            0 => {
                let tables = shared.mode.tables();
                heap_pair::compact(client, random.pick::<String>(&tables))?;
            }
            1 => heap_pair::compact(client, "hourly_stored")?,
            2 => client.batch_execute(&format!(
                "CALL varve.refresh_rollup('{name}', '2026-01-05'::timestamptz, '2026-01-07'::timestamptz)"
            ))?,
            _ => client.batch_execute(&format!("CALL varve.refresh_rollup('{name}')"))?,
        }
        shared.refreshed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
}

fn change_until(shared: &Shared, seed: u64, session: u64) -> Ended {
    let mut random = Random::new(seed);
    let mut number = 0;
    let mut comparison = None;
    repeat(shared, |client| {
        number += 1;
        let prepared = match &comparison {
            Some(prepared) => prepared,
            None => comparison.insert(client.prepare(&tables::comparison())?),
        };
        let name = format!("p{seed}_{session}_{number}");
        changes::transaction(client, shared, &mut random, &name, prepared)?;
        shared.committed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
}
