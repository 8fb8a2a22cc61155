//! Sessions of random changes to a table with rollups, two of them stacked, beside refreshes and compact: after every transaction,
//! and in every snapshot, the rollups give what their queries give. The server is killed in between. Dumps carry what is stored.
//! With odd seeds the table is partitioned, and its partitions come and go.

mod dumped;

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

const SESSIONS: u64 = 4;
const HOURS: i64 = 40 * 24;
const MOST_ROWS: i64 = 9_000;

/// Rollups, with the queries that they are to equal at any time.
const ROLLUPS: [(&str, &str); 3] = [
    (
        "hourly",
        "SELECT time_bucket('1 hour', time) AS bucket, device, count(*) AS rows, sum(value) AS sum, min(value) AS least, \
         avg(fine) AS average FROM readings WHERE value <> 13 GROUP BY bucket, device",
    ),
    (
        "daily",
        "SELECT time_bucket('1 day', bucket) AS day, device, sum(rows) AS rows, min(least) AS least FROM {hourly} \
         GROUP BY day, device",
    ),
    (
        "monthly",
        "SELECT time_bucket('1 month', time, 'Europe/Berlin') AS month, count(*) AS rows, max(fine) AS most FROM readings \
         GROUP BY month",
    ),
];

/// Partitions, of so many days each; those that are not there now have rows that come back with them.
const PARTITIONS: i64 = 10;
const PARTITION_DAYS: i64 = 6;

/// What the sessions share.
struct Shared {
    partitioned: bool,
    conninfo: String,
    stop: AtomicBool,
    /// Hours that the table's newest rows have reached.
    newest: AtomicU64,
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
    let partitioned = seed % 2 == 1;
    let kind = ["a table", "a partitioned table"][usize::from(partitioned)];
    println!("rollups: seed {seed}, {transactions} transactions, {kind}");
    dumped::run(tree, report)?;
    let settings = [
        "deadlock_timeout = '100ms'",
        // A TRUNCATE that waits for a prepared transaction keeps the one out that would end it.
        "lock_timeout = '10s'",
        "max_prepared_transactions = 20",
    ];
    let mut cluster = Cluster::create(tree, &settings)?;
    let mut client = cluster.database("rollups")?;
    create(&mut client, partitioned)?;
    drop(client);
    let shared = Shared {
        partitioned,
        conninfo: cluster.conninfo("rollups"),
        stop: AtomicBool::new(false),
        newest: AtomicU64::new(HOURS as u64 / 2),
        committed: AtomicU64::new(0),
        compared: AtomicU64::new(0),
        refreshed: AtomicU64::new(0),
    };
    for half in 0..2 {
        let until = transactions * (half + 1) / 2;
        let killed = half == 0;
        let name = ["before kill -9", "after kill -9"][half as usize];
        let time = Duration::from_secs(seconds / 2);
        let outcome = work(
            &mut cluster,
            &shared,
            seed + half * 100,
            (until, time),
            killed,
        );
        report.check(&format!("rollups/equal at any time {name}"), outcome);
        if killed {
            cluster.start()?;
        }
        let mut client = cluster.connect("rollups")?;
        let equal = resolve_prepared(&mut client).and_then(|()| expect_equal(&mut client));
        report.check(&format!("rollups/equal at rest {name}"), equal);
        let stored = "hourly_stored".to_string();
        for table in [stored].into_iter().chain(tables(partitioned)) {
            let table = &table;
            let verified = heap_pair::expect_verified(&mut client, table);
            report.check(&format!("rollups/{table} verified {name}"), verified);
        }
    }
    println!(
        "rollups: {} transactions, {} comparisons, {} refreshes",
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
    Ok(())
}

/// The tables that have the rows.
fn tables(partitioned: bool) -> Vec<String> {
    match partitioned {
        true => (0..PARTITIONS).map(|part| format!("part_{part}")).collect(),
        false => vec!["readings".to_string()],
    }
}

/// Where a partition is: the first one begins before all rows.
fn bounds(part: i64) -> String {
    let day = |part: i64| match part {
        0 => "MINVALUE".to_string(),
        PARTITIONS => "MAXVALUE".to_string(),
        _ => format!(
            "'2026-01-01'::timestamptz + interval '{} days'",
            part * PARTITION_DAYS - 3
        ),
    };
    format!("FOR VALUES FROM ({}) TO ({})", day(part), day(part + 1))
}

fn create(client: &mut Client, partitioned: bool) -> Result<()> {
    let columns = "(time timestamptz NOT NULL, device text NOT NULL, value int, fine float8)";
    if partitioned {
        client.batch_execute(&format!(
            "CREATE TABLE readings {columns} PARTITION BY RANGE (time)"
        ))?;
        for part in 0..PARTITIONS {
            let bounds = bounds(part);
            client.batch_execute(&format!(
                "CREATE TABLE part_{part} PARTITION OF readings {bounds} USING varve;
                 CREATE INDEX ON part_{part} USING varve (device, time)"
            ))?;
        }
    } else {
        client.batch_execute(&format!(
            "CREATE TABLE readings {columns} USING varve; CREATE INDEX ON readings USING varve (device, time)"
        ))?;
    }
    client.batch_execute(
        "INSERT INTO readings SELECT '2026-01-01'::timestamptz + i * interval '5 minutes', 'd' || i % 7, i % 29, i % 64 / 4.0
         FROM generate_series(0, 5759) i",
    )?;
    for table in tables(partitioned) {
        heap_pair::compact(client, &table)?;
    }
    let mut hourly = String::new();
    for (name, query) in ROLLUPS {
        let view = query.replace("{hourly}", "hourly");
        client.execute("SELECT varve.create_rollup($1, $2)", &[&name, &view])?;
        let raw = query.replace("{hourly}", &format!("({hourly}) hourly"));
        client.batch_execute(&format!("CREATE VIEW {name}_raw AS {raw}"))?;
        if name == "hourly" {
            hourly = raw;
        }
    }
    Ok(())
}

/// Compares all rollups with their queries.
fn expect_equal(client: &mut Client) -> Result<()> {
    (0..ROLLUPS.len()).try_for_each(|which| expect_equal_rollup(client, which))
}

/// Compares a rollup with its query in one statement: a row that one has, and the other has not, is left over.
fn expect_equal_rollup(client: &mut Client, which: usize) -> Result<()> {
    let (name, _) = ROLLUPS[which];
    let query = format!(
        "SELECT line, sum(side) FROM (SELECT x::text AS line, 1 AS side FROM {name}_raw x
         UNION ALL SELECT x::text, -1 FROM {name} x) lines
         GROUP BY line HAVING sum(side) <> 0 ORDER BY line"
    );
    let rows = client.query(&query, &[])?;
    let Some(row) = rows.first() else {
        return Ok(());
    };
    let (line, side): (String, i64) = (row.get(0), row.get(1));
    let what = if side > 0 {
        "is missing"
    } else {
        "is too many"
    };
    Err(format!("{name}: {} lines differ, {line} {what}", rows.len()).into())
}

/// Ends what a killed session has left prepared.
fn resolve_prepared(client: &mut Client) -> Result<()> {
    for row in client.query("SELECT gid FROM pg_prepared_xacts", &[])? {
        let name: String = row.get(0);
        client.batch_execute(&format!("COMMIT PREPARED '{name}'"))?;
    }
    Ok(())
}

/// All sessions until so many transactions are committed in all, the time is over, or something is wrong.
fn work(
    cluster: &mut Cluster,
    shared: &Shared,
    seed: u64,
    (until, time): (u64, Duration),
    kill: bool,
) -> Result<()> {
    shared.stop.store(false, Ordering::Relaxed);
    thread::scope(|scope| {
        let mut sessions: Vec<_> = (0..SESSIONS)
            .map(|session| scope.spawn(move || change_until(shared, seed + session, session)))
            .collect();
        sessions.push(scope.spawn(move || refresh_until(shared, seed + 50)));
        sessions.push(scope.spawn(move || compare_until(shared, seed + 60)));
        let deadline = Instant::now() + time;
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
            Err(_) if client.is_closed() => return Err("the connection is closed".into()),
            Err(error) if is_conflict(error.as_ref()) || is_in_the_way(error.as_ref()) => {
                client
                    .batch_execute("ROLLBACK")
                    .map_err(|e| format!("connection: {e}"))?;
            }
            Err(error) => return Err(describe(error.as_ref())),
        }
    }
    Ok(())
}

/// lock_not_available; check_violation, where a row has no partition now; undefined_table, invalid_object_definition and
/// wrong_object_type, where another session has taken the partition, or put it back.
fn is_in_the_way(error: &(dyn std::error::Error + 'static)) -> bool {
    sqlstate(error)
        .is_some_and(|code| ["55P03", "23514", "42P01", "42P17", "42809"].contains(&code))
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
        client.batch_execute("COMMIT")?;
        shared.compared.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
}

fn refresh_until(shared: &Shared, seed: u64) -> Ended {
    let mut random = Random::new(seed);
    repeat(shared, |client| {
        let (name, _) = random.pick(&ROLLUPS);
        match random.integer(0, 10) {
            0 => {
                let tables = tables(shared.partitioned);
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
    repeat(shared, |client| {
        number += 1;
        transaction(
            client,
            shared,
            &mut random,
            &format!("p{seed}_{session}_{number}"),
        )?;
        shared.committed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })
}

fn transaction(
    client: &mut Client,
    shared: &Shared,
    random: &mut Random,
    name: &str,
) -> Result<()> {
    let level = random.pick(&[
        "READ COMMITTED",
        "READ COMMITTED",
        "REPEATABLE READ",
        "SERIALIZABLE",
    ]);
    client.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}"))?;
    if random.one_in(400) {
        client.batch_execute("TRUNCATE readings")?;
    }
    if shared.partitioned && random.one_in(20) {
        let statement = change_of_partitions(random);
        client.batch_execute(&statement)?;
        expect_equal_rollup(client, any_rollup(random))?;
    }
    for _ in 0..random.integer(1, 4) {
        let saved = random.one_in(4);
        if saved {
            client.batch_execute("SAVEPOINT s")?;
        }
        let statement = statement(shared, random);
        client.batch_execute(&statement)?;
        if saved {
            let end = *random.pick(&["ROLLBACK TO s", "RELEASE s"]);
            client.batch_execute(end)?;
        }
        if random.one_in(3) {
            expect_equal_rollup(client, any_rollup(random))?;
        }
    }
    match random.integer(0, 12) {
        0 => client.batch_execute("ROLLBACK")?,
        1 => {
            client.batch_execute(&format!("PREPARE TRANSACTION '{name}'"))?;
            let compared = match random.one_in(2) {
                true => expect_equal_rollup(client, any_rollup(random)),
                false => Ok(()),
            };
            let end = random.pick(&["COMMIT", "ROLLBACK"]);
            client.batch_execute(&format!("{end} PREPARED '{name}'"))?;
            compared?;
        }
        _ => client.batch_execute("COMMIT")?,
    }
    expect_equal_rollup(client, any_rollup(random))?;
    if random.one_in(50) {
        thin_out(client)?;
    }
    Ok(())
}

/// Takes a partition, or puts it back, changed or not; empties it, or makes it anew.
fn change_of_partitions(random: &mut Random) -> String {
    let part = random.integer(0, PARTITIONS);
    let bounds = bounds(part);
    let detach = format!("ALTER TABLE readings DETACH PARTITION part_{part}");
    let attach = format!("ALTER TABLE readings ATTACH PARTITION part_{part} {bounds}");
    match random.integer(0, 6) {
        0 => format!("TRUNCATE part_{part}"),
        1 => format!(
            "DROP TABLE part_{part}; CREATE TABLE part_{part} PARTITION OF readings {bounds} USING varve;
             CREATE INDEX ON part_{part} USING varve (device, time)"
        ),
        2 => format!("{detach}; DELETE FROM part_{part} WHERE value % 3 = 0; {attach}"),
        _ => format!(
            "DO $$ BEGIN
                 IF EXISTS (SELECT FROM pg_inherits WHERE inhrelid = 'part_{part}'::regclass) THEN {detach}; ELSE {attach}; END IF;
             END $$"
        ),
    }
}

fn any_rollup(random: &mut Random) -> usize {
    random.integer(0, ROLLUPS.len() as i64) as usize
}

/// A random change. Most rows come at the newest time, some late.
fn statement(shared: &Shared, random: &mut Random) -> String {
    let device = random.integer(0, 7);
    let newest = shared.newest.load(Ordering::Relaxed) as i64;
    let hour = random.integer(0, HOURS);
    let at = |hour: i64| format!("('2026-01-01'::timestamptz + interval '{hour} hours')");
    let rows = |from: i64, count: i64| {
        format!(
            "INSERT INTO readings SELECT {} + i * interval '47 seconds', 'd{device}', i % 29, i % 64 / 4.0
             FROM generate_series(1, {count}) i",
            at(from)
        )
    };
    match random.integer(0, 10) {
        0..=2 => {
            if random.one_in(8) {
                shared.newest.fetch_add(1, Ordering::Relaxed);
            }
            rows(newest, random.integer(1, 20))
        }
        3 => rows(hour, random.integer(1, 5)),
        4 if random.one_in(3) => rows(hour, random.integer(500, 600)),
        5 => format!(
            "UPDATE readings SET value = value + 1 WHERE device = 'd{device}' AND time >= {} AND time < {}",
            at(hour),
            at(hour + 2)
        ),
        6 => format!(
            "UPDATE readings SET time = time + interval '{} hours' WHERE device = 'd{device}' AND time >= {} AND time < {}",
            random.integer(-30, 30),
            at(hour),
            at(hour + 1)
        ),
        7 | 8 => format!(
            "DELETE FROM readings WHERE device = 'd{device}' AND time >= {} AND time < {}",
            at(hour),
            at(hour + random.integer(1, 12))
        ),
        _ => format!(
            "DO $$ BEGIN {}; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN {}; END $$",
            rows(hour, 3),
            rows(newest, 2)
        ),
    }
}

/// Keeps comparing quick.
fn thin_out(client: &mut Client) -> Result<()> {
    let rows: i64 = client
        .query_one("SELECT count(*) FROM readings", &[])?
        .get(0);
    if rows > MOST_ROWS {
        client.batch_execute("DELETE FROM readings WHERE value % 4 <> 0")?;
    }
    Ok(())
}
