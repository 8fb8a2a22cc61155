//! What goes on around workers: a standby, a server without room for them, the extension that comes and goes, signals.

use super::{await_true, await_worker};
use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::Result;
use postgres::Client;
use std::sync::Arc;
use std::time::{Duration, Instant};

const TABLE: &str =
    "CREATE TABLE t(time timestamptz NOT NULL, host text NOT NULL, value float8) USING varve;
     CREATE INDEX ON t USING varve (host, time)";
const ROWS: &str = "DO $$ BEGIN FOR i IN 1..3000 LOOP
     INSERT INTO t VALUES ('2026-01-01'::timestamptz + i * interval '1 s', 'h' || i % 5, i); COMMIT;
     END LOOP; END $$";
const COMPRESSED: &str = "SELECT rows < 500 FROM varve.stats('t') WHERE part = 'tail'";
const WORKERS: &str = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'varve worker'";
/// A signal is answered within a tenth of a second; the machine may be busy with other things.
const PROMPTLY: Duration = Duration::from_millis(1_000);

pub fn run(tree: &Arc<Tree>, report: &mut Report) -> Result<()> {
    report.check("worker/standby", standby(tree));
    report.check("worker/no room", no_room(tree));
    report.check("worker/invalid database", invalid_database(tree));
    report.check("worker/behind", behind(tree));
    report.check("worker/signals", signals(tree));
    report.check("worker/switched off in a refresh", refresh(tree));
    report.check("worker/makes way at the end of a file", makes_way(tree));
    report.check("worker/a refresh that waits", waiting(tree));
    report.check("worker/extension comes and goes", extension(tree));
    Ok(())
}

/// Nothing runs on a standby, with the library preloaded; once promoted and written to, it compacts what the primary had left too.
/// What was written before, statistics of a standby do not know.
fn standby(tree: &Arc<Tree>) -> Result<()> {
    let preloaded = [
        "varve.worker = off",
        "shared_preload_libraries = 'varve'",
        "varve.seal_after = '0'",
    ];
    let primary = Cluster::create(tree, &preloaded)?;
    let mut client = primary.database("sleeping")?;
    client.batch_execute(TABLE)?;
    client.batch_execute(ROWS)?;
    let mut standby = primary.base_backup(true)?;
    standby.configure(&["varve.worker = on"])?;
    standby.start()?;
    let mut reader = standby.connect("sleeping")?;
    reader.batch_execute("SELECT count(*) FROM t")?;
    std::thread::sleep(Duration::from_secs(3));
    let workers: i64 = reader.query_one(WORKERS, &[])?.get(0);
    if workers > 0 || reader.query_one(COMPRESSED, &[])?.get(0) {
        return Err("a standby has a worker".into());
    }
    reader.execute("SELECT pg_promote()", &[])?;
    reader.batch_execute(ROWS)?;
    await_true(&mut reader, "compressed once promoted", COMPRESSED)
}

/// The launcher leaves alone what an interrupted DROP DATABASE has left behind.
fn invalid_database(tree: &Arc<Tree>) -> Result<()> {
    let preloaded = ["varve.worker = on", "shared_preload_libraries = 'varve'"];
    let cluster = Cluster::create(tree, &preloaded)?;
    let mut client = cluster.connect("postgres")?;
    client.batch_execute("CREATE DATABASE half_dropped ALLOW_CONNECTIONS false")?;
    client.batch_execute(
        "UPDATE pg_database SET datallowconn = true, datconnlimit = -2 WHERE datname = 'half_dropped'",
    )?;
    // It visits one database a second.
    std::thread::sleep(Duration::from_secs(5));
    match cluster.log_end()?.contains("half_dropped") {
        false => Ok(()),
        true => Err("the launcher has started a worker for an invalid database".into()),
    }
}

/// Without a free process the log says what to do, once, and writers go on.
fn no_room(tree: &Arc<Tree>) -> Result<()> {
    let full = [
        "varve.worker = on",
        "max_worker_processes = 0",
        "varve.seal_after = '0'",
    ];
    let cluster = Cluster::create(tree, &full)?;
    let mut client = cluster.database("crowded")?;
    client.batch_execute(TABLE)?;
    client.batch_execute(ROWS)?;
    client.batch_execute("ANALYZE t")?;
    client.batch_execute(ROWS)?;
    // Who was refused asks once more before it says so.
    std::thread::sleep(Duration::from_millis(300));
    client.batch_execute("SELECT 1")?;
    let log = cluster.log_end()?;
    let lines = log.matches("raise max_worker_processes").count();
    let rows: i64 = client.query_one("SELECT count(*) FROM t", &[])?.get(0);
    match (lines, rows) {
        (1, 6_000) => Ok(()),
        _ => Err(format!("{lines} lines in the log, {rows} rows").into()),
    }
}

/// Where rows have piled up, the gauge shows it and the log says it.
fn behind(tree: &Arc<Tree>) -> Result<()> {
    let slow = ["varve.worker = off", "varve.seal_rows = 100"];
    let cluster = Cluster::create(tree, &slow)?;
    let mut client = cluster.database("behind")?;
    client.batch_execute(TABLE)?;
    for _ in 0..2 {
        client.batch_execute(ROWS)?;
    }
    client.batch_execute("SELECT pg_stat_force_next_flush()")?;
    await_true(
        &mut client,
        "a gauge",
        "SELECT rounds_behind = 60 AND oldest IS NULL FROM varve.jobs WHERE kind = 'compact'",
    )?;
    client.batch_execute("ALTER SYSTEM SET varve.worker = on")?;
    client.batch_execute("SELECT pg_reload_conf()")?;
    let mut other = cluster.connect("behind")?;
    other.batch_execute("ANALYZE t")?;
    await_true(&mut other, "compressed", COMPRESSED)?;
    let log = cluster.log_end()?;
    if !log.contains("6000 changes of table \"t\" wait for compaction, which is 60 rounds behind") {
        return Err(format!("not in the log: {log}").into());
    }
    Ok(())
}

/// Compact waits for readers before it cuts the end of a file, and meanwhile makes way for those who want its lock.
fn makes_way(tree: &Arc<Tree>) -> Result<()> {
    let cluster = Cluster::create(tree, &["varve.worker = off", "varve.batch_rows = 1000000"])?;
    let mut client = cluster.database("way")?;
    client.batch_execute(TABLE)?;
    client.batch_execute(
        "INSERT INTO t SELECT '2026-01-01'::timestamptz + i * interval '1 s', 'h' || i % 5, i FROM generate_series(1, 50000) i",
    )?;
    let mut reader = cluster.connect("way")?;
    reader.batch_execute("BEGIN; SELECT FROM t LIMIT 1")?;
    let mut compacting = cluster.connect("way")?;
    let compact = std::thread::spawn(move || {
        let outcome = compacting.batch_execute("CALL varve.compact('t')");
        outcome.map(|()| compacting)
    });
    await_true(
        &mut client,
        "compact waits at the end of the file",
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'VacuumTruncate')",
    )?;
    // Readers have no part in this conflict.
    let outcome =
        client.batch_execute("SET lock_timeout = '2s'; BEGIN; LOCK TABLE t IN SHARE MODE; COMMIT");
    let compacting = compact.join().expect("BUG: the thread has panicked");
    outcome?;
    reader.batch_execute("COMMIT")?;
    compacting?.batch_execute("CALL varve.compact('t')")?;
    let small = "SELECT pg_relation_size('t') < 400000 AND relpages * 8192 = pg_relation_size('t') FROM pg_class WHERE relname = 't'";
    match client.query_one(small, &[])?.get(0) {
        true => Ok(()),
        false => Err("the file has kept its end, or pg_class does not know".into()),
    }
}

/// So many tail rows that a worker is busy with them for a while.
const MANY_ROWS: &str = "DO $$ BEGIN FOR i IN 1..600 LOOP
        INSERT INTO t SELECT '2026-02-01'::timestamptz + i * interval '1 h' + g * interval '1 s', 'd' || g % 40, g
        FROM generate_series(1, 400) g;
    END LOOP; END $$";

/// SIGTERM ends a worker, and a configuration that switches it off does: one that waits, and one in the middle of a round.
fn signals(tree: &Arc<Tree>) -> Result<()> {
    let cluster = Cluster::create(tree, &["varve.worker = on", "varve.seal_after = '0'"])?;
    let mut client = cluster.database("signals")?;
    client.batch_execute(TABLE)?;
    client.batch_execute(ROWS)?;
    let terminate = |client: &mut Client, worker: i32| -> Result<()> {
        client.execute("SELECT pg_terminate_backend($1)", &[&worker])?;
        Ok(())
    };
    let switch_off = |client: &mut Client, _: i32| -> Result<()> {
        client.batch_execute("ALTER SYSTEM SET varve.worker = off")?;
        client.batch_execute("SELECT pg_reload_conf()")?;
        Ok(())
    };
    let idle = "SELECT NOT EXISTS (SELECT FROM varve.jobs WHERE due)";
    let busy = "SELECT EXISTS (SELECT FROM varve.progress WHERE by_worker)";
    answer(&cluster, "SIGTERM, idle", idle, terminate)?;
    answer(&cluster, "SIGHUP, idle", idle, switch_off)?;
    // Rows come while no worker runs: one that does would be through with them as soon as they are all there.
    let mut give_work = || -> Result<()> {
        switch_off(&mut client, 0)?;
        client.batch_execute(MANY_ROWS)?;
        client.batch_execute("ALTER SYSTEM RESET varve.worker")?;
        Ok(client.batch_execute("SELECT pg_reload_conf()")?)
    };
    give_work()?;
    answer(&cluster, "SIGTERM, busy", busy, terminate)?;
    give_work()?;
    answer(&cluster, "SIGHUP, busy", busy, switch_off)
}

/// How soon a worker that has been started has gone again.
fn answer(
    cluster: &Cluster,
    what: &str,
    state: &str,
    signal: impl Fn(&mut Client, i32) -> Result<()>,
) -> Result<()> {
    let mut client = cluster.connect("signals")?;
    client.batch_execute("ANALYZE t")?;
    let worker = await_worker(&mut client)?;
    await_true(&mut client, what, state)?;
    let start = Instant::now();
    signal(&mut client, worker)?;
    await_gone(&mut client, worker, start, what)?;
    println!("worker: {what}: gone after {:?}", start.elapsed());
    Ok(())
}

fn await_gone(client: &mut Client, worker: i32, start: Instant, signal: &str) -> Result<()> {
    let gone = format!("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = {worker}");
    loop {
        if client.query_one(&gone, &[])?.get(0) {
            return Ok(());
        }
        if start.elapsed() > PROMPTLY {
            return Err(format!("the worker is there {:?} after {signal}", start.elapsed()).into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A worker that is switched off in the middle of a refresh keeps what it has stored, and the next one goes on there.
fn refresh(tree: &Arc<Tree>) -> Result<()> {
    // Each slice is a transaction, and there are some thousand.
    let slices = ["varve.worker = off", "varve.refresh_round = 0"];
    let cluster = Cluster::create(tree, &slices)?;
    let mut client = cluster.database("refreshed")?;
    client.batch_execute(TABLE)?;
    client.batch_execute(
        "INSERT INTO t SELECT '2026-01-01'::timestamptz + i * interval '1 min', 'h' || i % 5, i FROM generate_series(1, 40000) i;
         CREATE VIEW truth AS SELECT time_bucket('1 min', time) AS bucket, sum(value) AS sum FROM t GROUP BY bucket;
         SELECT varve.create_rollup('r', 'SELECT time_bucket(''1 min'', time) AS bucket, sum(value) AS sum FROM t GROUP BY bucket')",
    )?;
    let switch = |client: &mut Client, on: &str| -> Result<()> {
        client.batch_execute(&format!("ALTER SYSTEM SET varve.worker = {on}"))?;
        Ok(client.batch_execute("SELECT pg_reload_conf()")?)
    };
    switch(&mut client, "on")?;
    let mut other = cluster.connect("refreshed")?;
    other.batch_execute("ANALYZE t")?;
    let worker = await_worker(&mut other)?;
    let begun = "SELECT watermark NOT IN (SELECT '-infinity' UNION SELECT max(time)::text FROM t) FROM varve.rollups";
    await_true(&mut other, "a refresh that has begun", begun)?;
    let start = Instant::now();
    switch(&mut client, "off")?;
    await_gone(&mut client, worker, start, "varve.worker = off")?;
    println!("worker: in a refresh: gone after {:?}", start.elapsed());
    let stored = |client: &mut Client| -> Result<i64> {
        Ok(client
            .query_one("SELECT count(*) FROM r_stored", &[])?
            .get(0))
    };
    let equal = "SELECT NOT EXISTS (TABLE truth EXCEPT TABLE r) AND NOT EXISTS (TABLE r EXCEPT TABLE truth)";
    let before = stored(&mut client)?;
    if before == 0 || before >= 39_999 || !client.query_one(equal, &[])?.get::<_, bool>(0) {
        return Err(format!("{before} buckets are stored, or not those of the query").into());
    }
    client.batch_execute("ALTER SYSTEM SET varve.refresh_round = '2s'")?;
    switch(&mut client, "on")?;
    other.batch_execute("ANALYZE t")?;
    await_true(
        &mut other,
        "the rest",
        "SELECT count(*) = 39999 FROM r_stored",
    )?;
    await_true(&mut other, "the same", equal)
}

/// Transactions that write for long keep a refresh waiting, and no other job.
fn waiting(tree: &Arc<Tree>) -> Result<()> {
    let settings = ["varve.worker = off", "varve.seal_after = '0'"];
    let cluster = Cluster::create(tree, &settings)?;
    let mut client = cluster.database("waited_for")?;
    client.batch_execute(TABLE)?;
    client
        .batch_execute("CREATE TABLE source(time timestamptz NOT NULL, value int) USING varve")?;
    for name in ["a", "b", "c", "d"] {
        client.batch_execute(&format!(
            "SELECT varve.create_rollup('{name}', 'SELECT time_bucket(''1 hour'', time) AS hour, sum(value) AS sum FROM source GROUP BY hour')"
        ))?;
    }
    let rows = "INSERT INTO source SELECT '2026-01-01'::timestamptz + i * interval '1 min', i FROM generate_series(1, 1000) i";
    client.batch_execute(rows)?;
    let mut writer = cluster.connect("waited_for")?;
    let mut writer = writer.transaction()?;
    writer.batch_execute("INSERT INTO source VALUES ('2026-01-02', 1)")?;
    client.batch_execute("ALTER SYSTEM SET varve.worker = on")?;
    client.batch_execute("SELECT pg_reload_conf()")?;
    client.batch_execute("ANALYZE source")?;
    let refreshing = "SELECT count(*) > 0 FROM varve.progress WHERE kind = 'refresh'";
    await_true(&mut client, "a refresh that waits", refreshing)?;
    client.batch_execute(ROWS)?;
    let start = Instant::now();
    await_true(&mut client, "compressed meanwhile", COMPRESSED)?;
    if start.elapsed() > Duration::from_secs(45) {
        return Err(format!("compaction waited {:?} for refreshes", start.elapsed()).into());
    }
    writer.commit()?;
    await_true(
        &mut client,
        "refreshed after all",
        "SELECT count(*) = 4 FROM varve.rollups WHERE watermark <> '-infinity'",
    )
}

/// The extension goes and comes while there is a worker, and is updated.
fn extension(tree: &Arc<Tree>) -> Result<()> {
    let cluster = Cluster::create(tree, &["varve.worker = on", "varve.seal_after = '0'"])?;
    let mut client = cluster.database("coming")?;
    for _ in 0..3 {
        client.batch_execute(TABLE)?;
        client.batch_execute(ROWS)?;
        let mut other = cluster.connect("coming")?;
        other.batch_execute("ANALYZE t")?;
        await_worker(&mut other)?;
        client.batch_execute("ALTER EXTENSION varve UPDATE")?;
        client.batch_execute("DROP EXTENSION varve CASCADE")?;
        client.batch_execute("CREATE EXTENSION varve")?;
    }
    client.batch_execute(TABLE)?;
    client.batch_execute(ROWS)?;
    let mut other = cluster.connect("coming")?;
    other.batch_execute("ANALYZE t")?;
    await_true(&mut other, "compressed after all", COMPRESSED)?;
    let log = cluster.log_end()?;
    match log
        .lines()
        .find(|line| line.contains("PANIC") || line.contains("terminated by signal"))
    {
        Some(line) => Err(line.into()),
        None => Ok(()),
    }
}
